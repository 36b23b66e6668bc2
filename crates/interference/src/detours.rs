//! What caused each detour of a measuring loop.
//!
//! A detour is a gap between two readings of the clock in a loop that does nothing else. It is *caused* if an event of the kernel lies in it. The
//! events cover only a part of it ([`crate::entries`]). A detour without an event happened *outside this kernel* (hypervisor, firmware), provided
//! that the events are complete; otherwise its cause is *unknown*.

use std::collections::BTreeMap;

use crate::cause::{CauseId, Causes};
use crate::interval::Interval;

/// A detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Begin, ns on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
}

/// What happened in a detour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The kernel did something during the detour.
    Caused {
        /// The cause with the most net time in the detour.
        largest: CauseId,
        /// Net time of each cause in the detour, ns, by its number; together, at most the length of the detour.
        net: Vec<(CauseId, u64)>,
        /// How often the kernel was entered, at least 1.
        entries: u32,
    },
    /// No event of the kernel lies in the detour.
    NoEvent,
}

/// Largest time, ns, by which the loop's clock and the events' clock may differ.
pub const TOLERANCE_NS: u64 = 200;

/// Finds what happened in each detour of a thread. `detours` are sorted and do not overlap; `intervals` are of the same thread, in any order.
#[must_use]
pub fn findings(detours: &[Detour], intervals: &[Interval], causes: &Causes) -> Vec<Finding> {
    let mut intervals: Vec<&Interval> = intervals.iter().collect();
    intervals.sort_by_key(|interval| interval.span.begin_ns);
    // The longest interval limits how far back an interval can begin that still lies in a detour.
    let longest = intervals.iter().map(|i| i.span.end_ns.saturating_sub(i.span.begin_ns)).max().unwrap_or(0);
    let mut first = 0;
    let finding = |detour: &Detour| {
        let begin = detour.start_ns.saturating_sub(TOLERANCE_NS);
        let end = detour.start_ns + detour.length_ns + TOLERANCE_NS;
        while intervals.get(first).is_some_and(|i| i.span.begin_ns + longest < begin) {
            first += 1;
        }
        let near = intervals[first..].iter().take_while(|i| i.span.begin_ns <= end);
        let mut by_cause: BTreeMap<CauseId, u64> = BTreeMap::new();
        let mut entries = 0;
        for interval in near.filter(|i| i.span.end_ns >= begin) {
            // An interval that is longer than the detour cannot lie in it as a whole.
            *by_cause.entry(interval.cause).or_default() += interval.span.inside_ns.min(detour.length_ns);
            entries += u32::from(interval.span.outermost && causes.get(interval.cause).enters_the_kernel());
        }
        caused(&by_cause, entries, detour.length_ns)
    };
    detours.iter().map(finding).collect()
}

fn caused(by_cause: &BTreeMap<CauseId, u64>, entries: u32, length_ns: u64) -> Finding {
    let largest = by_cause.iter().max_by_key(|(cause, ns)| (**ns, std::cmp::Reverse(**cause)));
    let Some((&largest, _)) = largest else { return Finding::NoEvent };
    // Intervals that only touch the detour may be longer than it together.
    let sum_ns = by_cause.values().sum::<u64>().max(length_ns);
    let part = |ns: u64| share(ns, length_ns, sum_ns);
    let net = by_cause.iter().map(|(of, ns)| (*of, part(*ns))).collect();
    // A thread that waits for the CPU has entered the kernel, too.
    Finding::Caused { largest, net, entries: entries.max(1) }
}

/// Returns `ns × to ÷ from`, rounded down.
pub(crate) fn share(ns: u64, to: u64, from: u64) -> u64 {
    if to == from { ns } else { (u128::from(ns) * u128::from(to) / u128::from(from)) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::interval::Span;

    fn interval(begin_ns: u64, end_ns: u64, inside_ns: u64, cause: u32) -> Interval {
        let span = Span { begin_ns, end_ns, inside_ns, outermost: true };
        Interval { tid: 1, cpu: 0, span, cause: CauseId(cause) }
    }

    fn detour(start_ns: u64, length_ns: u64) -> Detour {
        Detour { start_ns, length_ns }
    }

    /// Two device interrupts and a softirq.
    fn causes() -> Causes {
        let mut causes = Causes::default();
        for cause in [Cause::Irq(36), Cause::Irq(37), Cause::Softirq(1)] {
            causes.number(cause);
        }
        causes
    }

    #[test]
    fn a_detour_has_the_net_times_of_its_causes() {
        let intervals =
            [interval(10_100, 10_400, 300, 0), interval(10_500, 11_500, 1_000, 1), interval(11_500, 11_600, 100, 2)];
        let net = vec![(CauseId(0), 300), (CauseId(1), 1_000), (CauseId(2), 100)];
        // The softirq follows an interrupt: the kernel was entered twice.
        let expected = Finding::Caused { largest: CauseId(1), net, entries: 2 };
        assert_eq!(findings(&[detour(10_000, 2_000)], &intervals, &causes()), [expected]);
    }

    #[test]
    fn an_interrupt_within_another_is_not_an_entry() {
        let mut within = interval(10_600, 10_700, 100, 0);
        within.span.outermost = false;
        let found = findings(&[detour(10_000, 2_000)], &[interval(10_500, 11_500, 900, 1), within], &causes());
        assert!(matches!(found[..], [Finding::Caused { entries: 1, .. }]), "{found:?}");
        let softirq = findings(&[detour(10_000, 2_000)], &[interval(10_500, 11_500, 900, 2)], &causes());
        assert!(matches!(softirq[..], [Finding::Caused { entries: 1, .. }]), "{softirq:?}");
    }

    #[test]
    fn a_detour_without_an_event_has_no_cause() {
        let before = interval(1_000, 9_700, 8_700, 0);
        let behind = interval(12_300, 12_400, 100, 0);
        assert_eq!(findings(&[detour(10_000, 2_000)], &[before, behind], &causes()), [Finding::NoEvent]);
        // The clocks may differ by the tolerance.
        let near = interval(1_000, 10_000 - TOLERANCE_NS, 10, 0);
        assert_ne!(findings(&[detour(10_000, 2_000)], &[near], &causes()), [Finding::NoEvent]);
    }

    #[test]
    fn causes_never_have_more_than_the_length_of_the_detour() {
        // Two intervals that both reach beyond the detour.
        let intervals = [interval(9_000, 10_900, 1_900, 0), interval(10_950, 14_000, 3_000, 1)];
        let found = findings(&[detour(10_000, 1_000)], &intervals, &causes());
        let [Finding::Caused { net, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!(net.iter().map(|(_, ns)| ns).sum::<u64>(), 1_000);
    }

    /// A long interval must be found although shorter ones begin later.
    #[test]
    fn every_detour_in_a_long_interval_is_caused() {
        let intervals =
            [interval(0, 100_000, 90_000, 0), interval(10_000, 10_100, 100, 1), interval(20_000, 20_100, 100, 1)];
        let detours: Vec<Detour> = (0..10).map(|n| detour(n * 10_000 + 5_000, 1_000)).collect();
        let found = findings(&detours, &intervals, &causes());
        assert!(
            found.iter().all(|finding| matches!(finding, Finding::Caused { largest: CauseId(0), .. })),
            "{found:?}"
        );
    }
}
