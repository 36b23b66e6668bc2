//! What processes of a session have said, together.

use std::sync::atomic::Ordering;

use wire::umt::{DELAYS, Said, Seen};

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
    /// Rings by BPF, by time until the first task: class n begins at 2^(n/4) us.
    pub heard: Vec<u64>,
}

impl Sums {
    /// With what one more process says.
    pub fn add(mut self, (said, seen): (&Said, &Seen)) -> Sums {
        let counts = &said.counts.0;
        self.processes += 1;
        for (sum, word) in [
            (&mut self.standbys, &counts.standbys),
            (&mut self.ran, &counts.ran),
            (&mut self.blocks, &seen.blocks),
            (&mut self.rings, &seen.rings),
            (&mut self.own_rings, &counts.own_rings),
            (&mut self.empty, &counts.empty),
            (&mut self.surrendered, &counts.surrendered),
            (&mut self.unheard, &seen.unheard),
            (&mut self.failed, &counts.failed),
            (&mut self.at_limit, &counts.at_limit),
            (&mut self.thread_data, &counts.thread_data),
            (&mut self.bound, &counts.bound),
            (&mut self.unseen, &counts.unseen),
            (&mut self.shared_numbers, &counts.shared_numbers),
            (&mut self.unshared, &counts.unshared),
            (&mut self.overlooked, &counts.overlooked),
        ] {
            *sum = sum.saturating_add(word.load(Ordering::Relaxed));
        }
        self.rings = self.rings.saturating_add(counts.own_rings.load(Ordering::Relaxed));
        let error = i32::try_from(counts.error.load(Ordering::Relaxed)).ok();
        self.error = error.filter(|error| *error > 0).or(self.error);
        self.heard.resize(DELAYS, 0);
        for (sum, word) in self.heard.iter_mut().zip(&said.heard.0) {
            *sum = sum.saturating_add(word.load(Ordering::Relaxed));
        }
        self
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
}
