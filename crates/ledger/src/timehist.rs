//! The figures of `perf sched timehist` for the same events, by the rules of perf.
//!
//! At each switch, perf computes for the thread that is switched out, with `before` the time of the CPU's previous switch:
//!
//! - *run time* = this switch − `before`.
//! - *wait time* = `before` − the thread's last switch-out. All of it is booked under the state that the thread had at that switch-out: preempted
//!   (state number 0), I/O wait (D), or else sleep.
//! - *sch delay* = `before` − the time when the thread became ready: its first waking since its last switch-out. Wait time *contains* it.
//! - All three are 0 at a CPU's first switch. Wait time is 0 at a thread's first switch, and sch delay is 0 if the waking is not before `before`.
//! - The idle task of each CPU counts as a thread of its own. What runs at the end of the recording is never booked.
//!
//! Versions of perf differ ([`Rule`]). cox's own figures do not follow these rules: see [`crate::replay`].
//! Source: `tools/perf/builtin-sched.c`, and observation of perf 6.1.

use std::collections::HashMap;

/// The version of perf whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rule {
    /// perf 6.1: a preempted thread has no sch delay. On kernels that mark preempted threads, its wait counts as sleep.
    #[default]
    Perf61,
    /// Later versions: a preempted thread is ready immediately, so its whole wait also counts as sch delay.
    Newer,
}

/// State of a thread at its switch-out, as far as perf distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Runnable: state number 0.
    Running,
    /// Runnable, and marked as preempted by the kernel.
    Marked,
    /// Blocked and not interruptible by signals: state D.
    Uninterruptible,
    /// Any other state.
    Other,
}

/// The thread of an output line of `perf sched timehist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// The idle task of a CPU.
    Idle(u32),
    /// A thread with its id as perf prints it; -1 for a thread that had been reaped when its last switch was recorded.
    Thread(i32),
}

/// A line: the figures of one switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The thread that was switched out.
    pub who: Who,
    /// Wait time in nanoseconds.
    pub wait_ns: u64,
    /// Sch delay in nanoseconds.
    pub delay_ns: u64,
    /// Run time in nanoseconds.
    pub run_ns: u64,
    /// True if a migration was recorded since the thread's last switch-out.
    pub migrated: bool,
}

/// Sums over the lines of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Sums {
    /// Number of lines.
    pub count: u64,
    /// Run time in nanoseconds.
    pub run_ns: u64,
    /// Shortest run time of a line.
    pub least_run_ns: u64,
    /// Longest run time of a line.
    pub most_run_ns: u64,
    /// Mean run time, computed as in perf.
    pub mean_run_ns: f64,
    /// Sum of the squared differences between the lines' run times and their mean.
    squares: f64,
    /// Wait time after any state except D and R.
    pub sleep_ns: u64,
    /// Wait time after state D.
    pub iowait_ns: u64,
    /// Wait time after state R.
    pub preempt_ns: u64,
    /// Sch delay in nanoseconds.
    pub delay_ns: u64,
}

impl Sums {
    /// Returns the total wait time: after state R, after state D, and after all other states.
    #[must_use]
    pub fn wait_ns(&self) -> u64 {
        self.sleep_ns.saturating_add(self.iowait_ns).saturating_add(self.preempt_ns)
    }

    /// Returns what perf calls the standard deviation of run times: the standard error of their mean, in percent of the mean. perf uses single
    /// precision, which occasionally shows in the last digit.
    #[must_use]
    pub fn error_percent(&self) -> f32 {
        if self.count < 2 || self.mean_run_ns == 0.0 {
            return 0.0;
        }
        let count = self.count as f64;
        (100.0 * (self.squares / (count - 1.0) / count).sqrt() / self.mean_run_ns) as f32
    }

    fn add(&mut self, run_ns: u64) {
        self.least_run_ns = if self.count == 0 { run_ns } else { self.least_run_ns.min(run_ns) };
        self.most_run_ns = self.most_run_ns.max(run_ns);
        self.run_ns = self.run_ns.saturating_add(run_ns);
        self.count += 1;
        // A single pass with the same order of operations as perf, because rounding is visible in the output.
        let difference = run_ns as f64 - self.mean_run_ns;
        self.mean_run_ns += difference / self.count as f64;
        self.squares += difference * (run_ns as f64 - self.mean_run_ns);
    }
}

/// The values that perf keeps for each thread while it reads a recording.
#[derive(Clone, Copy, Debug, Default)]
struct Runtime {
    /// Time of the last switch-out; 0 if there was none.
    out_ns: u64,
    left: Option<Left>,
    /// Time at which the thread became ready; 0 if the thread is not ready.
    ready_ns: u64,
    migrated: bool,
    sums: Sums,
}

/// Processes events in order of time, and keeps the sums.
#[derive(Clone, Debug, Default)]
pub struct Timehist {
    rule: Rule,
    /// Time of the previous switch, by CPU.
    before_ns: HashMap<u32, u64>,
    present: HashMap<Who, Runtime>,
    past: Vec<(Who, Sums)>,
    first_ns: u64,
    last_ns: u64,
}

impl Timehist {
    /// Creates an empty state for one version of perf's rules.
    #[must_use]
    pub fn new(rule: Rule) -> Timehist {
        Timehist { rule, ..Timehist::default() }
    }

    /// Processes a waking.
    pub fn woken(&mut self, t_ns: u64, tid: u32) {
        let runtime = self.of(tid);
        if runtime.ready_ns == 0 {
            runtime.ready_ns = t_ns;
        }
    }

    /// Processes a migration to another CPU.
    pub fn migrated(&mut self, tid: u32) {
        self.of(tid).migrated = true;
    }

    /// Starts a new thread with this id, whose sums begin at 0. Returns whether an earlier thread with this id had an output line.
    pub fn born(&mut self, tid: u32) -> bool {
        let who = Who::Thread(tid.cast_signed());
        let former = self.present.remove(&who).filter(|runtime| runtime.sums.count > 0);
        self.past.extend(former.map(|runtime| (who, runtime.sums)));
        former.is_some()
    }

    fn of(&mut self, tid: u32) -> &mut Runtime {
        self.present.entry(Who::Thread(tid.cast_signed())).or_default()
    }

    /// Processes a switch-out and returns its line.
    pub fn switched(&mut self, t_ns: u64, cpu: u32, who: Who, left: Left) -> Line {
        let before_ns = self.before_ns.insert(cpu, t_ns).unwrap_or(0);
        if self.first_ns == 0 {
            self.first_ns = t_ns;
        }
        self.last_ns = t_ns;
        let runtime = self.present.entry(who).or_default();
        let mut line = Line { who, wait_ns: 0, delay_ns: 0, run_ns: 0, migrated: runtime.migrated };
        if before_ns != 0 {
            line.run_ns = t_ns.saturating_sub(before_ns);
            if runtime.ready_ns != 0 {
                line.delay_ns = before_ns.saturating_sub(runtime.ready_ns);
            }
            if runtime.out_ns != 0 {
                line.wait_ns = before_ns.saturating_sub(runtime.out_ns);
            }
        }
        let sums = &mut runtime.sums;
        let booked = match (runtime.left, self.rule) {
            (Some(Left::Running), _) | (Some(Left::Marked), Rule::Newer) => &mut sums.preempt_ns,
            (Some(Left::Uninterruptible), _) => &mut sums.iowait_ns,
            _ => &mut sums.sleep_ns,
        };
        *booked = booked.saturating_add(line.wait_ns);
        sums.delay_ns = sums.delay_ns.saturating_add(line.delay_ns);
        sums.add(line.run_ns);
        let is_runnable = matches!(left, Left::Running | Left::Marked);
        runtime.ready_ns = if is_runnable && self.rule == Rule::Newer { t_ns } else { 0 };
        (runtime.out_ns, runtime.left, runtime.migrated) = (t_ns, Some(left), false);
        line
    }

    /// Returns the time from the first switch to the last one.
    #[must_use]
    pub fn window_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// Returns the sums of all threads that had an output line, by thread id; earlier threads with the same id come first.
    #[must_use]
    pub fn sums(&self) -> Vec<(Who, Sums)> {
        let present = self.present.iter().map(|(who, runtime)| (*who, runtime.sums));
        let mut all: Vec<_> = self.past.iter().copied().chain(present.filter(|(_, sums)| sums.count > 0)).collect();
        all.sort_by_key(|(who, _)| *who);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Who = Who::Thread(7);
    const IDLE: Who = Who::Idle(0);

    fn line(line: Line) -> [u64; 3] {
        [line.wait_ns, line.delay_ns, line.run_ns]
    }

    #[test]
    fn a_cpus_first_switch_has_no_times() {
        let mut hist = Timehist::new(Rule::Perf61);
        hist.woken(50, 7);
        assert_eq!(line(hist.switched(100, 0, A, Left::Other)), [0, 0, 0]);
        // The other CPU's first one neither, though the thread has been seen.
        hist.woken(150, 7);
        assert_eq!(line(hist.switched(200, 1, A, Left::Other)), [0, 0, 0]);
    }

    #[test]
    fn wait_contains_delay() {
        let mut hist = Timehist::new(Rule::Perf61);
        hist.switched(100, 0, A, Left::Other);
        hist.woken(160, 7);
        // Only the first one counts.
        hist.woken(180, 7);
        assert_eq!(line(hist.switched(200, 0, IDLE, Left::Running)), [0, 0, 100]);
        assert_eq!(line(hist.switched(230, 0, A, Left::Other)), [100, 40, 30]);
        let sums = hist.sums();
        assert_eq!(sums[0].0, IDLE);
        assert_eq!((sums[1].1.sleep_ns, sums[1].1.delay_ns, sums[1].1.run_ns), (100, 40, 30));
        assert_eq!(hist.window_ns(), 130);
    }

    #[test]
    fn a_threads_first_switch_has_a_delay_and_no_wait() {
        let mut hist = Timehist::new(Rule::Perf61);
        hist.switched(100, 0, IDLE, Left::Running);
        hist.woken(120, 7);
        hist.switched(150, 0, IDLE, Left::Running);
        assert_eq!(line(hist.switched(160, 0, A, Left::Other)), [0, 30, 10]);
        // Woken after the CPU's last switch: no delay.
        hist.woken(170, 7);
        assert_eq!(line(hist.switched(180, 0, A, Left::Other)), [0, 0, 20]);
    }

    /// Preempted at 100, in again at 200, out at 230.
    fn preempted(rule: Rule, left: Left) -> Sums {
        let mut hist = Timehist::new(rule);
        hist.switched(50, 0, IDLE, Left::Running);
        hist.switched(100, 0, A, left);
        hist.switched(200, 0, Who::Thread(8), Left::Other);
        hist.switched(230, 0, A, Left::Other);
        hist.sums().into_iter().find(|(who, _)| *who == A).unwrap().1
    }

    #[test]
    fn rules_differ_about_who_is_preempted() {
        let of = |rule, left| {
            let Sums { sleep_ns, preempt_ns, delay_ns, .. } = preempted(rule, left);
            [sleep_ns, preempt_ns, delay_ns]
        };
        assert_eq!(of(Rule::Perf61, Left::Running), [0, 100, 0]);
        assert_eq!(of(Rule::Perf61, Left::Marked), [100, 0, 0]);
        assert_eq!(of(Rule::Newer, Left::Running), [0, 100, 100]);
        assert_eq!(of(Rule::Newer, Left::Marked), [0, 100, 100]);
        assert_eq!(of(Rule::Newer, Left::Uninterruptible), [0, 0, 0]);
        assert_eq!(preempted(Rule::Newer, Left::Uninterruptible).iowait_ns, 100);
    }

    #[test]
    fn a_migration_belongs_to_the_wait_that_it_is_in() {
        let mut hist = Timehist::new(Rule::Newer);
        hist.switched(50, 0, A, Left::Running);
        hist.switched(60, 1, Who::Idle(1), Left::Running);
        hist.migrated(7);
        assert!(hist.switched(80, 1, A, Left::Running).migrated);
        assert!(!hist.switched(90, 1, A, Left::Running).migrated);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_thread() {
        let mut hist = Timehist::new(Rule::Perf61);
        hist.switched(50, 0, A, Left::Other);
        hist.born(7);
        hist.switched(70, 0, IDLE, Left::Running);
        assert_eq!(line(hist.switched(90, 0, A, Left::Other)), [0, 0, 20]);
        let runs: Vec<u64> = hist.sums().iter().filter(|(who, _)| *who == A).map(|(_, sums)| sums.run_ns).collect();
        assert_eq!(runs, [0, 20]);
    }

    #[test]
    fn the_spread_is_the_means_standard_error() {
        let mut sums = Sums::default();
        [10, 20, 30, 40].into_iter().for_each(|run_ns| sums.add(run_ns));
        // Deviation 12.91, error of the mean 6.455, mean 25.
        assert!((sums.error_percent() - 25.82).abs() < 0.01, "{}", sums.error_percent());
        assert_eq!((sums.least_run_ns, sums.most_run_ns, sums.run_ns), (10, 40, 100));
        assert_eq!(Sums::default().error_percent(), 0.0);
    }

    #[test]
    fn the_last_digit_is_that_of_single_precision() {
        let mut sums = Sums::default();
        [543_800, 1_206_019].into_iter().for_each(|run_ns| sums.add(run_ns));
        // In double precision it is 37.844999968….
        assert_eq!(format!("{:.2}", sums.error_percent()), "37.85");
    }
}
