//! A forecast from one run. The run is divided into measurement windows; in some of them the kernel places the threads, in others cox's packer.

use ledger::summary;

use super::estimate::{Estimate, sampling_error};
use super::{Basis, Choice, Forecast, Refusal, Way};
use crate::thresholds::IMBALANCE_FACTOR;

/// The scheduler that placed the threads in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// The kernel, which has just begun to place the threads. The work in the window counts as work of the run, but the efficiency of the window is
    /// ignored, because the kernel's placement has not settled yet.
    Settling,
    /// The kernel.
    Kernel,
    /// The packer.
    Packer,
}

/// A measurement window of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The scheduler that placed the threads.
    pub placing: Placing,
    /// Length of this measurement window, in nanoseconds.
    pub length_ns: u64,
    /// CPU time of the program's threads in the window, in nanoseconds.
    pub run_ns: u64,
    /// Number of samples of running threads.
    pub samples: u64,
    /// Samples of threads that spun, or were going to sleep or waking up.
    pub waiting: u64,
    /// True if more threads wanted to run than there were CPUs.
    pub oversubscribed: bool,
}

/// A run, divided into windows.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Number of CPUs that the run had.
    pub cpus: u64,
    /// Number of threads that wanted to run (ran, or waited for a CPU): the largest of all windows.
    pub threads: u64,
    /// The windows, in order.
    pub windows: Vec<Window>,
    /// For each thread, the number of samples in which it worked. Only samples from windows with more runnable threads than CPUs are counted.
    pub worked: Vec<u64>,
    /// Whether the number of threads can be set: the program uses an OpenMP runtime or was given OMP_NUM_THREADS.
    pub accepts: bool,
    /// The packer continues to pack if the speed-up is at least this factor.
    pub worth: f64,
    /// How long the packer only observes at the start, in nanoseconds.
    pub first_look_ns: u64,
    /// Part of the CPUs' time that other programs used. The forecast assumes that they continue.
    pub others: f64,
}

/// Forecasts ignore a load of other programs that is smaller than this part of the CPUs' time: it is housekeeping of the system, or an error of the
/// kernel's tick-based accounting.
const HOUSEKEEPING: f64 = 0.02;

/// Largest load of other programs that a forecast assumes.
const MOST_OTHERS: f64 = 0.9;

/// Relative error that is added to each forecast for differences between runs and for the overhead of observing. The spread of the windows of one
/// run shows neither.
const FLOOR: f64 = 0.03;

/// Likely factor by which barriers lengthen a run with as many threads as CPUs: at each barrier, the threads wait for the last thread to arrive.
const MEETING: f64 = 1.03;

/// Largest factor by which barriers lengthen a run with as many threads as CPUs, if the work is equal.
pub const MEETING_AT_MOST: f64 = 1.12;

/// Shortest run for a forecast. In a shorter run, even the number of threads is unreliable: in each measurement window, some thread may already have
/// ended.
const LEAST_NS: u64 = 250_000_000;

/// Computes the forecast for each way to run the program ([`Way`]).
///
/// # Errors
/// If the program has a CPU for each thread, so that there is nothing to pack, or if too little was observed.
pub fn forecast(trial: &Trial) -> Result<Forecast, Refusal> {
    if trial.windows.iter().map(|window| window.length_ns).sum::<u64>() < LEAST_NS {
        return Err(Refusal::TooShort { oversubscribed_ns: trial.oversubscribed_ns() });
    }
    if trial.threads <= 1 {
        return Err(Refusal::SingleThreaded);
    }
    if trial.threads <= trial.cpus {
        return Err(Refusal::NothingToPack { threads: trial.threads, cpus: trial.cpus });
    }
    let sums = Sums::of(trial).ok_or(Refusal::TooShort { oversubscribed_ns: trial.oversubscribed_ns() })?;
    let choices = vec![sums.fewer_threads(trial), sums.taskset(trial), sums.packing(trial)];
    Ok(Forecast::new(trial.threads, trial.cpus, sums.bound_ns(), choices))
}

impl Trial {
    fn oversubscribed_ns(&self) -> u64 {
        self.windows.iter().filter(|window| window.oversubscribed).map(|window| window.length_ns).sum()
    }

    /// Returns the work of the busiest thread relative to the average: 1 if the work is equal. The figure is sampled, so a value slightly above 1 is
    /// noise.
    fn inequality(&self) -> f64 {
        let all: u64 = self.worked.iter().sum();
        let most = self.worked.iter().copied().max().unwrap_or(0);
        if all == 0 { 1.0 } else { (most as f64 * self.threads as f64 / all as f64).max(1.0) }
    }
}

struct Sums {
    cpus: f64,
    /// Average number of CPUs that other programs leave free.
    left: f64,
    /// Time in which the program had a CPU for each thread that wanted to run, as in serial parts. Packing does not change this time.
    alone_ns: f64,
    /// Useful CPU time in those measurement windows in which more threads than CPUs wanted to run.
    work_ns: f64,
    /// Relative error of the useful CPU time.
    work_error: f64,
    kernel: Estimate,
    packer: Option<Estimate>,
}

impl Sums {
    /// Returns the sums. Returns `None` if there was no work, or if there were too few windows to compute an error: fewer than two in which the
    /// kernel placed the threads, or a single one in which the packer did.
    fn of(trial: &Trial) -> Option<Sums> {
        let oversubscribed: Vec<&Window> = trial.windows.iter().filter(|window| window.oversubscribed).collect();
        let of = |placing| oversubscribed.iter().copied().filter(move |window| window.placing == placing);
        let kernel = efficiency(of(Placing::Kernel), trial.cpus)?;
        let tried = of(Placing::Packer).next().is_some();
        let packer = efficiency(of(Placing::Packer), trial.cpus);
        if tried && packer.is_none() {
            return None;
        }
        // Windows without a sample, because they were too short, are assumed to be like the others.
        let part = part_of_samples(oversubscribed.iter().copied(), |window| window.waiting);
        let useful = |window: &&Window| window.run_ns as f64 * (1.0 - waiting(window).unwrap_or(part));
        let work_ns: f64 = oversubscribed.iter().map(useful).sum();
        let samples: u64 = oversubscribed.iter().map(|window| window.samples).sum();
        let alone = trial.windows.iter().filter(|window| !window.oversubscribed);
        let others = if trial.others > HOUSEKEEPING { trial.others.min(MOST_OTHERS) } else { 0.0 };
        Some(Sums {
            cpus: trial.cpus as f64,
            left: trial.cpus as f64 * (1.0 - others),
            alone_ns: alone.map(|window| window.length_ns as f64).sum(),
            work_ns,
            work_error: sampling_error(part, samples) / (1.0 - part).max(1e-3),
            kernel,
            packer,
        })
        .filter(|sums| sums.kernel.value > 0.0 && sums.work_ns > 0.0)
    }

    fn bound_ns(&self) -> f64 {
        self.alone_ns + self.work_ns / self.cpus
    }

    /// Returns the low, likely and high time in ns for a given efficiency (useful part of the CPUs' time).
    fn times(&self, efficiency: Estimate) -> [f64; 3] {
        let relative = 2.0 * efficiency.relative().hypot(self.work_error) + FLOOR;
        let oversubscribed_ns = self.work_ns / (self.cpus * efficiency.value);
        // The time is work ÷ (CPUs × efficiency). With an efficiency that is 10 % lower it is 11 % longer; with one that is 10 % higher it is only
        // 9 % shorter. So the range is wider on the slow side.
        let slower = if relative < 0.9 { 1.0 / (1.0 - relative) } else { 10.0 };
        [1.0 / (1.0 + relative), 1.0, slower].map(|factor| self.alone_ns + oversubscribed_ns * factor)
    }

    fn taskset(&self, trial: &Trial) -> Choice {
        Choice::new(Way::Taskset, trial.threads, self.bound_ns(), self.times(self.kernel), Basis::Measured)
    }

    fn packing(&self, trial: &Trial) -> Choice {
        let unpacked = |note: &str| Choice { way: Way::Packing, ..self.taskset(trial) }.noting(note);
        let Some(packer) = self.packer else { return unpacked("the kernel places the threads") };
        if packer.value < self.kernel.value * trial.worth {
            return unpacked("tried, but the gain is too small");
        }
        // At the start of a run, the packer only observes, and the kernel places the threads. `lost_ns` is the time that the program loses
        // during this first observation, because the kernel's placement is less efficient than the packer's.
        let [_, kernel_ns, _] = self.times(self.kernel);
        let look_ns = (trial.first_look_ns as f64).min(kernel_ns - self.alone_ns);
        let lost_ns = look_ns * (1.0 - self.kernel.value / packer.value);
        let times = self.times(packer).map(|ns| ns + lost_ns);
        Choice::new(Way::Packing, trial.threads, self.bound_ns(), times, Basis::Measured)
    }

    fn fewer_threads(&self, trial: &Trial) -> Choice {
        let oversubscribed_ns = self.work_ns / self.left;
        let unequal = trial.inequality();
        // A small inequality of the threads' work is sampling noise. If it is larger, the work may become equal or stay unequal when the program is
        // started with fewer threads; the predicted range covers both cases.
        let (likely, most) = if unequal > IMBALANCE_FACTOR {
            (MEETING * (1.0 + unequal) / 2.0, MEETING_AT_MOST * unequal)
        } else {
            (MEETING, MEETING_AT_MOST)
        };
        let sure = 1.0 - (2.0 * self.work_error + FLOOR);
        let times = [sure, likely, most].map(|factor| self.alone_ns + oversubscribed_ns * factor);
        let choice = Choice::new(Way::FewerThreads, trial.cpus, self.bound_ns(), times, Basis::Modelled);
        choice.noting(setting(trial.accepts, trial.cpus))
    }
}

/// Returns the note on setting the number of threads.
pub(super) fn setting(accepts: bool, cpus: u64) -> String {
    if accepts { format!("OMP_NUM_THREADS={cpus}") } else { format!("if it accepts {cpus} threads") }
}

fn waiting(window: &Window) -> Option<f64> {
    (window.samples > 0).then(|| window.waiting as f64 / window.samples as f64)
}

/// Returns a share of the samples in `windows`: the sum of the numbers that `counted` returns for each window, divided by the number of samples.
fn part_of_samples<'w>(windows: impl Iterator<Item = &'w Window>, counted: impl Fn(&Window) -> u64) -> f64 {
    let (part, all) = windows.fold((0, 0), |sum, window| (sum.0 + counted(window), sum.1 + window.samples));
    summary::share(part, all)
}

/// Returns the useful part of the CPUs' time in `windows`, with its error.
fn efficiency<'w>(windows: impl Iterator<Item = &'w Window> + Clone, cpus: u64) -> Option<Estimate> {
    let part = part_of_samples(windows.clone(), |window| window.waiting);
    let samples = windows.clone().map(|window| window.samples).sum();
    let there_ns = |window: &Window| (cpus * window.length_ns) as f64;
    let useful = |window: &Window| {
        let useful_ns = window.run_ns as f64 * (1.0 - waiting(window).unwrap_or(part));
        (useful_ns / there_ns(window).max(1.0), window.length_ns as f64)
    };
    let values: Vec<(f64, f64)> = windows.clone().map(useful).collect();
    let all_ns: f64 = windows.clone().map(there_ns).sum();
    let busy = windows.map(|window| window.run_ns as f64).sum::<f64>() / all_ns.max(1.0);
    Some(Estimate::of(&values)?.with_error(busy * sampling_error(part, samples)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn window(placing: Placing, length_ms: u64, busy: f64, waiting: u64) -> Window {
        let run_ns = (2.0 * (length_ms * MS) as f64 * busy) as u64;
        Window { placing, length_ns: length_ms * MS, run_ns, samples: 1000, waiting, oversubscribed: true }
    }

    /// 1 s by the kernel, all busy, 60 % of it waiting; 1 s packed, 90 % busy, of that 10 % waiting. Useful: 0.8
    /// + 1.62 CPU-seconds.
    fn spinning() -> Trial {
        let windows =
            [vec![window(Placing::Kernel, 250, 1.0, 600); 4], vec![window(Placing::Packer, 250, 0.9, 100); 4]];
        Trial {
            cpus: 2,
            threads: 3,
            windows: windows.concat(),
            worked: vec![400, 410, 390],
            worth: 1.05,
            ..Trial::default()
        }
    }

    fn choice(trial: &Trial, way: Way) -> Choice {
        forecast(trial).unwrap().choices.into_iter().find(|choice| choice.way == way).unwrap()
    }

    fn about(ns: u64, seconds: f64) -> bool {
        (ns as f64 / 1e9 / seconds - 1.0).abs() < 1e-3
    }

    #[test]
    fn time_is_work_by_efficiency() {
        let forecast = forecast(&spinning()).unwrap();
        assert!(about(forecast.bound_ns, 1.21), "{forecast:?}");
        let times: Vec<(Way, bool)> = forecast
            .choices
            .iter()
            .map(|choice| {
                let expected = match choice.way {
                    Way::FewerThreads => 1.21 * MEETING,
                    Way::Packing => 1.21 / 0.81,
                    Way::Taskset => 1.21 / 0.4,
                    _ => 0.0,
                };
                (choice.way, about(choice.time_ns, expected))
            })
            .collect();
        assert_eq!(times, [(Way::FewerThreads, true), (Way::Packing, true), (Way::Taskset, true)], "{forecast:?}");
        for choice in &forecast.choices {
            assert!(choice.low_ns < choice.time_ns && choice.time_ns < choice.high_ns, "{choice:?}");
            assert!((choice.of_bound - 1.21e9 / choice.time_ns as f64).abs() < 1e-6);
        }
    }

    #[test]
    fn serial_time_is_the_same_for_all() {
        let mut trial = spinning();
        let alone = Window { oversubscribed: false, run_ns: 2000 * MS, ..window(Placing::Kernel, 2000, 0.5, 0) };
        trial.windows.push(alone);
        let before = forecast(&spinning()).unwrap();
        let with = forecast(&trial).unwrap();
        for (before, with) in before.choices.iter().zip(&with.choices) {
            assert_eq!(before.way, with.way);
            assert!(with.time_ns.abs_diff(before.time_ns + 2000 * MS) < 1000, "{with:?}");
        }
    }

    #[test]
    fn settling_counts_as_work_only() {
        let mut trial = spinning();
        trial.windows.push(window(Placing::Settling, 500, 1.0, 0));
        // One CPU-second more of work, the same efficiency.
        assert!(about(choice(&trial, Way::Taskset).time_ns, 1.71 / 0.4));
    }

    #[test]
    fn the_packer_rests_where_it_wins_nothing() {
        let mut trial = spinning();
        trial.windows.retain(|window| window.placing == Placing::Kernel);
        let (packing, taskset) = (choice(&trial, Way::Packing), choice(&trial, Way::Taskset));
        assert_eq!((packing.time_ns, packing.high_ns), (taskset.time_ns, taskset.high_ns));
        assert!(packing.note.unwrap().contains("the kernel places the threads"));
        trial.windows.extend([window(Placing::Packer, 250, 0.4, 0); 4]);
        assert_eq!(choice(&trial, Way::Packing).time_ns, choice(&trial, Way::Taskset).time_ns, "0.40 is not worth it");
        assert_eq!(forecast(&trial).unwrap().choices[1].way, Way::Taskset, "the simpler of two equals");
    }

    #[test]
    fn the_first_look_is_paid_for() {
        let trial = Trial { first_look_ns: 240 * MS, ..spinning() };
        let lost_ns = 0.24e9 * (1.0 - 0.4 / 0.81);
        let found = choice(&trial, Way::Packing).time_ns - choice(&spinning(), Way::Packing).time_ns;
        assert!((found as f64 - lost_ns).abs() < 1e3, "{found}");
    }

    #[test]
    fn windows_that_differ_widen_the_range() {
        let mut trial = spinning();
        let narrow = choice(&trial, Way::Taskset);
        trial.windows[0].waiting = 900;
        trial.windows[1].waiting = 300;
        let wide = choice(&trial, Way::Taskset);
        let width = |choice: &Choice| (choice.high_ns - choice.low_ns) as f64 / choice.time_ns as f64;
        assert!(about(wide.time_ns, 1.21 / 0.4) && width(&wide) > width(&narrow) * 2.0, "{wide:?} {narrow:?}");
    }

    /// What was measured was measured beside them; what is modelled has to be told.
    #[test]
    fn other_programs_go_on() {
        let trial = Trial { others: 0.25, ..spinning() };
        assert!(about(forecast(&trial).unwrap().bound_ns, 1.21), "they need not go on for ever");
        assert!(about(choice(&trial, Way::FewerThreads).time_ns, 1.21 / 0.75 * MEETING));
        assert_eq!(choice(&trial, Way::Taskset).time_ns, choice(&spinning(), Way::Taskset).time_ns);
        let housekeeping = Trial { others: 0.01, ..spinning() };
        assert!(about(choice(&housekeeping, Way::FewerThreads).time_ns, 1.21 * MEETING));
    }

    #[test]
    fn unequal_work_may_stay_unequal() {
        let trial = Trial { worked: vec![800, 400, 300], ..spinning() };
        let fewer = choice(&trial, Way::FewerThreads);
        assert!(about(fewer.time_ns, 1.21 * MEETING * 1.3) && about(fewer.high_ns, 1.21 * 1.6 * MEETING_AT_MOST));
        assert!(fewer.low_ns < choice(&spinning(), Way::FewerThreads).time_ns);
    }

    #[test]
    fn programs_that_accept_a_number_of_threads_are_told_how_to_set_it() {
        let note = |accepts| choice(&Trial { accepts, ..spinning() }, Way::FewerThreads).note;
        assert_eq!(note(true).as_deref(), Some("OMP_NUM_THREADS=2"));
        assert_eq!(note(false).as_deref(), Some("if it accepts 2 threads"));
    }

    #[test]
    fn refusals() {
        let refused = |trial: Trial| forecast(&trial).unwrap_err();
        assert_eq!(refused(Trial { threads: 1, ..spinning() }), Refusal::SingleThreaded);
        assert_eq!(refused(Trial { cpus: 3, ..spinning() }), Refusal::NothingToPack { threads: 3, cpus: 3 });
        let short = spinning().windows[..1].to_vec();
        assert_eq!(refused(Trial { windows: short, ..spinning() }), Refusal::TooShort { oversubscribed_ns: 250 * MS });
        let too_short = vec![window(Placing::Kernel, 100, 0.5, 0); 2];
        let one_seen = Trial { threads: 1, windows: too_short, ..spinning() };
        assert_eq!(
            refused(one_seen),
            Refusal::TooShort { oversubscribed_ns: 200 * MS },
            "who knows how many there were"
        );
        let one_packed = spinning().windows[..5].to_vec();
        assert!(matches!(refused(Trial { windows: one_packed, ..spinning() }), Refusal::TooShort { .. }));
        let mut idle = spinning();
        idle.windows.iter_mut().for_each(|window| window.waiting = window.samples);
        assert!(matches!(refused(idle), Refusal::TooShort { .. }), "no work was seen");
    }
}
