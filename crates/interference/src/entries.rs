//! What entering and leaving the kernel takes on a CPU.
//!
//! The tracepoints lie within the kernel: the way in and out, and the caches that have to be filled again, are a part of the detour that no event
//! covers. The hypervisor can stop the CPU during the same detour, and no event covers that either. The two are told apart by comparison: on
//! one CPU, entries because of the same kind of cause take about the same time. What is far beyond that was not the entry.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use crate::cause::{Cause, Causes};
use crate::detours::Finding;

/// Fewest detours from which the time of an entry is estimated.
const FEWEST: usize = 8;
/// An entry that took longer than this many times the typical entry was prolonged by something else. On a nested virtual machine of 2 CPUs, 95 % of the
/// entries of each kind stay below 2.3 times their median (idle and beside stress-ng); then a gap follows, and 1 % take 50 to 700 times as long.
const BEYOND: u64 = 4;

/// The time that an entry typically takes, by kind of cause.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    by_kind: HashMap<Discriminant<Cause>, u64>,
    any: Option<u64>,
}

impl Entries {
    /// Estimates the times from the detours of one CPU: what happened in each of them, and how much time it took from the thread, ns.
    #[must_use]
    pub fn of<'f>(detours: impl IntoIterator<Item = (&'f Finding, u64)>, causes: &Causes) -> Entries {
        let mut by_kind: HashMap<Discriminant<Cause>, Vec<u64>> = HashMap::new();
        for (finding, stolen_ns) in detours {
            let Finding::Caused { largest, net, entries } = finding else { continue };
            let net_ns: u64 = net.iter().map(|(_, ns)| ns).sum();
            let each_ns = stolen_ns.saturating_sub(net_ns) / u64::from(*entries);
            by_kind.entry(discriminant(causes.get(*largest))).or_default().push(each_ns);
        }
        let any = median(by_kind.values().flatten().copied().collect());
        let typical = |(kind, times): (_, Vec<u64>)| Some((kind, median(times)?));
        Entries { by_kind: by_kind.into_iter().filter_map(typical).collect(), any }
    }

    /// Divides what no event covers in a detour: what the entries took, and what something outside the events took, ns. `largest` is the cause with the
    /// most net time.
    ///
    /// If there are too few detours for a comparison, the entries took all of it.
    #[must_use]
    pub fn divide(&self, largest: &Cause, entries: u32, uncovered_ns: u64) -> (u64, u64) {
        let Some(each_ns) = self.by_kind.get(&discriminant(largest)).copied().or(self.any) else {
            return (uncovered_ns, 0);
        };
        let typical_ns = each_ns * u64::from(entries);
        if uncovered_ns > BEYOND * typical_ns { (typical_ns, uncovered_ns - typical_ns) } else { (uncovered_ns, 0) }
    }
}

/// Returns the median: as long as fewer than half of the entries were prolonged, it is a time without prolongation. `None` if there are too few.
fn median(mut times: Vec<u64>) -> Option<u64> {
    if times.len() < FEWEST {
        return None;
    }
    let middle = times.len() / 2;
    Some(*times.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::CauseId;

    const TICK: CauseId = CauseId(0);
    const DISK: CauseId = CauseId(1);

    fn causes() -> Causes {
        let mut causes = Causes::default();
        assert_eq!(causes.number(Cause::Timer { function: 1 }), TICK);
        assert_eq!(causes.number(Cause::Irq(36)), DISK);
        causes
    }

    /// A detour with one cause of 1,000 ns, and what it took with `uncovered_ns` beside.
    fn detour(largest: CauseId, entries: u32, uncovered_ns: u64) -> (Finding, u64) {
        (Finding::Caused { largest, net: vec![(largest, 1_000)], entries }, 1_000 + uncovered_ns)
    }

    fn entries(detours: &[(Finding, u64)]) -> Entries {
        Entries::of(detours.iter().map(|(finding, stolen_ns)| (finding, *stolen_ns)), &causes())
    }

    /// Twenty ticks of which six were prolonged by the hypervisor, eight disk interrupts, and a detour without an event.
    fn measured() -> Entries {
        let ticks = (0..14).map(|at| detour(TICK, 1, 593 + at)).chain((0..6).map(|_| detour(TICK, 1, 4_000_000)));
        let disk = (0..8).map(|_| detour(DISK, 2, 4_000));
        entries(&ticks.chain(disk).chain([(Finding::NoEvent, 50_000)]).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_far_beyond_the_typical_entry_was_not_the_entry() {
        let (causes, entries) = (causes(), measured());
        let tick = |count, ns| entries.divide(causes.get(TICK), count, ns);
        // The median of the twenty is the eleventh: 603 ns.
        assert_eq!(tick(1, 2_412), (2_412, 0), "four times the typical time is still an entry");
        assert_eq!(tick(1, 2_413), (603, 1_810));
        assert_eq!(tick(1, 4_000_000), (603, 3_999_397));
        assert_eq!(tick(2, 2_413), (2_413, 0), "two entries may take twice as long");
    }

    #[test]
    fn each_kind_of_cause_is_compared_with_itself() {
        let (causes, entries) = (causes(), measured());
        assert_eq!(entries.divide(causes.get(DISK), 1, 8_000), (8_000, 0), "2,000 ns for each entry");
        assert_eq!(entries.divide(causes.get(DISK), 1, 8_001), (2_000, 6_001));
    }

    #[test]
    fn a_rare_kind_is_compared_with_all() {
        let (mut causes, entries) = (causes(), measured());
        let nmi = causes.number(Cause::Nmi { handler: 7 });
        // Fourteen short ticks, eight times 2,000 ns and six long ticks: the fifteenth of 28.
        assert_eq!(entries.divide(causes.get(nmi), 1, 1_000_000), (2_000, 998_000));
    }

    #[test]
    fn a_handful_of_detours_is_not_compared() {
        let few: Vec<(Finding, u64)> = (0..FEWEST as u64 - 1).map(|_| detour(TICK, 1, 600)).collect();
        assert_eq!(entries(&few).divide(causes().get(TICK), 1, 4_000_000), (4_000_000, 0));
    }
}
