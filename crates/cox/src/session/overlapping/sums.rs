//! What processes of a session have said, together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use watch::umt::Pages;
use wire::umt::{DELAYS, How, STANDBYS_AT_MOST, Said, Seen, VERSION};

/// The highest error number of Linux (include/linux/err.h).
const LAST_ERRNO: i32 = 4095;

/// What all processes of a session say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Processes that asked.
    pub processes: u64,
    /// Standbys that were made.
    pub standbys: u64,
    /// Tasks that they ran.
    pub ran: u64,
    /// Blocks of threads that count.
    pub blocks: u64,
    /// Rings by BPF, and by the programs themselves.
    pub rings: u64,
    /// … of these by the programs.
    pub own_rings: u64,
    /// Rings that found no task.
    pub empty: u64,
    /// Times that a standby left tasks to others because too many threads were runnable.
    pub surrendered: u64,
    /// CPUs that went idle while tasks were pending and no standby was parked.
    pub unheard: u64,
    /// Standbys that could not be made.
    pub failed: u64,
    /// … of these because a process had as many as it may have.
    pub at_limit: u64,
    /// Why one of the others could not be made, if the program says so.
    pub error: Option<i32>,
    /// Processes without standbys, since they have thread-local data of their own.
    pub thread_data: u64,
    /// … since their threads are bound to places.
    pub bound: u64,
    /// … since BPF knows their threads by other numbers.
    pub unseen: u64,
    /// Times that two tasks were given the same thread number.
    pub shared_numbers: u64,
    /// Teams whose queues BPF could not see.
    pub unshared: u64,
    /// Times that a scan found a task and a free CPU of which nobody was told.
    pub overlooked: u64,
    /// Processes that asked and got nothing.
    pub refused: u64,
    /// Why the last of them got nothing.
    pub refusal: Option<String>,
    /// 1: the process that rang has ended before the session.
    pub lost: u64,
    /// Processes that have written impossible numbers to their page, of which nothing is counted.
    pub impossible: u64,
    /// Rings by BPF, by time until the first task: class n begins at 2^(n/4) us.
    pub heard: Vec<u64>,
}

impl Sums {
    /// With what one more process says, which asked so long ago. A process can write anything to its page: where a number there is impossible,
    /// none of them is counted. What BPF says in the kernel's page is counted always.
    #[must_use]
    pub fn add(self, pages: &Pages, how: How, age: Duration) -> Sums {
        self.add_words(pages.said(), pages.seen(), how, age)
    }

    fn add_words(self, said: &Said, seen: &Seen, how: How, age: Duration) -> Sums {
        let kernel = Sums {
            blocks: seen.blocks.load(Ordering::Relaxed),
            rings: seen.rings.load(Ordering::Relaxed),
            unheard: seen.unheard.load(Ordering::Relaxed),
            ..Sums::default()
        };
        let version = said.version.load(Ordering::Relaxed);
        let process = Sums::of(said).with(&kernel);
        let sums = if (version == 0 || version == VERSION) && process.is_possible(age) {
            self.with(&process)
        } else {
            let kernel = if how == How::Bpf { kernel } else { Sums::default() };
            self.with(&kernel).with(&Sums { impossible: 1, ..Sums::default() })
        };
        sums.with(&Sums { processes: 1, ..Sums::default() })
    }

    /// What a process says itself; each word is read once.
    fn of(said: &Said) -> Sums {
        let counts = &said.counts.0;
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let own_rings = read(&counts.own_rings);
        let error = i32::try_from(read(&counts.error)).unwrap_or(i32::MAX);
        Sums {
            standbys: read(&counts.standbys),
            ran: read(&counts.ran),
            rings: own_rings,
            own_rings,
            empty: read(&counts.empty),
            surrendered: read(&counts.surrendered),
            failed: read(&counts.failed),
            at_limit: read(&counts.at_limit),
            error: Some(error).filter(|error| *error > 0),
            thread_data: read(&counts.thread_data),
            bound: read(&counts.bound),
            unseen: read(&counts.unseen),
            shared_numbers: read(&counts.shared_numbers),
            unshared: read(&counts.unshared),
            overlooked: read(&counts.overlooked),
            heard: said.heard.0.iter().map(read).collect(),
            ..Sums::default()
        }
    }

    /// Whether one process can have done all this. No word can be counted up more often than once in a nanosecond.
    fn is_possible(&self, age: Duration) -> bool {
        let most = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let mut counters = self.clone();
        counters.counters().into_iter().all(|count| *count <= most)
            && self.standbys <= u64::from(STANDBYS_AT_MOST)
            && [self.thread_data, self.bound, self.unseen].into_iter().all(|word| word <= 1)
            && self.error.is_none_or(|error| error <= LAST_ERRNO)
    }

    /// Both together.
    fn with(mut self, other: &Sums) -> Sums {
        let mut other = other.clone();
        self.heard.resize(DELAYS, 0);
        other.heard.resize(DELAYS, 0);
        for (sum, count) in self.counters().into_iter().zip(other.counters()) {
            *sum = sum.saturating_add(*count);
        }
        self.error = other.error.or(self.error);
        self.refusal = other.refusal.or(self.refusal);
        self
    }

    /// All that is added up.
    fn counters(&mut self) -> Vec<&mut u64> {
        let counts = [
            &mut self.processes,
            &mut self.standbys,
            &mut self.ran,
            &mut self.blocks,
            &mut self.rings,
            &mut self.own_rings,
            &mut self.empty,
            &mut self.surrendered,
            &mut self.unheard,
            &mut self.failed,
            &mut self.at_limit,
            &mut self.thread_data,
            &mut self.bound,
            &mut self.unseen,
            &mut self.shared_numbers,
            &mut self.unshared,
            &mut self.overlooked,
            &mut self.refused,
            &mut self.lost,
            &mut self.impossible,
        ];
        counts.into_iter().chain(&mut self.heard).collect()
    }

    /// A quantile of the time from a ring to the first task, in microseconds; `None`: nobody was rung.
    #[must_use]
    pub fn delay_us(&self, part: f64) -> Option<f64> {
        let all = self.heard.iter().fold(0u64, |all, count| all.saturating_add(*count));
        let mut left = (all as f64 * part).ceil() as u64;
        let class = self.heard.iter().position(|count| {
            let here = left <= *count && *count > 0;
            left = left.saturating_sub(*count);
            here
        })?;
        // The middle of the class.
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

    /// A page of zeros, as the kernel makes them.
    fn seen() -> Box<Seen> {
        // SAFETY: words of which zero is a value.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn a_process_that_writes_nonsense_takes_nothing_from_the_others() {
        let age = Duration::from_secs(1);
        let (good, seen) = (Said::new(), seen());
        good.version.store(VERSION, Ordering::Relaxed);
        good.counts.0.ran.store(1000, Ordering::Relaxed);
        good.counts.0.standbys.store(3, Ordering::Relaxed);
        good.heard.0[5].store(7, Ordering::Relaxed);
        seen.blocks.store(11, Ordering::Relaxed);
        let alone = Sums::default().add_words(&good, &seen, How::Bpf, age);
        assert_eq!((alone.processes, alone.ran, alone.standbys, alone.blocks, alone.impossible), (1, 1000, 3, 11, 0));
        type Nonsense = fn(&Said);
        let all: [Nonsense; 6] = [
            |said| said.counts.0.ran.store(u64::MAX, Ordering::Relaxed),
            |said| said.counts.0.standbys.store(u64::from(STANDBYS_AT_MOST) + 1, Ordering::Relaxed),
            |said| said.counts.0.bound.store(2, Ordering::Relaxed),
            |said| said.counts.0.error.store(u64::MAX, Ordering::Relaxed),
            |said| said.heard.0[39].store(1 << 40, Ordering::Relaxed),
            |said| said.version.store(VERSION + 1, Ordering::Relaxed),
        ];
        for (at, nonsense) in all.into_iter().enumerate() {
            let bad = Said::new();
            bad.counts.0.surrendered.store(5, Ordering::Relaxed);
            nonsense(&bad);
            let both = alone.clone().add_words(&bad, &seen, How::Bpf, age);
            let expected = Sums { processes: 2, blocks: 22, impossible: 1, ..alone.clone() };
            assert_eq!(both, expected, "nonsense {at}: what the kernel says is counted");
            let both = alone.clone().add_words(&bad, &seen, How::Sentinels, age);
            assert_eq!(
                both,
                Sums { blocks: 11, ..expected },
                "nonsense {at}: without BPF both pages are the process' own"
            );
        }
    }
}
