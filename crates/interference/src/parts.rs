//! What the time that a detour took from a thread consists of.

use crate::cause::{CauseId, Causes};
use crate::detours::{Finding, share};
use crate::entries::Entries;

/// The parts of the time that a detour took, in which the kernel did something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Net time of each cause, ns, by its number.
    pub net: Vec<(CauseId, u64)>,
    /// Entering and leaving the kernel, ns.
    pub entry_ns: u64,
    /// What no event covers beyond that, ns: the same as a detour without an event.
    pub beyond_ns: u64,
    /// The cause with the most net time.
    pub largest: CauseId,
}

impl Parts {
    /// Returns the parts of a detour that took `stolen_ns` from the thread; `None` without an event. Together, they are `stolen_ns`.
    ///
    /// A detour of the detour loop is stolen as a whole. Of a disturbed quantum, less is stolen than its length, which contains the thread's own work.
    #[must_use]
    pub fn of(finding: &Finding, stolen_ns: u64, entries: &Entries, causes: &Causes) -> Option<Parts> {
        let Finding::Caused { largest, net, entries: count } = finding else { return None };
        // The shortest quantum may have been disturbed, too; then the causes have more net time than what was stolen.
        let inside_ns = net.iter().map(|(_, ns)| ns).sum::<u64>().max(stolen_ns);
        let net: Vec<(CauseId, u64)> = net.iter().map(|(of, ns)| (*of, share(*ns, stolen_ns, inside_ns))).collect();
        let uncovered_ns = stolen_ns - net.iter().map(|(_, ns)| ns).sum::<u64>();
        let (entry_ns, beyond_ns) = entries.divide(causes.get(*largest), *count, uncovered_ns);
        Some(Parts { net, entry_ns, beyond_ns, largest: *largest })
    }

    /// Returns what each cause is charged with: its net time, and the largest cause also with entering and leaving the kernel.
    #[must_use]
    pub fn charged(&self) -> Vec<(CauseId, u64)> {
        let entry = |of: CauseId| if of == self.largest { self.entry_ns } else { 0 };
        self.net.iter().map(|(of, ns)| (*of, ns + entry(*of))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;

    /// Two device interrupts, with 300 and 1,000 ns in a detour.
    fn caused() -> (Causes, Finding) {
        let mut causes = Causes::default();
        let net = vec![(causes.number(Cause::Irq(36)), 300), (causes.number(Cause::Irq(37)), 1_000)];
        (causes, Finding::Caused { largest: CauseId(1), net, entries: 2 })
    }

    /// Parts of a detour that took `stolen_ns`, on a CPU on which an entry takes 350 ns.
    fn parts(stolen_ns: u64) -> Parts {
        let (causes, finding) = caused();
        let entries = Entries::of((0..100).map(|_| (&finding, 2_000)), &causes);
        Parts::of(&finding, stolen_ns, &entries, &causes).unwrap()
    }

    #[test]
    fn a_detour_is_net_times_and_entries() {
        let net = vec![(CauseId(0), 300), (CauseId(1), 1_000)];
        assert_eq!(parts(2_000), Parts { net, entry_ns: 700, beyond_ns: 0, largest: CauseId(1) });
        assert_eq!(parts(2_000).charged(), [(CauseId(0), 300), (CauseId(1), 1_700)]);
        let (causes, _) = caused();
        assert_eq!(Parts::of(&Finding::NoEvent, 2_000, &Entries::default(), &causes), None);
    }

    #[test]
    fn what_the_hypervisor_took_meanwhile_is_charged_to_no_cause() {
        let parts = parts(3_002_000);
        assert_eq!((parts.entry_ns, parts.beyond_ns), (700, 3_000_000));
        assert_eq!(parts.charged(), [(CauseId(0), 300), (CauseId(1), 1_700)]);
    }

    #[test]
    fn parts_are_together_what_was_stolen() {
        for stolen_ns in [0, 1, 7, 1_299, 1_300, 1_301, 1_000_000] {
            let parts = parts(stolen_ns);
            let sum: u64 = parts.charged().iter().map(|(_, ns)| ns).sum();
            assert_eq!(sum + parts.beyond_ns, stolen_ns);
            assert!(parts.net.iter().all(|(_, ns)| *ns <= 1_000), "{parts:?}");
        }
    }
}
