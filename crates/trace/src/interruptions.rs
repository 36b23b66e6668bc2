//! What interrupted the threads of a recording: from when to when, and by what. `perfetto::interruptions` writes it
//! as slices, and [`paraver`](crate::paraver) as events.

use std::collections::BTreeMap;

/// What interrupted the threads.
#[derive(Clone, Debug, Default)]
pub struct Interruptions {
    /// Names and classes of causes.
    pub causes: Vec<(String, String)>,
    /// The interruptions of each thread, in any order.
    pub all: Vec<Interruption>,
    /// Number of interruptions that are not in the list, because there was no room.
    pub left_out: u64,
}

/// An interruption of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// The thread.
    pub tid: u32,
    /// The CPU on which it ran, or for which it waited.
    pub cpu: u16,
    /// Begin, ns on CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End, ns on CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Index of the cause.
    pub cause: u32,
}

impl Interruptions {
    /// Returns each thread's interruptions in order of time, an outer one before those within it. A slice has to end within the one in which it
    /// begins, so an interruption that ends later is cut: two CPUs tell of a thread that moves.
    pub(crate) fn nested(&self) -> BTreeMap<u32, Vec<Interruption>> {
        let mut threads: BTreeMap<u32, Vec<Interruption>> = BTreeMap::new();
        for interruption in &self.all {
            threads.entry(interruption.tid).or_default().push(*interruption);
        }
        for all in threads.values_mut() {
            all.sort_by_key(|one| (one.begin_ns, std::cmp::Reverse(one.end_ns)));
            let mut open: Vec<u64> = Vec::new();
            for one in all {
                open.retain(|end_ns| *end_ns > one.begin_ns);
                one.end_ns = open.last().map_or(one.end_ns, |end_ns| one.end_ns.min(*end_ns));
                open.push(one.end_ns);
            }
        }
        threads
    }

    /// Returns the beginnings and ends of a thread's nested interruptions in order of time. A beginning has its cause.
    pub(crate) fn edges(nested: &[Interruption]) -> Vec<(u64, Option<&Interruption>)> {
        let mut edges = Vec::with_capacity(nested.len() * 2);
        let mut open: Vec<u64> = Vec::new();
        for one in nested {
            while let Some(end_ns) = open.pop_if(|end_ns| *end_ns <= one.begin_ns) {
                edges.push((end_ns, None));
            }
            edges.push((one.begin_ns, Some(one)));
            open.push(one.end_ns);
        }
        edges.extend(open.into_iter().rev().map(|end_ns| (end_ns, None)));
        edges
    }
}

#[cfg(test)]
impl Interruptions {
    /// A tick with a softirq in it, a thread that ran instead, and the interrupt of another thread. The last one is left out.
    pub(crate) fn example() -> Interruptions {
        let cause = |name: &str, class: &str| (name.to_owned(), class.to_owned());
        let one = |tid, cpu, begin_ns, end_ns, cause| Interruption { tid, cpu, begin_ns, end_ns, cause };
        Interruptions {
            causes: vec![
                cause("timer tick", "tick"),
                cause("softirq RCU", "softirq"),
                cause("thread a(9)", "thread"),
                cause("IPI: TLB flush by b(8), munmap", "ipi"),
            ],
            all: vec![one(7, 0, 104, 108, 1), one(7, 0, 100, 110, 0), one(7, 1, 120, 150, 2), one(8, 1, 130, 132, 3)],
            left_out: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_of_a_thread_are_nested_in_order() {
        let threads = Interruptions::example().nested();
        assert_eq!(threads.keys().copied().collect::<Vec<u32>>(), [7, 8]);
        let edges: Vec<(u64, Option<u32>)> =
            Interruptions::edges(&threads[&7]).into_iter().map(|(at, one)| (at, one.map(|one| one.cause))).collect();
        assert_eq!(edges, [(100, Some(0)), (104, Some(1)), (108, None), (110, None), (120, Some(2)), (150, None)]);
    }

    #[test]
    fn an_interruption_does_not_end_after_the_one_around_it() {
        let one = |begin_ns, end_ns| Interruption { tid: 1, cpu: 0, begin_ns, end_ns, cause: 0 };
        let all = vec![one(10, 30), one(5, 20), one(20, 25), one(12, 40)];
        let nested = Interruptions { all, ..Interruptions::default() }.nested();
        let spans: Vec<(u64, u64)> = nested[&1].iter().map(|one| (one.begin_ns, one.end_ns)).collect();
        assert_eq!(spans, [(5, 20), (10, 20), (12, 20), (20, 25)]);
        let edges = Interruptions::edges(&nested[&1]);
        assert!(edges.is_sorted_by_key(|(at, _)| *at), "{edges:?}");
        assert_eq!(edges.iter().filter(|(_, one)| one.is_none()).count(), 4);
    }
}
