//! Serial functions: code that runs in one thread alone while the other threads wait, such as the initialisation before a team of threads exists, the
//! code between parallel regions, and the output of one rank.
//!
//! Whether a thread was alone does not tell serial code from unequal work: a thread with more work than the others is alone, too, when they have
//! finished. What tells them apart is the function. Parallel code runs in several threads, serial code always in the same one. Code without a file, such
//! as that of a just-in-time compiler, has no functions here and never counts as serial.

use std::collections::HashMap;
use std::hash::Hash;

use crate::rounds::AtPlace;

/// A function is serial only if it has at least this many samples in rounds. Of two threads that run the same parallel function, one takes all of the first five
/// samples in 6 % of the cases.
const LEAST_SAMPLES: u64 = 5;

/// In a serial function, at least this part of the samples is of one thread. The rest allows for the same function at the end of a run.
const ONE_THREAD: f64 = 0.95;

/// In at least this part of the rounds with a serial function, no other thread worked. If other threads work at the same time, the threads divide the
/// work by function, as in a pipeline. The rest allows for a sample that came too late for its round.
const ALONE: f64 = 0.75;

/// The samples of each function, by thread.
pub(crate) struct Functions<F> {
    functions: HashMap<F, HashMap<u32, AtPlace>>,
}

impl<F: Eq + Hash> Functions<F> {
    pub fn new() -> Functions<F> {
        Functions { functions: HashMap::new() }
    }

    /// Adds samples of thread `tid` in `function`.
    pub fn add(&mut self, function: F, tid: u32, samples: AtPlace) {
        let sum = self.functions.entry(function).or_default().entry(tid).or_default();
        sum.all += samples.all;
        sum.alone += samples.alone;
    }

    /// Returns the part of thread `tid`'s samples in `function` that is serial work, from 0 to 1.
    pub fn serial_part(&self, function: &F, tid: u32) -> f64 {
        let Some(threads) = self.functions.get(function) else { return 0.0 };
        let Some(of_thread) = threads.get(&tid) else { return 0.0 };
        let all: u64 = threads.values().map(|samples| samples.all).sum();
        let (of_this, alone) = (of_thread.all as f64, of_thread.alone as f64);
        let is_serial = all >= LEAST_SAMPLES && of_this >= ONE_THREAD * all as f64 && alone >= ALONE * of_this;
        if is_serial { alone / of_this } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(samples: &[(u32, u64, u64)]) -> Functions<&'static str> {
        let mut functions = Functions::new();
        for (tid, all, alone) in samples {
            functions.add("f", *tid, AtPlace { all: *all, alone: *alone });
        }
        functions
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
