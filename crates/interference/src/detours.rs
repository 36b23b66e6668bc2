//! What caused each detour of a measuring loop.
//!
//! A detour is a gap between two readings of the clock in a loop that does nothing else. It is *caused* if an event of the kernel lies in it. The
//! events cover only a part of it: entering and leaving the kernel is outside the tracepoints. A detour without an event happened *outside this
//! kernel* (hypervisor, firmware), provided that the events are complete; otherwise its cause is *unknown*.

use std::collections::BTreeMap;

use crate::cause::CauseId;
use crate::interval::Interval;

/// A detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Begin, ns on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
}

/// What a detour is charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The kernel did something during the detour.
    Caused {
        /// The cause with the most net time in the detour.
        cause: CauseId,
        /// Net time of all causes in the detour, ns. The rest is entering and leaving the kernel, and what the tracepoints do not cover.
        inside_ns: u64,
        /// The time that each cause is charged with, ns; together, the length of the detour. The cause with the most net time also bears the rest.
        charged: Vec<(CauseId, u64)>,
    },
    /// No event of the kernel lies in the detour.
    NoEvent,
}

/// Largest time, ns, by which the loop's clock and the events' clock may differ.
pub const TOLERANCE_NS: u64 = 200;

/// Finds the cause of each detour of a thread. `detours` are sorted and do not overlap; `intervals` are of the same thread, in any order.
#[must_use]
pub fn findings(detours: &[Detour], intervals: &[Interval]) -> Vec<Finding> {
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
        for interval in near.filter(|i| i.span.end_ns >= begin) {
            // An interval that is longer than the detour cannot lie in it as a whole.
            *by_cause.entry(interval.cause).or_default() += interval.span.inside_ns.min(detour.length_ns);
        }
        charge(&by_cause, detour.length_ns)
    };
    detours.iter().map(finding).collect()
}

/// Divides a detour among the causes that lie in it.
fn charge(by_cause: &BTreeMap<CauseId, u64>, length_ns: u64) -> Finding {
    let largest = by_cause.iter().max_by_key(|(cause, ns)| (**ns, std::cmp::Reverse(**cause)));
    let Some((&cause, _)) = largest else { return Finding::NoEvent };
    let sum_ns: u64 = by_cause.values().sum();
    let inside_ns = sum_ns.min(length_ns);
    // Intervals that only touch the detour may be longer than it together.
    let part = |ns: u64| {
        if sum_ns > length_ns { (u128::from(ns) * u128::from(length_ns) / u128::from(sum_ns)) as u64 } else { ns }
    };
    let mut charged: Vec<(CauseId, u64)> = by_cause.iter().map(|(of, ns)| (*of, part(*ns))).collect();
    let rest_ns = length_ns - charged.iter().map(|(_, ns)| ns).sum::<u64>();
    charged.iter_mut().filter(|(of, _)| *of == cause).for_each(|(_, ns)| *ns += rest_ns);
    Finding::Caused { cause, inside_ns, charged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Span;

    fn interval(begin_ns: u64, end_ns: u64, inside_ns: u64, cause: u32) -> Interval {
        let span = Span { begin_ns, end_ns, inside_ns, outermost: true };
        Interval { tid: 1, cpu: 0, span, cause: CauseId(cause) }
    }

    fn detour(start_ns: u64, length_ns: u64) -> Detour {
        Detour { start_ns, length_ns }
    }

    #[test]
    fn the_cause_with_the_most_time_bears_what_no_event_covers() {
        let intervals = [interval(10_100, 10_400, 300, 0), interval(10_500, 11_500, 1_000, 1)];
        let found = findings(&[detour(10_000, 2_000)], &intervals);
        let charged = vec![(CauseId(0), 300), (CauseId(1), 1_700)];
        assert_eq!(found, [Finding::Caused { cause: CauseId(1), inside_ns: 1_300, charged }]);
    }

    #[test]
    fn a_detour_without_an_event_has_no_cause() {
        let before = interval(1_000, 9_700, 8_700, 0);
        let behind = interval(12_300, 12_400, 100, 0);
        assert_eq!(findings(&[detour(10_000, 2_000)], &[before, behind]), [Finding::NoEvent]);
        // The clocks may differ by the tolerance.
        let near = interval(1_000, 10_000 - TOLERANCE_NS, 10, 0);
        assert_ne!(findings(&[detour(10_000, 2_000)], &[near]), [Finding::NoEvent]);
    }

    #[test]
    fn a_detour_is_never_charged_with_more_than_its_length() {
        // Two intervals that both reach beyond the detour.
        let intervals = [interval(9_000, 10_900, 1_900, 0), interval(10_950, 14_000, 3_000, 1)];
        let found = findings(&[detour(10_000, 1_000)], &intervals);
        let [Finding::Caused { inside_ns: 1_000, charged, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!(charged.iter().map(|(_, ns)| ns).sum::<u64>(), 1_000);
    }

    /// A long interval must be found although shorter ones begin later.
    #[test]
    fn every_detour_in_a_long_interval_is_caused() {
        let intervals =
            [interval(0, 100_000, 90_000, 0), interval(10_000, 10_100, 100, 1), interval(20_000, 20_100, 100, 1)];
        let detours: Vec<Detour> = (0..10).map(|n| detour(n * 10_000 + 5_000, 1_000)).collect();
        let found = findings(&detours, &intervals);
        assert!(found.iter().all(|finding| matches!(finding, Finding::Caused { cause: CauseId(0), .. })), "{found:?}");
    }
}
