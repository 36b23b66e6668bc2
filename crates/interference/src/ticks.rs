//! What ticks did: detours that contain the timer tick, grouped by what else they contain.
//!
//! A tick runs the function of the tick, and then what became due with it: softirqs, the functions of timers, work items, a switch to another thread.

use std::collections::{BTreeMap, BTreeSet};

use crate::cause::{Cause, CauseId, Causes};
use crate::describe::{self, Names};
use crate::parts::Parts;

/// Name of the tick's own function.
pub const TICK: &str = "tick function";
/// Name of entering and leaving the kernel in a detour.
pub const OF_DETOURS: &str = "entry and exit";
/// The same in a quantum or step, whose work varies by itself.
pub const OF_QUANTA: &str = "entry and exit, variation of the work";
/// Classes, in the order in which a group names them: what the tick itself runs, then what happened in the meantime.
const ORDER: [&str; 8] = ["tick", "softirq", "timer", "kworker", "device", "ipi", "page fault", "thread"];
/// Largest number of groups. Rarer combinations are one group, the last.
pub const GROUPS: usize = 16;

/// A part of the time of ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What took the time.
    pub what: String,
    /// Its class ([`describe::class`]); `entry` is entering and leaving the kernel.
    pub class: &'static str,
    /// Its time, ns.
    pub sum_ns: u64,
}

/// Ticks that did the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they did: `tick alone`, `tick + softirq SCHED`.
    pub what: String,
    /// Lengths of their detours, ns, ascending, without what something outside the events took meanwhile.
    pub lengths_ns: Vec<u64>,
    /// Time by part, over all of them: the tick's function first, then in the order of the title, entry and exit last. Together, the sum of the lengths.
    pub parts: Vec<Part>,
}

/// Groups the detours that contain a tick; the most frequent groups come first. `detours` are the parts of each detour; `entry` names
/// entering and leaving the kernel.
#[must_use]
pub fn groups<'p>(
    detours: impl IntoIterator<Item = &'p Parts>,
    entry: &str,
    causes: &Causes,
    names: &dyn Names,
) -> Vec<Group> {
    let kinds: Vec<(String, &'static str)> =
        causes.all().iter().map(|cause| (kind(cause, names), describe::class(cause, names))).collect();
    let kind_of = |CauseId(at): CauseId| kinds.get(at as usize).map_or(UNKNOWN, |(what, class)| Kind::new(what, class));
    let mut groups: BTreeMap<BTreeSet<Kind>, Gathered> = BTreeMap::new();
    for parts in detours {
        let contained: BTreeSet<Kind> = parts.net.iter().map(|(cause, _)| kind_of(*cause)).collect();
        if contained.first().is_none_or(|first| first.what != TICK) {
            continue;
        }
        let group = groups.entry(contained).or_default();
        group.lengths_ns.push(parts.entry_ns + parts.net.iter().map(|(_, ns)| ns).sum::<u64>());
        for (cause, ns) in &parts.net {
            *group.parts.entry(kind_of(*cause)).or_default() += ns;
        }
        group.entry_ns += parts.entry_ns;
    }
    let mut groups: Vec<(String, Gathered)> = groups.into_iter().map(|(kinds, group)| (title(&kinds), group)).collect();
    let rank = |group: &Gathered| std::cmp::Reverse((group.lengths_ns.len(), group.sum_ns()));
    groups.sort_by(|(a, one), (b, other)| rank(one).cmp(&rank(other)).then_with(|| a.cmp(b)));
    if groups.len() > GROUPS {
        let rare = groups.split_off(GROUPS - 1);
        let mut all = Gathered::default();
        rare.iter().for_each(|(_, group)| all.add(group));
        groups.push((format!("tick + {} other combinations", rare.len()), all));
    }
    groups.into_iter().map(|(what, group)| group.finish(what, entry)).collect()
}

/// What took time beside a tick, ordered as a group names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'n> {
    place: usize,
    what: &'n str,
    class: &'static str,
}

/// Stands for a cause that has no name.
const UNKNOWN: Kind<'_> = Kind { place: ORDER.len(), what: "unknown", class: "unknown" };

impl<'n> Kind<'n> {
    fn new(what: &'n str, class: &'static str) -> Kind<'n> {
        Kind { place: ORDER.iter().position(|of| *of == class).unwrap_or(ORDER.len()), what, class }
    }
}

/// Detours of one group, while they are gathered.
#[derive(Default)]
struct Gathered<'n> {
    lengths_ns: Vec<u64>,
    parts: BTreeMap<Kind<'n>, u64>,
    entry_ns: u64,
}

impl<'n> Gathered<'n> {
    fn sum_ns(&self) -> u64 {
        self.lengths_ns.iter().sum()
    }

    fn add(&mut self, other: &Gathered<'n>) {
        self.lengths_ns.extend(&other.lengths_ns);
        other.parts.iter().for_each(|(kind, ns)| *self.parts.entry(*kind).or_default() += ns);
        self.entry_ns += other.entry_ns;
    }

    fn finish(mut self, what: String, entry: &str) -> Group {
        self.lengths_ns.sort_unstable();
        let part = |(kind, sum_ns): (Kind, u64)| Part { what: kind.what.to_owned(), class: kind.class, sum_ns };
        let mut parts: Vec<Part> = self.parts.into_iter().map(part).collect();
        parts.push(part((Kind::new(entry, "entry"), self.entry_ns)));
        Group { what, lengths_ns: self.lengths_ns, parts }
    }
}

fn title(kinds: &BTreeSet<Kind>) -> String {
    let others: Vec<&str> = kinds.iter().map(|kind| kind.what).filter(|what| *what != TICK).collect();
    if others.is_empty() { "tick alone".to_owned() } else { format!("tick + {}", others.join(" + ")) }
}

/// The kind of a cause beside a tick. Which thread ran and which CPU sent an interrupt makes no difference: it is no property of the tick.
fn kind(cause: &Cause, names: &dyn Names) -> String {
    match cause {
        Cause::Thread { .. } => "other threads".to_owned(),
        Cause::Call { .. } | Cause::Reschedule { .. } => "IPIs".to_owned(),
        Cause::Irq(_) => "device interrupts".to_owned(),
        Cause::Fault { .. } => "page faults".to_owned(),
        _ if describe::class(cause, names) == "tick" => TICK.to_owned(),
        _ => describe::name(cause, names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with one tick.
    struct Kernel;

    impl Names for Kernel {
        fn function(&self, address: u64) -> Option<String> {
            Some(if address == 1 { "tick_nohz_handler".to_owned() } else { format!("function_{address}") })
        }

        fn devices(&self, _: u32) -> Option<String> {
            None
        }

        fn call(&self, _: u32) -> Option<String> {
            None
        }
    }

    /// Parts of a detour during which the hypervisor took the CPU; the first cause is the largest.
    fn parts(net: &[(CauseId, u64)], entry_ns: u64) -> Parts {
        Parts { net: net.to_vec(), entry_ns, beyond_ns: 5_000_000, largest: net[0].0 }
    }

    #[test]
    fn ticks_that_did_the_same_are_a_group() {
        let mut causes = Causes::default();
        let tick = causes.number(Cause::Timer { function: 1 });
        let sched = causes.number(Cause::Softirq(7));
        let [one, two] = [4711, 4712].map(|tid| causes.number(Cause::Thread { tid, comm: "heat".into() }));
        let detours = [
            parts(&[(tick, 900)], 600),
            parts(&[(tick, 1_000), (sched, 400)], 600),
            parts(&[(tick, 1_100)], 700),
            parts(&[(one, 4_000_000), (tick, 500)], 300),
            parts(&[(tick, 500), (two, 2_000_000)], 200),
            // Not a tick.
            parts(&[(sched, 400)], 100),
        ];
        let group = |what: &str, lengths_ns: &[u64], parts: &[(&str, &'static str, u64)]| Group {
            what: what.to_owned(),
            lengths_ns: lengths_ns.to_vec(),
            parts: parts
                .iter()
                .map(|(what, class, ns)| Part { what: (*what).to_owned(), class, sum_ns: *ns })
                .collect(),
        };
        let (tick, rest) = (|ns| (TICK, "tick", ns), |ns| (OF_DETOURS, "entry", ns));
        let expected = [
            // Of two groups of the same size, the one that took more time comes first.
            group(
                "tick + other threads",
                &[2_000_700, 4_000_800],
                &[tick(1_000), ("other threads", "thread", 6_000_000), rest(500)],
            ),
            group("tick alone", &[1_500, 1_800], &[tick(2_000), rest(1_300)]),
            group("tick + softirq SCHED", &[2_000], &[tick(1_000), ("softirq SCHED", "softirq", 400), rest(600)]),
        ];
        assert_eq!(groups(&detours, OF_DETOURS, &causes, &Kernel), expected);
    }

    #[test]
    fn rare_combinations_are_one_group_and_nothing_is_lost() {
        let mut causes = Causes::default();
        let tick = causes.number(Cause::Timer { function: 1 });
        let mut detours: Vec<Parts> = (0..40)
            .map(|at| parts(&[(tick, 1_000), (causes.number(Cause::Work { function: at + 10 }), 100 * (at + 1))], 10))
            .collect();
        detours.extend([parts(&[(tick, 500)], 10), parts(&[(tick, 500)], 10)]);
        let found = groups(&detours, OF_DETOURS, &causes, &Kernel);
        assert_eq!((found.len(), found[0].what.as_str()), (GROUPS, "tick alone"), "the most frequent first");
        assert_eq!(found[1].what, "tick + kworker: function_49");
        let last = &found[GROUPS - 1];
        assert_eq!((last.what.as_str(), last.lengths_ns.len()), ("tick + 26 other combinations", 26));
        for group in &found {
            assert_eq!(group.parts.iter().map(|part| part.sum_ns).sum::<u64>(), group.lengths_ns.iter().sum::<u64>());
        }
        assert_eq!(found.iter().map(|group| group.lengths_ns.len()).sum::<usize>(), 42);
    }
}
