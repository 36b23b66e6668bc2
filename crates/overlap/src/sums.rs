//! Sums over the processes of a session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use report::overlap::{OverlapCounts, counts};
use wire::umt::{DELAYS, How, KernelPage, ProgramPage, STANDBYS_AT_MOST, VERSION};

/// The highest error number of Linux (include/linux/err.h).
const LAST_ERRNO: i32 = 4095;

ledger::figures! {
    /// Why there were fewer standby threads than possible, and which errors occurred.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Reasons {}
    figures of reasons {
        /// Standbys that could not be created because a process already had the maximum number of standbys.
        at_limit: u64, sum;
        /// Processes without standbys, because the program uses thread-local variables, of which a standby would see its own copies.
        thread_data: u64, sum;
        /// Processes without standbys, because their OpenMP threads are bound to places (OMP_PLACES).
        bound: u64, sum;
        /// Processes without standbys, because BPF did not report that their first thread blocked. Each process tests this before it
        /// creates standbys.
        unseen: u64, sum;
        /// Number of cases in which two tasks were given the same thread number.
        shared_numbers: u64, sum;
        /// OpenMP teams whose task queues BPF cannot read.
        unshared: u64, sum;
        /// Processes whose request for doorbells, which wake standby threads, was refused.
        refused: u64, sum;
        /// 1 if the process that runs eBPF, and wakes the standby threads, ended before the session did.
        lost: u64, sum;
        /// Processes that have written impossible numbers to their page; none of the numbers in that page is counted.
        impossible: u64, sum;
    }
}

/// Sums over all processes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Counts for the report.
    pub counts: OverlapCounts,
    /// Counts for the report's diagnostics.
    pub reasons: Reasons,
    /// Error number of the last failure to create a standby thread, if the program reports one.
    pub error: Option<i32>,
    /// Why the last refused request was refused.
    pub refusal: Option<String>,
    /// Histogram of the time from BPF's ring of a doorbell (the wake-up of a standby) to the standby's first task. Class n begins at
    /// 2^(n/4) µs.
    pub heard: Vec<u64>,
}

impl Sums {
    /// Returns the sums with the counts of one more process added, which registered `age` ago. The process can write anything to its page `program`:
    /// if one of the numbers there is impossible, none of them is counted. BPF's counts, in the page `kernel`, are always counted.
    #[must_use]
    pub fn add(mut self, program: &ProgramPage, kernel: &KernelPage, how: How, age: Duration) -> Sums {
        let kernel = OverlapCounts {
            blocks: kernel.blocks.load(Ordering::Relaxed),
            rings: kernel.rings.load(Ordering::Relaxed),
            no_standby: kernel.no_standby.load(Ordering::Relaxed),
            ..OverlapCounts::default()
        };
        let version = program.version.load(Ordering::Relaxed);
        let process = Sums::of(program);
        self.counts.add(&OverlapCounts { processes: 1, ..OverlapCounts::default() });
        if (version == 0 || version == VERSION) && process.is_possible(&kernel, age) {
            self.counts.add(&process.counts);
            self.counts.add(&kernel);
            self.reasons.add(&process.reasons);
            self.heard.resize(DELAYS, 0);
            for (sum, count) in self.heard.iter_mut().zip(&process.heard) {
                *sum = sum.saturating_add(*count);
            }
            self.error = process.error.or(self.error);
        } else {
            self.reasons.impossible = self.reasons.impossible.saturating_add(1);
            // Without BPF, the process itself also writes the kernel page, so that page is not counted either.
            if how == How::Bpf {
                self.counts.add(&kernel);
            }
        }
        self
    }

    /// Reads the counts in a process's page. Each word is read once.
    fn of(page: &ProgramPage) -> Sums {
        let words = &page.counts.0;
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let own_rings = read(&words.own_rings);
        let error = i32::try_from(read(&words.error)).unwrap_or(i32::MAX);
        Sums {
            counts: OverlapCounts {
                standbys: read(&words.standbys),
                tasks: read(&words.ran),
                rings: own_rings,
                own_rings,
                empty_rings: read(&words.empty),
                surrenders: read(&words.surrendered),
                scan_rescues: read(&words.scan_rescues),
                failed: read(&words.failed),
                ..OverlapCounts::default()
            },
            reasons: Reasons {
                at_limit: read(&words.at_limit),
                thread_data: read(&words.thread_data),
                bound: read(&words.bound),
                unseen: read(&words.unseen),
                shared_numbers: read(&words.shared_numbers),
                unshared: read(&words.unshared),
                ..Reasons::default()
            },
            error: Some(error).filter(|error| *error > 0),
            refusal: None,
            heard: page.heard.0.iter().map(read).collect(),
        }
    }

    /// Returns whether these counts, together with those of BPF (`kernel`), are possible for a process that registered `age` ago: no counter is
    /// incremented more than once per nanosecond.
    fn is_possible(&self, kernel: &OverlapCounts, age: Duration) -> bool {
        let most = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let mut all = self.counts.clone();
        all.add(kernel);
        let counts = counts::ALL.iter().filter_map(|count| (count.value)(&all));
        let reasons = reasons::ALL.iter().filter_map(|reason| (reason.value)(&self.reasons));
        counts.chain(reasons).chain(self.heard.iter().copied()).all(|count| count <= most)
            && self.counts.standbys <= u64::from(STANDBYS_AT_MOST)
            && [self.reasons.thread_data, self.reasons.bound, self.reasons.unseen].into_iter().all(|word| word <= 1)
            && self.error.is_none_or(|error| error <= LAST_ERRNO)
    }

    /// Returns the quantile `part` (0.5: the median) of the time from the wake-up of a standby by BPF to its first task, in microseconds. `None`: BPF
    /// woke no standby.
    #[must_use]
    pub fn delay_us(&self, part: f64) -> Option<f64> {
        let all = self.heard.iter().fold(0u64, |all, count| all.saturating_add(*count));
        let mut left = (all as f64 * part).ceil() as u64;
        let class = self.heard.iter().position(|count| {
            let is_reached = left <= *count && *count > 0;
            left = left.saturating_sub(*count);
            is_reached
        })?;
        // The middle of the histogram class, on a logarithmic scale.
        Some(2f64.powf((class as f64 + 0.5) / 4.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_their_class() {
        let mut sums = Sums { heard: vec![0; DELAYS], ..Sums::default() };
        assert_eq!(sums.delay_us(0.5), None);
        sums.heard[8] = 3;
        sums.heard[20] = 1;
        assert_eq!(sums.delay_us(0.5).map(f64::round), Some(4.0));
        assert_eq!(sums.delay_us(0.75).map(f64::round), Some(4.0));
        assert_eq!(sums.delay_us(0.99).map(f64::round), Some(35.0));
        // Programs can write any number.
        sums.heard[8] = u64::MAX;
        assert_eq!(sums.delay_us(0.99).map(f64::round), Some(4.0));
    }

    /// Returns a kernel page of zeros, as the kernel makes it.
    fn kernel_page() -> Box<KernelPage> {
        // SAFETY: all fields of the page are integers, for which zero is a valid value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn a_process_that_writes_nonsense_takes_nothing_from_the_others() {
        let age = Duration::from_secs(1);
        let (good, kernel) = (ProgramPage::empty(), kernel_page());
        good.version.store(VERSION, Ordering::Relaxed);
        good.counts.0.ran.store(1000, Ordering::Relaxed);
        good.counts.0.standbys.store(3, Ordering::Relaxed);
        good.heard.0[5].store(7, Ordering::Relaxed);
        kernel.blocks.store(11, Ordering::Relaxed);
        let alone = Sums::default().add(&good, &kernel, How::Bpf, age);
        let counts = &alone.counts;
        let found = (counts.processes, counts.tasks, counts.standbys, counts.blocks, alone.reasons.impossible);
        assert_eq!(found, (1, 1000, 3, 11, 0));
        type Nonsense = fn(&ProgramPage);
        let all: [Nonsense; 6] = [
            |page| page.counts.0.ran.store(u64::MAX, Ordering::Relaxed),
            |page| page.counts.0.standbys.store(u64::from(STANDBYS_AT_MOST) + 1, Ordering::Relaxed),
            |page| page.counts.0.bound.store(2, Ordering::Relaxed),
            |page| page.counts.0.error.store(u64::MAX, Ordering::Relaxed),
            |page| page.heard.0[39].store(1 << 40, Ordering::Relaxed),
            |page| page.version.store(VERSION + 1, Ordering::Relaxed),
        ];
        for (at, nonsense) in all.into_iter().enumerate() {
            let bad = ProgramPage::empty();
            bad.counts.0.surrendered.store(5, Ordering::Relaxed);
            nonsense(&bad);
            let both = alone.clone().add(&bad, &kernel, How::Bpf, age);
            let mut expected = alone.clone();
            (expected.counts.processes, expected.counts.blocks, expected.reasons.impossible) = (2, 22, 1);
            assert_eq!(both, expected, "nonsense {at}: the kernel page is counted");
            let both = alone.clone().add(&bad, &kernel, How::Sentinels, age);
            expected.counts.blocks = 11;
            assert_eq!(both, expected, "nonsense {at}: without BPF both pages are the process' own");
        }
    }
}
