//! What imbalance costs an instance of a loop, from the times at which its threads finish.
//!
//! Times count from the start of the loop, nanoseconds, one for each of the P threads of the team:
//!
//! - **LIB** (load imbalance): (1 − mean/max)·P/(P − 1). 0: all threads finish at once; 1: one thread does all the
//!   work.
//! - **imbalance**: max − mean. With perfect balance the loop would take that much less.
//! - **imbalance that the OS caused**: max f_i − max(f_i − wake_i − preempt_i). If no thread had been delayed by the
//!   kernel's scheduler, the loop would have taken that much less.
//!
//! LB4OMP computes LIB from whole milliseconds and divides P by P − 1 in integers, so it is wrong for short loops and
//! for more than two threads.

/// When a thread finished, and how long the kernel let it wait meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finish {
    /// From the start of the loop to the end of the thread's last iteration, nanoseconds.
    pub at_ns: f64,
    /// Wake delay in this time: from waking to running, nanoseconds.
    pub wake_ns: f64,
    /// Preempt wait in this time: runnable but not running after a preemption, nanoseconds.
    pub preempt_ns: f64,
}

/// What imbalance costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Imbalance {
    /// LIB, from 0 to 1.
    pub lib: f64,
    /// Imbalance, nanoseconds.
    pub imbalance_ns: f64,
    /// The part of the loop's time that delays by the kernel's scheduler caused, nanoseconds. May exceed the imbalance
    /// if all threads were delayed.
    pub os_caused_ns: f64,
}

/// Computes the figures of an instance; `None` without threads, or if no time has passed. A single thread has no
/// imbalance.
#[must_use]
pub fn imbalance(team: &[Finish]) -> Option<Imbalance> {
    let threads = team.len() as f64;
    let most = largest(team.iter().map(|finish| finish.at_ns));
    let without = largest(team.iter().map(|finish| finish.at_ns - finish.wake_ns - finish.preempt_ns));
    let mean = team.iter().map(|finish| finish.at_ns).sum::<f64>() / threads;
    (most > 0.0 && most.is_finite()).then(|| {
        let lib = load_imbalance(mean, most, threads);
        Imbalance { lib, imbalance_ns: most - mean, os_caused_ns: most - without.max(0.0) }
    })
}

/// Returns LIB from the mean and the largest of the threads' times, in any unit. A single thread has no imbalance, nor has
/// a loop that took no time.
#[must_use]
pub fn load_imbalance(mean: f64, most: f64, threads: f64) -> f64 {
    if threads > 1.0 && most > 0.0 { (1.0 - mean / most) * threads / (threads - 1.0) } else { 0.0 }
}

fn largest(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(times: &[f64]) -> Vec<Finish> {
        times.iter().map(|at_ns| Finish { at_ns: *at_ns, ..Finish::default() }).collect()
    }

    #[test]
    fn lib_is_0_in_balance_and_1_if_one_thread_works() {
        let balance = imbalance(&team(&[5.0; 3])).unwrap();
        assert_eq!((balance.lib, balance.imbalance_ns, balance.os_caused_ns), (0.0, 0.0, 0.0));
        let one = imbalance(&team(&[9.0, 0.0, 0.0])).unwrap();
        assert!((one.lib - 1.0).abs() < 1e-12);
        assert_eq!(one.imbalance_ns, 6.0);
    }

    /// Times of some hundred nanoseconds, three threads: 1 − 400/600 = 1/3, times 3/2.
    #[test]
    fn short_loops_have_an_imbalance() {
        let short = imbalance(&team(&[200.0, 400.0, 600.0])).unwrap();
        assert!((short.lib - 0.5).abs() < 1e-12);
        assert_eq!(short.imbalance_ns, 200.0);
    }

    #[test]
    fn the_os_caused_what_would_not_have_been_without_delays() {
        // Thread 0 would have finished at 6, so thread 1 is the last one, at 7.
        let delayed = [
            Finish { at_ns: 10.0, wake_ns: 1.0, preempt_ns: 3.0 },
            Finish { at_ns: 8.0, wake_ns: 0.0, preempt_ns: 1.0 },
        ];
        assert_eq!(imbalance(&delayed).unwrap().os_caused_ns, 3.0);
        // A delay of a thread that finished early costs nothing.
        let early = [Finish { at_ns: 10.0, ..Finish::default() }, Finish { at_ns: 8.0, wake_ns: 2.0, preempt_ns: 2.0 }];
        assert_eq!(imbalance(&early).unwrap().os_caused_ns, 0.0);
    }

    #[test]
    fn nothing_is_known_without_time_or_threads() {
        assert_eq!(imbalance(&[]), None);
        assert_eq!(imbalance(&team(&[0.0, 0.0])), None);
        assert_eq!(imbalance(&team(&[4.0])).map(|one| one.lib), Some(0.0));
    }
}
