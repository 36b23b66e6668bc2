//! Buffer that sorts events: they arrive in any order, and leave in order of time; events of the same time in order of arrival.
//!
//! Nearly all events arrive in order and leave at the next call of `take_until`. Therefore new events are stored in order of arrival and sorted only
//! if they are out of order. Events that have to wait longer go into a tree, since otherwise they would be sorted again at each call.

use std::collections::BTreeMap;

use wire::Event;

/// The buffer; see the module's header.
#[derive(Clone, Debug, Default)]
pub(super) struct SortBuffer {
    /// Events since the last call of `take_until`, in order of arrival.
    fresh: Vec<Event>,
    /// True if `fresh` is not in order of time.
    is_mixed: bool,
    /// Events that earlier calls of `take_until` left here, by time and order of arrival. All of them arrived before those in `fresh`.
    waiting: BTreeMap<(u64, u64), Event>,
    arrivals: u64,
}

impl SortBuffer {
    /// Adds an event.
    pub(super) fn push(&mut self, event: Event) {
        self.is_mixed |= self.fresh.last().is_some_and(|last| last.t_ns > event.t_ns);
        self.fresh.push(event);
    }

    /// Returns the events before `until_ns`, in order. The vector can be [given back](SortBuffer::give_back) for reuse.
    pub(super) fn take_until(&mut self, until_ns: u64) -> Vec<Event> {
        if std::mem::take(&mut self.is_mixed) {
            self.fresh.sort_by_key(|event| event.t_ns);
        }
        let later = self.waiting.split_off(&(until_ns, 0));
        let waited = std::mem::replace(&mut self.waiting, later);
        let count = self.fresh.partition_point(|event| event.t_ns < until_ns);
        for event in self.fresh.drain(count..) {
            self.waiting.insert((event.t_ns, self.arrivals), event);
            self.arrivals += 1;
        }
        let fresh = std::mem::take(&mut self.fresh);
        if waited.is_empty() {
            return fresh;
        }
        let mut due: Vec<Event> = waited.into_values().chain(fresh).collect();
        // The sort is stable: of events with the same time, those from `waiting`, which arrived earlier, stay first.
        due.sort_by_key(|event| event.t_ns);
        due
    }

    /// Reuses the memory of a returned vector for the next events.
    pub(super) fn give_back(&mut self, mut taken: Vec<Event>) {
        taken.clear();
        if self.fresh.is_empty() {
            self.fresh = taken;
        }
    }

    /// Drops all events.
    pub(super) fn clear(&mut self) {
        *self = SortBuffer::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Random;
    use wire::EventKind;

    /// The n-th that comes.
    fn at(t_ns: u64, nth: u32) -> Event {
        Event { t_ns, tid: nth, kind: EventKind::Exit }
    }

    /// What a tree says: all in order of time and arrival.
    #[test]
    fn any_order_is_put_in_order() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let (mut sort_buffer, mut tree, mut nth) = (SortBuffer::default(), BTreeMap::new(), 0);
            let spread = [3, 40, 1_000][random.below(3)];
            for look in 1..6 {
                for _ in 0..random.below(30) {
                    // Some later than the next look, some earlier than the last one.
                    let t_ns = (look * 20 + random.below(spread)) as u64;
                    sort_buffer.push(at(t_ns, nth));
                    tree.insert((t_ns, nth), at(t_ns, nth));
                    nth += 1;
                }
                let until_ns = (look * 25) as u64;
                let later = tree.split_off(&(until_ns, 0));
                let expected: Vec<Event> = std::mem::replace(&mut tree, later).into_values().collect();
                let taken = sort_buffer.take_until(until_ns);
                assert_eq!(taken, expected, "seed {seed}");
                sort_buffer.give_back(taken);
            }
            assert_eq!(sort_buffer.take_until(u64::MAX), tree.into_values().collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn what_is_forgotten_does_not_come() {
        let mut sort_buffer = SortBuffer::default();
        sort_buffer.push(at(5, 0));
        sort_buffer.push(at(3, 1));
        sort_buffer.clear();
        sort_buffer.push(at(4, 2));
        assert_eq!(sort_buffer.take_until(9), [at(4, 2)]);
    }
}
