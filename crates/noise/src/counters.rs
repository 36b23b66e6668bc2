//! The kernel's own counters, read before and after a measurement.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use interference::audit::Counter;
use machine::interrupts::{Row, interrupts, softirqs};
use machine::process::Task;
use machine::{Error, Root, busy};
use watch::WatchError;
use watch::noise::Counts;

/// Number of readings of which the shortest counts.
const TRIES: u32 = 20;
/// A reading that takes less than this is not repeated, ns.
const SHORT_NS: u64 = 500_000;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Rows of /proc/interrupts; `None` if it cannot be read. Some container engines hide it.
    interrupts: Option<Vec<Row>>,
    softirqs: Option<Vec<Row>>,
    /// Time that the hypervisor gave to others, ns, by CPU.
    steal_ns: BTreeMap<u32, u64>,
    /// Switches and page faults of each measuring thread.
    threads: Vec<Thread>,
    /// The counts of the BPF programs; `None` without them.
    pub from_events: Option<Counts>,
}

/// What the kernel counted for a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Times that the thread left its CPU.
    pub switches: u64,
    /// Page faults.
    pub faults: u64,
}

/// How much the counters of one CPU have grown.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// Rows of /proc/interrupts; `None` if it does not tell about this CPU.
    pub interrupts: Option<Vec<Counter>>,
    /// Rows of /proc/softirqs; `None` if it does not tell about this CPU.
    pub softirqs: Option<Vec<Counter>>,
    /// The counts of the BPF programs; empty without them.
    pub from_events: Vec<u64>,
    /// Time that the hypervisor gave to others, ns.
    pub steal_ns: u64,
}

impl Reading {
    /// Reads the counters. `from_events` reads what the BPF programs have counted.
    ///
    /// The counters cannot be read at one moment, and cox may lose its CPU between two of them. So they are read several times, and the reading that took the
    /// shortest time counts.
    ///
    /// # Errors
    /// When a thread's counters cannot be read, or those of the BPF programs cannot.
    pub fn now(tids: &[u32], mut from_events: impl FnMut() -> Result<Option<Counts>, WatchError>) -> Result<Reading> {
        let mut best: Option<(u64, Reading)> = None;
        for _ in 0..TRIES {
            let begin_ns = arch::monotonic_ns();
            let counts = from_events()?;
            let reading = Reading::of_the_kernel(tids, counts).context("cannot read the kernel's counters")?;
            let took_ns = arch::monotonic_ns() - begin_ns;
            if best.as_ref().is_none_or(|(shortest_ns, _)| took_ns < *shortest_ns) {
                best = Some((took_ns, reading));
            }
            if took_ns < SHORT_NS {
                break;
            }
        }
        best.map(|(_, reading)| reading).context("no reading of the kernel's counters")
    }

    fn of_the_kernel(tids: &[u32], from_events: Option<Counts>) -> Result<Reading, Error> {
        let root = Root::live();
        let own = std::process::id();
        let thread = |tid: &u32| {
            let task = Task::thread(&root, own, *tid);
            let (switches, stat) = (task.switches()?, task.stat()?);
            Ok(Thread {
                switches: switches.voluntary + switches.involuntary,
                faults: stat.minor_faults + stat.major_faults,
            })
        };
        Ok(Reading {
            interrupts: interrupts(&root).ok(),
            softirqs: softirqs(&root).ok(),
            threads: tids.iter().map(thread).collect::<Result<_, Error>>()?,
            steal_ns: busy::times(&root)?.into_iter().map(|(cpu, times)| (cpu, times.steal_ns)).collect(),
            from_events,
        })
    }

    /// Returns how much the counters of a CPU have grown since an earlier reading.
    #[must_use]
    pub fn growth(&self, before: &Reading, cpu: u32) -> Growth {
        let of = |counts: &Option<Counts>| counts.as_ref().and_then(|counts| counts.get(cpu as usize)).cloned();
        let (now, then) = (of(&self.from_events).unwrap_or_default(), of(&before.from_events).unwrap_or_default());
        let steal = |reading: &Reading| reading.steal_ns.get(&cpu).copied().unwrap_or(0);
        Growth {
            interrupts: growths(self.interrupts.as_deref(), before.interrupts.as_deref(), cpu),
            softirqs: growths(self.softirqs.as_deref(), before.softirqs.as_deref(), cpu),
            from_events: now.iter().zip(&then).map(|(now, then)| now.wrapping_sub(*then)).collect(),
            steal_ns: steal(self).saturating_sub(steal(before)),
        }
    }

    /// Returns what the kernel counted for each measuring thread since an earlier reading.
    #[must_use]
    pub fn threads_since(&self, before: &Reading) -> Vec<Thread> {
        let both = self.threads.iter().zip(&before.threads);
        let grown = |(now, then): (&Thread, &Thread)| Thread {
            switches: now.switches.saturating_sub(then.switches),
            faults: now.faults.saturating_sub(then.faults),
        };
        both.map(grown).collect()
    }
}

/// Returns how much the rows have grown that have a number for a CPU; `None` if no row has one.
fn growths(now: Option<&[Row]>, before: Option<&[Row]>, cpu: u32) -> Option<Vec<Counter>> {
    let (now, before) = (now?, before?);
    let earlier: BTreeMap<&str, u64> =
        before.iter().filter_map(|row| Some((row.name.as_str(), *row.counts.get(&cpu)?))).collect();
    let grown = |row: &Row| {
        let count = row.counts.get(&cpu)?.saturating_sub(earlier.get(row.name.as_str()).copied().unwrap_or(0));
        Some(Counter { name: row.name.clone(), count, handlers: row.devices().len() as u64 })
    };
    let grown: Vec<Counter> = now.iter().filter_map(grown).collect();
    (!grown.is_empty()).then_some(grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, counts: &[(u32, u64)]) -> Row {
        Row { name: name.to_owned(), counts: counts.iter().copied().collect(), rest: String::new() }
    }

    #[test]
    fn rows_without_a_number_for_the_cpu_tell_nothing_about_it() {
        let (before, now) = ([row("LOC", &[(0, 5), (1, 7)])], [row("LOC", &[(0, 9)]), row("XYZ", &[(0, 2)])]);
        let of = |cpu| growths(Some(&now), Some(&before), cpu);
        let counts: Vec<(String, u64)> = of(0).unwrap().into_iter().map(|row| (row.name, row.count)).collect();
        assert_eq!(counts, [("LOC".to_owned(), 4), ("XYZ".to_owned(), 2)]);
        assert_eq!(of(1), None, "it went offline");
        assert_eq!(growths(None, Some(&before), 0), None);
    }
}
