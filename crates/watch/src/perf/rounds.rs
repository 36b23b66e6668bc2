//! One order for records that come from several rings.
//!
//! The rings are emptied one after the other: when the last has been emptied, the first may hold
//! records that are older than the youngest just read. What is certain after a round is that every
//! record stamped before the round *began* has been read, if writing a record takes no longer than a
//! round. So each round releases what is older than the begin of the round before it, in order of
//! time; the rule of `perf record`'s FINISHED_ROUND.

/// Holds items back until nothing older can come.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    held: Vec<(u64, T)>,
    last_begin_ns: u64,
}

impl<T> Rounds<T> {
    pub(super) fn new() -> Rounds<T> {
        Rounds { held: Vec::new(), last_begin_ns: 0 }
    }

    /// Take an item stamped `t_ns`.
    pub(super) fn push(&mut self, t_ns: u64, item: T) {
        self.held.push((t_ns, item));
    }

    /// End a round that began at `begin_ns`: what is older than the round before, oldest first.
    pub(super) fn release(&mut self, begin_ns: u64) -> impl Iterator<Item = T> + use<'_, T> {
        self.sort();
        let old = self.held.partition_point(|(t_ns, _)| *t_ns < self.last_begin_ns);
        self.last_begin_ns = begin_ns;
        self.held.drain(..old).map(|(_, item)| item)
    }

    /// Everything, oldest first.
    pub(super) fn release_all(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.sort();
        self.held.drain(..).map(|(_, item)| item)
    }

    /// Stable: items of one ring with equal stamps keep their order. Fast, because what is held is a
    /// few sorted runs.
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
