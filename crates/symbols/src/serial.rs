//! Serial functions: code that runs in one thread alone while the other threads wait, such as the initialisation before a team of threads exists, the
//! code between parallel regions, and the output of one rank.
//!
//! Whether a thread was alone does not tell serial code from unequal work: a thread with more work than the others is alone, too, when they have
//! finished. What tells them apart is the function. Parallel code runs in several threads, serial code always in the same one. Code without a file, such
//! as that of a just-in-time compiler, has no functions here and never counts as serial.
//!
//! A sample that was taken while no other thread ran or waited for a CPU shows by itself that its thread was alone. If others ran, they may have worked
//! or waited in loops. That is known only for the samples in rounds; the other samples of the same thread in the same function are taken to be like these.

use std::collections::HashMap;
use std::hash::Hash;

use crate::rounds::Contested;

/// A function is serial only if it has at least this many samples. Of two threads that run the same parallel function, one takes all of the first five
/// samples in 6 % of the cases.
const LEAST_SAMPLES: u64 = 5;

/// In a serial function, at least this part of the samples is of one thread. The rest allows for the same function at the end of a run.
const ONE_THREAD: f64 = 0.95;

/// For at least this part of the samples in a serial function, no other thread worked. If other threads work at the same time, the threads divide the
/// work by function, as in a pipeline. The rest allows for a sample that came too late for its round.
const ALONE: f64 = 0.75;

/// Samples of work: of a thread at a place, or in a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Number of samples.
    pub samples: u64,
    /// How many of them show that no other thread ran or waited for a CPU.
    pub only: u64,
    /// Those in rounds that do not say so.
    pub contested: Contested,
}

impl Work {
    fn add(&mut self, other: Work) {
        self.samples += other.samples;
        self.only += other.only;
        self.contested.all += other.contested.all;
        self.contested.alone += other.contested.alone;
    }

    /// Returns the number of samples, estimated, for which no other thread worked.
    fn alone(&self) -> f64 {
        let others = (self.samples - self.only) as f64;
        let waited =
            if self.contested.all == 0 { 0.0 } else { self.contested.alone as f64 / self.contested.all as f64 };
        self.only as f64 + others * waited
    }
}

/// The samples of each function, by thread.
pub(crate) struct Functions<F> {
    functions: HashMap<F, HashMap<u32, Work>>,
}

impl<F: Eq + Hash> Functions<F> {
    pub fn new() -> Functions<F> {
        Functions { functions: HashMap::new() }
    }

    /// Adds samples of thread `tid` in `function`.
    pub fn add(&mut self, function: F, tid: u32, work: Work) {
        self.functions.entry(function).or_default().entry(tid).or_default().add(work);
    }

    /// Returns the part of thread `tid`'s samples in `function` that is serial work, from 0 to 1.
    pub fn serial_part(&self, function: &F, tid: u32) -> f64 {
        let Some(threads) = self.functions.get(function) else { return 0.0 };
        let Some(of_thread) = threads.get(&tid) else { return 0.0 };
        let all: u64 = threads.values().map(|work| work.samples).sum();
        let (of_this, alone) = (of_thread.samples as f64, of_thread.alone());
        let is_serial = all >= LEAST_SAMPLES && of_this >= ONE_THREAD * all as f64 && alone >= ALONE * of_this;
        if is_serial { alone / of_this } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples in rounds: thread, their number, and for how many of them no other thread worked.
    fn functions(samples: &[(u32, u64, u64)]) -> Functions<&'static str> {
        let mut functions = Functions::new();
        for (tid, all, alone) in samples {
            let contested = Contested { all: *all, alone: *alone };
            functions.add("f", *tid, Work { samples: *all, only: 0, contested });
        }
        functions
    }

    #[test]
    fn a_thread_that_is_the_only_one_needs_no_rounds() {
        let part = |samples, only, all, alone| {
            let mut functions = Functions::new();
            functions.add("f", 1, Work { samples, only, contested: Contested { all, alone } });
            functions.serial_part(&"f", 1)
        };
        assert_eq!(part(10, 10, 0, 0), 1.0, "before there are others");
        assert_eq!(part(100, 80, 0, 0), 0.8, "nothing is known of the others");
        assert_eq!(part(100, 60, 8, 6), 0.9, "three of four times, they spun");
        assert_eq!(part(100, 60, 8, 2), 0.0, "mostly, they worked");
        assert_eq!(part(4, 4, 0, 0), 0.0, "by chance");
    }

    #[test]
    fn serial_code_runs_in_one_thread_alone() {
        assert_eq!(functions(&[(1, 100, 98)]).serial_part(&"f", 1), 0.98);
        assert_eq!(functions(&[(1, 50, 50), (1, 50, 48), (2, 3, 0)]).serial_part(&"f", 1), 0.98);
        assert_eq!(functions(&[(1, 100, 98)]).serial_part(&"f", 2), 0.0);
        assert_eq!(functions(&[(1, 100, 98)]).serial_part(&"g", 1), 0.0);
    }

    #[test]
    fn parallel_code_pipelines_and_few_samples_are_not_serial() {
        assert_eq!(functions(&[(1, 80, 60), (2, 20, 0)]).serial_part(&"f", 1), 0.0, "unequal work");
        assert_eq!(functions(&[(1, 100, 40)]).serial_part(&"f", 1), 0.0, "others work beside it");
        assert_eq!(functions(&[(1, 4, 4)]).serial_part(&"f", 1), 0.0, "by chance");
    }
}
