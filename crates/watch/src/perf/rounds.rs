//! Merges the records of several rings into one order.
//!
//! The rings are emptied one after the other. When the last one has been emptied, the first one may already hold records that are older than the
//! youngest record just read. After a round, every record with a time before the *start* of the round has certainly been read, if writing a record
//! takes no longer than a round. More is not certain. So each round releases, in order of time, the records that are older than the start of the
//! previous round. This is the rule of `perf record`'s FINISHED_ROUND.

/// Holds items back until no older item can arrive.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    held: Vec<(u64, T)>,
    last_begin_ns: u64,
}

impl<T> Rounds<T> {
    pub(super) fn new() -> Rounds<T> {
        Rounds { held: Vec::new(), last_begin_ns: 0 }
    }

    /// Adds an item with the time `t_ns`.
    pub(super) fn push(&mut self, t_ns: u64, item: T) {
        self.held.push((t_ns, item));
    }

    /// Ends a round that began at `begin_ns`. Returns the items that are older than the start of the previous round, oldest first.
    pub(super) fn release(&mut self, begin_ns: u64) -> impl Iterator<Item = T> + use<'_, T> {
        self.sort();
        let old = self.held.partition_point(|(t_ns, _)| *t_ns < self.last_begin_ns);
        self.last_begin_ns = begin_ns;
        self.held.drain(..old).map(|(_, item)| item)
    }

    /// Returns all items, oldest first.
    pub(super) fn release_all(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.sort();
        self.held.drain(..).map(|(_, item)| item)
    }

    /// A stable sort: items of one ring with equal times keep their order. It is fast, because the items are a few sorted runs.
    fn sort(&mut self) {
        self.held.sort_by_key(|(t_ns, _)| *t_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overtakes_a_record_that_was_read_late() {
        let mut rounds = Rounds::new();
        // Round at 100: ring A read up to 101, then ring B up to 105.
        for t in [90, 101, 95, 104, 105] {
            rounds.push(t, t);
        }
        assert_eq!(rounds.release(100).count(), 0);
        // Round at 200: ring A held 103 all the time.
        for t in [103, 150, 205] {
            rounds.push(t, t);
        }
        assert_eq!(rounds.release(200).collect::<Vec<_>>(), [90, 95]);
        rounds.push(199, 199);
        assert_eq!(rounds.release(300).collect::<Vec<_>>(), [101, 103, 104, 105, 150, 199]);
        assert_eq!(rounds.release_all().collect::<Vec<_>>(), [205]);
        assert_eq!(rounds.release_all().count(), 0);
    }

    #[test]
    fn equal_stamps_keep_their_order() {
        let mut rounds = Rounds::new();
        for item in ["first", "second", "third"] {
            rounds.push(7, item);
        }
        assert_eq!(rounds.release_all().collect::<Vec<_>>(), ["first", "second", "third"]);
    }
}
