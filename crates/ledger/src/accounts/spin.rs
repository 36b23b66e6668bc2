//! Converts sample sites into spin time, kernel time and hot functions.
//!
//! Samples of a CPU are taken at equal intervals. With eBPF, cox chooses a new interval several times per second, between 3/4 and 5/4 of the mean and
//! independent of what runs, so that no program can run in step with the samples. All samples have the same weight. The share of a thread's samples
//! at a site therefore estimates the share of its run time that the thread spent there:
//!
//! - spin = run × waiting samples / samples. A sample inside sched_yield counts as waiting, too: the thread only offers its CPU.
//! - synchronisation in the kernel = run × samples inside futex system calls / samples.
//! - time in the kernel = run × samples in the kernel / samples.
//! - serial time = run × samples of serial work / samples. Which samples these are is decided by the function (`symbols`).
//! - The standard error of a share is that of a binomial share after Agresti and Coull (1998), "add two successes and two failures": p̃ = (k + 2) / (n +
//!   4), error = √(p̃ (1 − p̃) / (n + 4)). The plain formula would claim certainty if none or all of a few samples waited.
//! - The spin of a thread without samples is unknown, not zero: its `spin_basis` is `none`.

use std::collections::{BTreeMap, HashMap};

use wire::{SampleSite, Waiting};

use crate::account::{HotFunction, SpinBasis, Thread};

/// Number of hot functions in a report.
const HOT: usize = 20;

/// Numbers of samples of a thread.
#[derive(Clone, Copy, Default)]
struct Samples {
    all: u64,
    spinning: u64,
    /// In futex system calls.
    kernel_sync: u64,
    in_kernel: u64,
    serial: u64,
}

/// Returns for each thread id how many samples were taken, and how many of them show spinning, synchronisation in the kernel, and the kernel.
fn by_thread(sample_sites: &[SampleSite]) -> HashMap<u32, Samples> {
    let mut threads: HashMap<u32, Samples> = HashMap::new();
    for site in sample_sites {
        let samples = threads.entry(site.tid).or_default();
        samples.all += site.samples;
        samples.in_kernel += site.in_kernel;
        samples.serial += site.serial;
        match site.waiting {
            Some(waiting) if waiting.is_spinning() => samples.spinning += site.samples,
            Some(_) => samples.kernel_sync += site.samples,
            None => {}
        }
    }
    threads.retain(|_, samples| samples.all > 0);
    threads
}

/// Returns `run_ns × part / whole`, rounded down; 0 if `whole` is 0.
fn portion(run_ns: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(run_ns) * u128::from(part);
    product.checked_div(whole.into()).map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Returns one standard error of the share k / n.
fn share_error(k: u64, n: u64) -> f64 {
    let (k, n) = (k as f64 + 2.0, n as f64 + 4.0);
    let share = k / n;
    (share * (1.0 - share) / n).sqrt()
}

/// Sets the spin time, the times in the kernel, their standard errors and the number of samples of each thread that was sampled.
pub(super) fn book(threads: &mut [Thread], owners: &HashMap<u32, usize>, sample_sites: &[SampleSite]) {
    for (tid, samples) in by_thread(sample_sites) {
        let Some(thread) = owners.get(&tid).and_then(|i| threads.get_mut(*i)) else { continue };
        thread.samples = samples.all;
        thread.spin_basis = SpinBasis::Sampled;
        let run_ns = thread.run_ns;
        let part = |of_samples| portion(run_ns, of_samples, samples.all);
        let error = |of_samples| (run_ns as f64 * share_error(of_samples, samples.all)) as u64;
        thread.spin_ns = part(samples.spinning);
        thread.spin_error_ns = error(samples.spinning);
        thread.kernel_sync_ns = part(samples.kernel_sync);
        thread.kernel_sync_error_ns = error(samples.kernel_sync);
        thread.kernel_ns = part(samples.in_kernel);
        thread.serial_ns = part(samples.serial);
        thread.serial_error_ns = error(samples.serial);
    }
}

/// Returns the functions with the most samples. A function's run time is `Σ run time × samples in the function ÷ all samples`, over the threads.
/// Samples of a thread without an account count as samples, but add no run time.
pub(super) fn hot(threads: &[Thread], owners: &HashMap<u32, usize>, sample_sites: &[SampleSite]) -> Vec<HotFunction> {
    let samples = by_thread(sample_sites);
    let mut places: BTreeMap<(&str, Option<&str>, Option<Waiting>), HotFunction> = BTreeMap::new();
    for site in sample_sites.iter().filter(|site| site.samples > 0) {
        let run_ns = owners.get(&site.tid).map_or(0, |i| threads[*i].run_ns);
        let all = samples.get(&site.tid).map_or(0, |samples| samples.all);
        let place = (site.module.as_str(), site.function.as_deref(), site.waiting);
        let hot = places.entry(place).or_insert_with(|| HotFunction {
            module: site.module.clone(),
            function: site.function.clone(),
            waiting: site.waiting.map(|waiting| waiting.name().to_owned()),
            ..HotFunction::default()
        });
        hot.samples += site.samples;
        hot.run_ns += portion(run_ns, site.samples, all);
        hot.serial_ns += portion(run_ns, site.serial, all);
    }
    let mut hot: Vec<HotFunction> = places.into_values().collect();
    hot.sort_by_key(|place| std::cmp::Reverse((place.samples, place.run_ns)));
    hot.truncate(HOT);
    hot
}

/// Sets all serial times to 0, for accounts in which they are not known.
pub(super) fn forget_serial(threads: &mut [Thread], hot_functions: &mut [HotFunction]) {
    for thread in threads {
        thread.serial_ns = 0;
        thread.serial_error_ns = 0;
    }
    for hot in hot_functions {
        hot.serial_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(tid: u32, samples: u64, function: &str, waiting: Option<Waiting>) -> SampleSite {
        let function = Some(function.to_owned());
        SampleSite { tid, tgid: 1, samples, in_kernel: 0, serial: 0, module: "app".into(), function, waiting }
    }

    fn thread(tid: u32, run_ns: u64) -> Thread {
        Thread { tid, run_ns, ..Thread::default() }
    }

    fn booked(mut threads: Vec<Thread>, sample_sites: &[SampleSite]) -> (Vec<Thread>, Vec<HotFunction>) {
        let owners = threads.iter().enumerate().map(|(i, thread)| (thread.tid, i)).collect();
        book(&mut threads, &owners, sample_sites);
        let hot = hot(&threads, &owners, sample_sites);
        (threads, hot)
    }

    #[test]
    fn spin_is_run_in_proportion_to_waiting_samples() {
        let sample_sites = [
            site(5, 60, "work", None),
            site(5, 30, "barrier", Some(Waiting::OpenMp)),
            site(5, 10, "yield", Some(Waiting::Yield)),
            site(6, 7, "work", None),
        ];
        let (threads, _) = booked(vec![thread(5, 1_000), thread(6, 1_000), thread(7, 1_000)], &sample_sites);
        assert_eq!((threads[0].spin_ns, threads[0].samples, threads[0].spin_basis), (400, 100, SpinBasis::Sampled));
        assert_eq!((threads[1].spin_ns, threads[1].samples, threads[1].spin_basis), (0, 7, SpinBasis::Sampled));
        assert_eq!((threads[2].spin_ns, threads[2].samples, threads[2].spin_basis), (0, 0, SpinBasis::None));
        assert_eq!(threads[2].spin_error_ns, 0);
    }

    #[test]
    fn futex_calls_are_synchronisation_and_other_calls_are_work() {
        let in_kernel = |site: SampleSite| SampleSite { in_kernel: site.samples, ..site };
        let sample_sites = [
            site(5, 50, "work", None),
            in_kernel(site(5, 20, "lock", Some(Waiting::Futex))),
            in_kernel(site(5, 10, "write", None)),
            in_kernel(site(5, 5, "yield", Some(Waiting::Yield))),
            site(5, 15, "barrier", Some(Waiting::OpenMp)),
        ];
        let (threads, hot) = booked(vec![thread(5, 1_000_000)], &sample_sites);
        let [thread] = &threads[..] else { panic!("{threads:?}") };
        assert_eq!((thread.spin_ns, thread.kernel_sync_ns, thread.kernel_ns), (200_000, 200_000, 350_000));
        assert_eq!((thread.kernel_sync_error_ns, thread.spin_error_ns), (40_046, 40_046));
        assert_eq!((thread.work_ns(), thread.waiting_for_threads_ns()), (600_000, 400_000));
        let spinning: Vec<&str> =
            hot.iter().filter(|hot| hot.is_spinning()).filter_map(|hot| hot.function.as_deref()).collect();
        assert_eq!(spinning, ["barrier", "yield"]);
    }

    #[test]
    fn serial_work_is_a_part_of_run_and_of_its_function() {
        let serial = |site: SampleSite| SampleSite { serial: site.samples, ..site };
        let sample_sites =
            [serial(site(5, 20, "read_input", None)), site(5, 80, "solve", None), site(6, 7, "solve", None)];
        let (mut threads, mut hot) = booked(vec![thread(5, 1_000_000), thread(6, 1_000_000)], &sample_sites);
        assert_eq!((threads[0].serial_ns, threads[0].serial_error_ns), (200_000, 40_046));
        assert_eq!(threads[1].serial_ns, 0);
        let in_functions: Vec<u64> = hot.iter().map(|hot| hot.serial_ns).collect();
        assert_eq!(in_functions, [0, 200_000]);
        forget_serial(&mut threads, &mut hot);
        assert!(threads.iter().all(|thread| thread.serial_ns == 0) && hot.iter().all(|hot| hot.serial_ns == 0));
    }

    #[test]
    fn the_error_is_that_of_a_share_with_two_successes_and_failures_added() {
        // (40 + 2) / (100 + 4) = 0.40385; sqrt(0.40385 * 0.59615 / 104) = 0.048114
        assert!((share_error(40, 100) - 0.048_114).abs() < 1e-6);
        // None of 10: 2 / 14; sqrt(0.142857 * 0.857143 / 14) = 0.093522. Never certain.
        assert!((share_error(0, 10) - 0.093_522).abs() < 1e-6);
        assert!((share_error(10, 10) - share_error(0, 10)).abs() < 1e-12);
        let (threads, _) = booked(vec![thread(5, 1_000_000)], &[site(5, 10, "work", None)]);
        assert_eq!(threads[0].spin_error_ns, 93_521);
    }

    #[test]
    fn the_error_covers_the_truth_about_two_times_in_three() {
        // All shares of a deterministic grid: the mean coverage of k/n ± error over the binomial.
        let (n, mut covered) = (50u64, 0.0);
        let shares: Vec<f64> = (1..100).map(|i| f64::from(i) / 100.0).collect();
        for p in &shares {
            let mut probability = (1.0 - p).powi(n as i32);
            for k in 0..=n {
                if (k as f64 / n as f64 - p).abs() <= share_error(k, n) {
                    covered += probability;
                }
                probability *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
            }
        }
        let coverage = covered / shares.len() as f64;
        assert!((0.63..0.78).contains(&coverage), "{coverage}");
    }

    #[test]
    fn hot_functions_add_up_the_run_time_of_all_threads() {
        let sample_sites = [
            site(5, 75, "work", None),
            site(5, 25, "barrier", Some(Waiting::OpenMp)),
            site(6, 10, "work", None),
            site(6, 30, "barrier", Some(Waiting::OpenMp)),
            site(9, 8, "gone", None),
        ];
        let (_, hot) = booked(vec![thread(5, 1_000), thread(6, 400)], &sample_sites);
        let told: Vec<_> =
            hot.iter().map(|h| (h.function.as_deref(), h.samples, h.run_ns, h.waiting.as_deref())).collect();
        assert_eq!(
            told,
            [
                (Some("work"), 85, 750 + 100, None),
                (Some("barrier"), 55, 250 + 300, Some("OpenMP runtime")),
                (Some("gone"), 8, 0, None),
            ]
        );
    }

    #[test]
    fn hot_functions_are_ordered_by_samples() {
        let sample_sites = [site(5, 2, "long", None), site(6, 3, "often", None)];
        let (_, hot) = booked(vec![thread(5, 1_000), thread(6, 10)], &sample_sites);
        assert_eq!((hot[0].samples, hot[0].run_ns, hot[1].run_ns), (3, 10, 1_000));
    }

    #[test]
    fn twenty_functions_are_listed_and_waiting_keeps_a_function_apart() {
        let mut sample_sites: Vec<SampleSite> = (1..=30).map(|i| site(5, i, &format!("f{i}"), None)).collect();
        sample_sites.push(site(5, 100, "f30", Some(Waiting::TightLoop)));
        let (_, hot) = booked(vec![thread(5, 1_000)], &sample_sites);
        assert_eq!((hot.len(), hot[0].samples, hot[1].samples, hot[19].samples), (20, 100, 30, 12));
    }
}
