//! What the time that a detour took from a thread consists of.

use crate::cause::CauseId;
use crate::detours::Finding;

/// The parts of the time that a detour took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Net time of each cause, ns, by its number.
    pub net: Vec<(CauseId, u64)>,
    /// Entering and leaving the kernel, and what the tracepoints do not cover, ns.
    pub rest_ns: u64,
    /// The cause with the most net time.
    pub largest: CauseId,
}

impl Parts {
    /// Returns the parts of a detour of `length_ns` that took `stolen_ns` from the thread; `None` without an event. Together, they are `stolen_ns`.
    ///
    /// The length of a disturbed quantum contains the thread's own work, so less is stolen; a detour is stolen as a whole.
    #[must_use]
    pub fn of(finding: &Finding, length_ns: u64, stolen_ns: u64) -> Option<Parts> {
        let Finding::Caused { cause, inside_ns, charged } = finding else { return None };
        // The cause with the most net time was charged with what no event covers.
        let uncovered = length_ns.saturating_sub(*inside_ns);
        let own = |of: CauseId, ns: u64| if of == *cause { ns.saturating_sub(uncovered) } else { ns };
        let net = charged.iter().map(|(of, ns)| (*of, own(*of, *ns)));
        // The shortest quantum may have been disturbed, too; then the causes have more net time than what was stolen.
        let fit = |ns: u64| {
            if *inside_ns > stolen_ns {
                (u128::from(ns) * u128::from(stolen_ns) / u128::from(*inside_ns)) as u64
            } else {
                ns
            }
        };
        let net: Vec<(CauseId, u64)> = net.map(|(of, ns)| (of, fit(ns))).collect();
        let rest_ns = stolen_ns.saturating_sub(net.iter().map(|(_, ns)| ns).sum());
        Some(Parts { net, rest_ns, largest: *cause })
    }

    /// Returns what each cause is charged with: its net time, and the largest cause also with the rest.
    #[must_use]
    pub fn charged(&self) -> Vec<(CauseId, u64)> {
        let rest = |of: CauseId| if of == self.largest { self.rest_ns } else { 0 };
        self.net.iter().map(|(of, ns)| (*of, ns + rest(*of))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two causes with 300 and 1,000 ns in a detour.
    fn finding(length_ns: u64) -> Finding {
        let charged = vec![(CauseId(0), 300), (CauseId(1), length_ns - 300)];
        Finding::Caused { cause: CauseId(1), inside_ns: 1_300, charged }
    }

    #[test]
    fn a_detour_is_net_times_and_a_rest() {
        let parts = Parts::of(&finding(2_000), 2_000, 2_000).unwrap();
        let net = vec![(CauseId(0), 300), (CauseId(1), 1_000)];
        assert_eq!(parts, Parts { net, rest_ns: 700, largest: CauseId(1) });
        assert_eq!(parts.charged(), [(CauseId(0), 300), (CauseId(1), 1_700)], "as the finding says");
        assert_eq!(Parts::of(&Finding::NoEvent, 2_000, 2_000), None);
    }

    #[test]
    fn work_of_a_quantum_is_no_part() {
        let parts = Parts::of(&finding(1_000_000), 1_000_000, 2_000).unwrap();
        assert_eq!(parts.charged(), [(CauseId(0), 300), (CauseId(1), 1_700)], "the same as in a detour of 2,000 ns");
    }

    #[test]
    fn parts_are_never_more_than_what_was_stolen() {
        for stolen_ns in [0, 1, 7, 1_299, 1_300, 1_301] {
            let parts = Parts::of(&finding(1_000_000), 1_000_000, stolen_ns).unwrap();
            let sum: u64 = parts.charged().iter().map(|(_, ns)| ns).sum();
            assert_eq!(sum, stolen_ns);
            assert!(parts.net.iter().all(|(_, ns)| *ns <= 1_000), "{parts:?}");
        }
    }
}
