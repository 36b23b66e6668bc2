//! The earlier tasks that a task has to wait for: OpenMP's `depend`, among the tasks of one parent.
//!
//! Pure: a table from addresses to the latest tasks that access them, for any kind of task handle. Each parent has a table. Only the thread
//! that runs the parent enters tasks, in the order of their creation.
//!
//! For each address there are two *sets* of tasks. The last set holds the latest tasks, which may run concurrently (readers, or an
//! `inoutset`) or are a single writer. The set before it holds the tasks that each task of the last set has to wait for. A task of the last
//! set's kind joins it; a task of another kind begins a new set. Older tasks need not be kept, because the tasks of the set before the last
//! one wait for them.
//!
//! Source of the rules: OpenMP 5.2, section 15.9.5 (depend clause), and 15.9.1 on `omp_all_memory`.

/// What a task does to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `in`: may run concurrently with other readers.
    In,
    /// `out`, `inout`, and `mutexinoutset`: runs alone. OpenMP allows tasks of the last kind in any order; here they run one after the
    /// other in the order of their creation, so they need no lock.
    Out,
    /// `inoutset`: may run concurrently with other tasks of this kind.
    InOutSet,
}

/// One item of a task's depend clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An address. Two accesses conflict only if their addresses are equal.
    At(usize, Kind),
    /// All memory: `omp_all_memory`, with `out` or `inout`.
    Everything,
}

struct Entry<H> {
    /// The address in a `depend` clause. 0: the entry is free; no program has an object at the address 0.
    address: usize,
    kind: Kind,
    /// True if the tasks in `last` (the latest tasks with this address) wait for the task that accessed all memory (`everything`). Then
    /// `before` is empty; otherwise `before` contains the tasks for which those in `last` wait.
    after_everything: bool,
    last: Vec<H>,
    before: Vec<H>,
}

/// The accesses of a task's children so far. `H` is a handle of a child.
pub struct Table<H> {
    /// Hash table with linear probing. Its length is 0 or a power of two.
    entries: Vec<Entry<H>>,
    used: usize,
    everything: Option<H>,
}

/// Functions that a table calls while a task is entered, and while the table is cleared.
pub trait Listener<H> {
    /// The task that is being entered has to wait for `earlier`. Called more than once for the same task if several accesses conflict.
    fn waits_for(&mut self, earlier: H);
    /// The table has dropped one of its references to the task `earlier`. When that task was entered, [`Table::enter`] returned the number of
    /// these references.
    fn forgotten(&mut self, earlier: H);
}

const FIRST_ENTRIES: usize = 16;
/// A table with more entries than this is freed when it is cleared.
const KEPT_ENTRIES: usize = 1024;

impl<H: Copy + PartialEq> Table<H> {
    /// Makes an empty table.
    pub const fn new() -> Table<H> {
        Table { entries: Vec::new(), used: 0, everything: None }
    }

    /// Enters a new task with its `accesses`, and tells `listener` which earlier tasks the new one has to wait for. Returns how many references
    /// to the new task the table has added.
    pub fn enter(&mut self, task: H, accesses: impl Iterator<Item = Access>, listener: &mut impl Listener<H>) -> u32 {
        let mut remembered = 0;
        for access in accesses {
            match access {
                Access::At(address, kind) => remembered += u32::from(self.access(task, address, kind, listener)),
                Access::Everything => {
                    self.access_everything(task, listener);
                    remembered += 1;
                }
            }
        }
        remembered
    }

    /// Enters one access. Returns whether the table has added a reference to the task.
    fn access(&mut self, task: H, address: usize, kind: Kind, listener: &mut impl Listener<H>) -> bool {
        let everything = self.everything;
        let entry = self.entry(address);
        if entry.last.is_empty() {
            (entry.kind, entry.after_everything) = (kind, everything.is_some());
        } else if entry.kind != kind || kind == Kind::Out {
            if kind == Kind::Out && entry.kind == Kind::Out && entry.last.last() == Some(&task) {
                return false;
            }
            entry.before.drain(..).for_each(|earlier| listener.forgotten(earlier));
            std::mem::swap(&mut entry.last, &mut entry.before);
            (entry.kind, entry.after_everything) = (kind, false);
        } else if entry.last.last() == Some(&task) {
            return false;
        }
        entry.before.iter().filter(|earlier| **earlier != task).for_each(|earlier| listener.waits_for(*earlier));
        if entry.after_everything {
            everything.filter(|other| *other != task).into_iter().for_each(|other| listener.waits_for(other));
        }
        entry.last.push(task);
        true
    }

    /// Enters an access to all memory: the task waits for the latest tasks of all addresses, and later tasks wait for this task instead of
    /// those tasks.
    fn access_everything(&mut self, task: H, listener: &mut impl Listener<H>) {
        for entry in &mut self.entries {
            for earlier in entry.last.drain(..) {
                if earlier != task {
                    listener.waits_for(earlier);
                }
                listener.forgotten(earlier);
            }
            entry.before.drain(..).for_each(|earlier| listener.forgotten(earlier));
            entry.address = 0;
        }
        self.used = 0;
        if let Some(earlier) = self.everything.replace(task) {
            if earlier != task {
                listener.waits_for(earlier);
            }
            listener.forgotten(earlier);
        }
    }

    /// Clears the table, when all tasks that were entered have ended.
    pub fn clear(&mut self, listener: &mut impl Listener<H>) {
        if self.used > 0 {
            for entry in &mut self.entries {
                let sets = entry.last.drain(..).chain(entry.before.drain(..));
                sets.for_each(|earlier| listener.forgotten(earlier));
                entry.address = 0;
            }
            if self.entries.len() > KEPT_ENTRIES {
                self.entries = Vec::new();
            }
        }
        self.used = 0;
        self.everything.take().into_iter().for_each(|earlier| listener.forgotten(earlier));
    }

    /// Returns whether the table has no reference to any task.
    pub fn is_empty(&self) -> bool {
        self.used == 0 && self.everything.is_none()
    }

    fn entry(&mut self, address: usize) -> &mut Entry<H> {
        // The table is at most half full, so probe sequences are short, and always end at a free entry.
        if self.used * 2 >= self.entries.len() {
            self.grow();
        }
        let at = self.place(address);
        let entry = &mut self.entries[at];
        if entry.address == 0 {
            entry.address = address;
            self.used += 1;
        }
        entry
    }

    /// Returns the index of an address's entry, or of the free entry where it belongs.
    fn place(&self, address: usize) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = spread(address) & mask;
        while self.entries[at].address != 0 && self.entries[at].address != address {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let empty =
            || Entry { address: 0, kind: Kind::In, after_everything: false, last: Vec::new(), before: Vec::new() };
        let size = (self.entries.len() * 2).max(FIRST_ENTRIES);
        let old = std::mem::replace(&mut self.entries, std::iter::repeat_with(empty).take(size).collect());
        for entry in old.into_iter().filter(|entry| entry.address != 0) {
            let at = self.place(entry.address);
            self.entries[at] = entry;
        }
    }
}

impl<H: Copy + PartialEq> Default for Table<H> {
    fn default() -> Table<H> {
        Table::new()
    }
}

/// Hashes an address: (address × r mod 2^64) ÷ 2^32, where r = 2^64 ÷ golden ratio (Knuth, TAOCP 6.4). With this hash, neighbouring
/// addresses, such as elements of an array, do not fill neighbouring entries of the table.
fn spread(address: usize) -> usize {
    ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Heard {
        waits_for: Vec<usize>,
        forgotten: Vec<usize>,
    }

    impl Listener<usize> for Heard {
        fn waits_for(&mut self, earlier: usize) {
            self.waits_for.push(earlier);
        }

        fn forgotten(&mut self, earlier: usize) {
            self.forgotten.push(earlier);
        }
    }

    /// Returns, for each of these tasks, the tasks that it waits for, without duplicates.
    fn waits(tasks: &[&[Access]]) -> Vec<Vec<usize>> {
        let mut table = Table::new();
        let each = tasks.iter().enumerate().map(|(task, accesses)| {
            let mut heard = Heard::default();
            table.enter(task, accesses.iter().copied(), &mut heard);
            heard.waits_for.sort_unstable();
            heard.waits_for.dedup();
            heard.waits_for
        });
        each.collect()
    }

    const READ: Access = Access::At(64, Kind::In);
    const WRITE: Access = Access::At(64, Kind::Out);
    const SET: Access = Access::At(64, Kind::InOutSet);

    #[test]
    fn readers_wait_for_the_writer_and_the_next_writer_for_them() {
        let waits = waits(&[&[WRITE], &[READ], &[READ], &[WRITE], &[WRITE]]);
        assert_eq!(waits, [vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
    }

    #[test]
    fn sets_run_together_but_not_with_other_kinds() {
        let waits = waits(&[&[WRITE], &[SET], &[SET], &[READ], &[READ], &[SET], &[WRITE]]);
        let expected = [vec![], vec![0], vec![0], vec![1, 2], vec![1, 2], vec![3, 4], vec![5]];
        assert_eq!(waits, expected);
    }

    #[test]
    fn other_addresses_are_other_matters() {
        let other = Access::At(72, Kind::Out);
        assert_eq!(waits(&[&[WRITE], &[other], &[READ, other]]), [vec![], vec![], vec![0, 1]]);
    }

    #[test]
    fn nobody_waits_for_itself() {
        assert_eq!(waits(&[&[READ, WRITE], &[WRITE, READ], &[READ]]), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn everything_is_before_and_after_everything() {
        let other = Access::At(72, Kind::In);
        let waits =
            waits(&[&[READ], &[other], &[Access::Everything], &[READ], &[READ], &[WRITE], &[Access::Everything]]);
        assert_eq!(waits, [vec![], vec![], vec![0, 1], vec![2], vec![2], vec![3, 4], vec![2, 5]]);
    }

    fn access() -> impl Strategy<Value = Access> {
        let kind = prop_oneof![Just(Kind::In), Just(Kind::Out), Just(Kind::InOutSet)];
        prop_oneof![
            30 => (1usize..6, kind).prop_map(|(place, kind)| Access::At(place * 8, kind)),
            1 => Just(Access::Everything),
        ]
    }

    /// Returns whether the OpenMP specification forbids to reorder two accesses.
    fn conflict(one: Access, other: Access) -> bool {
        match (one, other) {
            (Access::At(place, kind), Access::At(other_place, other_kind)) => {
                place == other_place && (kind != other_kind || kind == Kind::Out)
            }
            _ => true,
        }
    }

    proptest! {
        /// The table orders exactly those pairs of tasks that the specification orders, directly or through other tasks.
        #[test]
        fn order_is_what_conflicts_ask_for(
            tasks in prop::collection::vec(prop::collection::vec(access(), 1..4), 1..24)
        ) {
            let n = tasks.len();
            let mut table = Table::new();
            let mut remembered = vec![0; n];
            let mut forgotten = vec![0; n];
            let mut reach = vec![vec![false; n]; n];
            let mut wanted = vec![vec![false; n]; n];
            for (task, accesses) in tasks.iter().enumerate() {
                let mut heard = Heard::default();
                remembered[task] = table.enter(task, accesses.iter().copied(), &mut heard);
                heard.forgotten.into_iter().for_each(|earlier| forgotten[earlier] += 1);
                let direct = |earlier: &usize| accesses.iter().any(|own| tasks[*earlier].iter().any(|other| conflict(*own, *other)));
                for (matrix, waits) in
                    [(&mut reach, heard.waits_for), (&mut wanted, (0..task).filter(direct).collect())]
                {
                    for earlier in waits {
                        prop_assert!(earlier < task);
                        let through = matrix[earlier].clone();
                        matrix[task].iter_mut().zip(through).for_each(|(own, through)| *own |= through);
                        matrix[task][earlier] = true;
                    }
                }
            }
            prop_assert_eq!(&reach, &wanted);
            let mut heard = Heard::default();
            table.clear(&mut heard);
            heard.forgotten.into_iter().for_each(|earlier| forgotten[earlier] += 1);
            prop_assert_eq!(remembered, forgotten);
            prop_assert!(table.is_empty());
        }
    }

    #[test]
    fn it_grows_and_forgets() {
        let mut table = Table::new();
        for round in 0..2 {
            for task in 0..5000usize {
                let mut heard = Heard::default();
                table.enter(task, [Access::At((task + 1) * 8, Kind::Out)].into_iter(), &mut heard);
                assert!(heard.waits_for.is_empty(), "round {round}");
            }
            let mut heard = Heard::default();
            table.enter(5000, [Access::At(8, Kind::In)].into_iter(), &mut heard);
            assert_eq!(heard.waits_for, [0]);
            let mut heard = Heard::default();
            table.clear(&mut heard);
            assert_eq!(heard.forgotten.len(), 5001);
        }
    }
}
