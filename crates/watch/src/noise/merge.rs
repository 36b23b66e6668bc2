//! Merges the events of all CPUs into one sequence in order of time. No system call: the caller reads.
//!
//! Each CPU writes into a ring of its own. What one CPU sends and another one receives are then in two rings, and the order of the two events is known
//! only by their times. So an event is passed on only when no ring can still get an older one.

use std::collections::VecDeque;

/// An event may become readable this long after its time was taken, ns: the program may be interrupted between the two.
const DELAY_NS: u64 = 1_000_000;
/// Largest number of events that are read out of one ring at a time.
const BATCH: usize = 4096;
/// Smallest number.
const LEAST: usize = 16;

/// Events of several rings that have been read and not passed on.
#[derive(Debug)]
pub(super) struct Merge<E> {
    streams: Vec<Stream<E>>,
}

#[derive(Debug)]
struct Stream<E> {
    /// Events with their times.
    waiting: VecDeque<(u64, E)>,
    /// Later reads return no event that is older than this, ns.
    known_to_ns: u64,
    /// The last read found the ring's end.
    at_end: bool,
}

/// What reads of the rings return.
pub(super) struct Reader<R, N> {
    /// Reads at most so many events out of a ring.
    pub(super) read: R,
    /// Reads the clock, ns. After the programs have ended, `u64::MAX`: nothing more comes.
    pub(super) now_ns: N,
}

impl<E> Merge<E> {
    pub(super) fn new(rings: usize) -> Merge<E> {
        let stream = || Stream { waiting: VecDeque::new(), known_to_ns: 0, at_end: false };
        Merge { streams: (0..rings).map(|_| stream()).collect() }
    }

    /// Returns the oldest events, some `most` of them. Returns none only if there are none at present that can be passed on.
    pub(super) fn take<X>(
        &mut self,
        most: usize,
        mut from: Reader<impl FnMut(usize, usize) -> Result<Vec<(u64, E)>, X>, impl Fn() -> u64>,
    ) -> Result<Vec<E>, X> {
        let batch = (most / self.streams.len().max(1)).clamp(LEAST, BATCH);
        self.streams.iter_mut().for_each(|stream| stream.at_end = false);
        let mut taken = Vec::new();
        while taken.len() < most {
            let mut has_read = false;
            for (ring, stream) in self.streams.iter_mut().enumerate() {
                if !stream.at_end && stream.waiting.len() < batch {
                    let now = (from.now_ns)();
                    stream.append((from.read)(ring, batch)?, batch, now);
                    has_read = true;
                }
            }
            let known = self.streams.iter().map(|stream| stream.known_to_ns).min().unwrap_or(0);
            let before = taken.len();
            self.streams.iter_mut().for_each(|stream| stream.pass_on(known, &mut taken));
            // The times in one ring are nearly in order, and the sort is stable.
            taken[before..].sort_by_key(|(t_ns, _)| *t_ns);
            if taken.len() == before && !has_read {
                break;
            }
        }
        Ok(taken.into_iter().map(|(_, event)| event).collect())
    }
}

impl<E> Stream<E> {
    /// Adds what a read has returned that began at `now_ns`.
    fn append(&mut self, events: Vec<(u64, E)>, batch: usize, now_ns: u64) {
        self.at_end = events.len() < batch;
        let newest = events.iter().map(|(t_ns, _)| *t_ns).max().unwrap_or(0);
        let known = match (self.at_end, now_ns) {
            (true, u64::MAX) => u64::MAX,
            (true, now) => now.saturating_sub(DELAY_NS),
            // What comes next in this ring is newer, except an event that these have interrupted.
            (false, _) => newest,
        };
        self.known_to_ns = self.known_to_ns.max(known);
        self.waiting.extend(events);
    }

    /// Passes on the events up to a time. A late one waits behind the one before it.
    fn pass_on(&mut self, known_ns: u64, to: &mut Vec<(u64, E)>) {
        while self.waiting.front().is_some_and(|(t_ns, _)| *t_ns <= known_ns) {
            to.extend(self.waiting.pop_front());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const NOW: u64 = 1_000_000_000;

    /// Takes some `most` events out of rings with events at these times. Returns the times.
    fn take(merge: &mut Merge<u64>, rings: &mut [VecDeque<u64>], most: usize, now_ns: u64) -> Vec<u64> {
        let read = |ring: usize, most: usize| -> Result<_, Infallible> {
            let ring: &mut VecDeque<u64> = &mut rings[ring];
            Ok(ring.drain(..most.min(ring.len())).map(|t_ns| (t_ns, t_ns)).collect())
        };
        let Ok(taken) = merge.take(most, Reader { read, now_ns: || now_ns });
        taken
    }

    /// Two CPUs write 10,000 events by turns of changing length. Whatever is read at a time, they come in order, and all of them.
    #[test]
    fn events_of_all_rings_come_in_order_of_time() {
        for most in [1, 40, 1_000, usize::MAX] {
            let mut rings = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
            (0..10_000u64).for_each(|n| rings[(n / 7 + n / 300) as usize % 2].push_back(n));
            let (mut merge, mut all) = (Merge::new(3), Vec::new());
            loop {
                let taken = take(&mut merge, &mut rings, most, NOW);
                assert!(taken.len() <= most.saturating_add(3 * 2 * most.clamp(LEAST, BATCH)));
                if taken.is_empty() {
                    break;
                }
                all.extend(taken);
            }
            assert_eq!(all, (0..10_000).collect::<Vec<_>>(), "{most} at a time");
        }
    }

    /// The sender's event becomes readable after the receiver's: between two reads.
    #[test]
    fn what_another_ring_may_still_precede_waits() {
        let (mut merge, mut rings) = (Merge::new(2), [VecDeque::from([500]), VecDeque::from([NOW - 100])]);
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, NOW), [500]);
        rings[0].push_back(NOW - 200);
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, NOW + 1_000), [0; 0]);
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, NOW + DELAY_NS), [NOW - 200, NOW - 100]);
    }

    /// Nothing is awaited once the programs have ended.
    #[test]
    fn the_last_events_do_not_wait() {
        let (mut merge, mut rings) = (Merge::new(2), [VecDeque::from([NOW]), VecDeque::from([NOW - 100])]);
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, u64::MAX), [NOW - 100, NOW]);
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, u64::MAX), [0; 0]);
    }

    /// One CPU writes more events than are read at a time, all of them newer than another CPU's ring is known to be: the call ends.
    #[test]
    fn a_storm_on_one_cpu_ends() {
        let storm: Vec<u64> = (0..100).map(|n| NOW + n).collect();
        let (mut merge, mut rings) = (Merge::new(2), [VecDeque::from(storm.clone()), VecDeque::new()]);
        assert_eq!(take(&mut merge, &mut rings, 1, NOW), [0; 0]);
        assert!(rings[0].len() > 50, "what waits here is bounded");
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, u64::MAX), storm);
    }

    /// A switch that is reported late has an older time than the events before it in its ring.
    #[test]
    fn a_late_event_is_passed_on_too() {
        let (mut merge, mut rings) = (Merge::new(1), [VecDeque::from([100, 200, 50, 300])]);
        assert_eq!(take(&mut merge, &mut rings, usize::MAX, NOW), [50, 100, 200, 300]);
    }
}
