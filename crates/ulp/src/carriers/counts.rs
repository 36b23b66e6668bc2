//! What ULPs and carriers did, counted.

use std::fs;
use std::sync::atomic::Ordering;

use super::Carriers;
use super::carrier::{Carrier, LAST_CALL};

/// What all ULPs together did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Yields on carriers.
    pub yields: u64,
    /// Coupled yields.
    pub coupled_yields: u64,
    /// Stays on carriers.
    pub stays: u64,
    /// Stays that a system call or a fault ended.
    pub trapped: u64,
}

/// What the carriers' threads have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Page faults.
    pub faults: u64,
    /// Those that had to wait for storage.
    pub major_faults: u64,
    /// Number of ULPs that went home because their carrier slept in a page fault of another one.
    pub relieved: u64,
}

impl Carriers {
    /// Returns what all ULPs did so far; of a stay that has not ended, only that it began.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for number in 0..self.known {
            // SAFETY: within the records; only atomics are used.
            let counts = unsafe { &(*self.records.add(number)).counts };
            totals.yields += counts.yields.load(Ordering::Relaxed);
            totals.coupled_yields += counts.coupled_yields.load(Ordering::Relaxed);
            totals.stays += counts.stays.load(Ordering::Relaxed);
            totals.trapped += counts.trapped.load(Ordering::Relaxed);
        }
        totals
    }

    /// Returns which system calls have sent ULPs home, by their numbers, and how often. The last possible number stands for all higher ones, too.
    #[must_use]
    pub fn calls(&self) -> Vec<(usize, u64)> {
        // SAFETY: carriers are never freed; only atomics are used.
        let of =
            |number: usize, carrier: &*mut Carrier| unsafe { (&(**carrier).calls)[number].load(Ordering::Relaxed) };
        let sum = |number| (number, self.carriers.iter().map(|carrier| of(number, carrier)).sum());
        (0..=LAST_CALL).map(sum).filter(|(_, times)| *times > 0).collect()
    }

    /// Returns what the carriers' threads have used so far. What the kernel does not tell counts as nothing.
    #[must_use]
    pub fn used(&self) -> Used {
        let mut used = Used::default();
        for carrier in &self.carriers {
            // SAFETY: carriers are never freed; only atomics are used.
            let tid = unsafe { (**carrier).tid.load(Ordering::Relaxed) };
            // SAFETY: as above.
            used.relieved += unsafe { (**carrier).relieved.load(Ordering::Relaxed) };
            let read = |file| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).unwrap_or_default();
            let (stat, schedstat) = (read("stat"), read("schedstat"));
            // The name of a thread may contain spaces; the state, the third field, follows its parenthesis (proc_pid_stat(5)).
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            used.faults += field(10) + field(12);
            used.major_faults += field(12);
            used.cpu_ns += schedstat.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        }
        used
    }
}
