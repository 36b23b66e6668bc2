//! Joins the detours of the loops with the kernel's events, and audits the events.

use interference::audit::{self, Compared};
use interference::detours::{Detour, Finding, findings};
use interference::{Account, Causes, Interference, Interval};
use wire::noise::{Event, Named, count};

use crate::clock::Clock;
use crate::counters::{Reading, Thread};
use crate::loops::Series;

/// What was found on one CPU. Without eBPF, there are detours only.
#[derive(Clone, Debug)]
pub struct OfCpu {
    /// The CPU of the thread; if threads are not pinned, only a number.
    pub cpu: u32,
    /// The measuring thread.
    pub tid: u32,
    /// Begin and end of the thread's measurement, ns on CLOCK_MONOTONIC.
    pub window_ns: (u64, u64),
    /// Detours. Of quanta, the length is that of the quantum.
    pub detours: Vec<Detour>,
    /// What caused each of them; empty if the kernel was not asked.
    pub findings: Vec<Finding>,
    /// What the loop saw, in ticks.
    pub series: Series,
    /// The audit of the CPU's counters, and of what happened to all measuring threads.
    pub audit: Vec<Compared>,
    /// Files of /proc that do not tell about this CPU, so that the events cannot be compared with them.
    pub silent: Vec<&'static str>,
    /// Time that the hypervisor gave to others, by the kernel's clock, ns.
    pub steal_ns: u64,
}

/// All findings of a measurement.
#[derive(Clone, Debug)]
pub struct Found {
    /// The CPUs, ascending.
    pub cpus: Vec<OfCpu>,
    /// The causes, by number.
    pub causes: Causes,
    /// What each cause took from each thread.
    pub account: Account,
    /// The kernel's counts of the measuring threads' switches and faults, and those of the events.
    pub threads: Option<(Thread, Thread)>,
}

/// What a measurement has collected.
pub struct Collected<'c> {
    /// The CPUs.
    pub cpus: &'c [u32],
    /// The measuring threads, in the same order.
    pub tids: &'c [u32],
    /// What they saw.
    pub series: Vec<Series>,
    /// The relation of counter and time.
    pub clock: Clock,
    /// Events, in order of time.
    pub events: &'c [(Event, Option<Named>)],
    /// The counters before and after.
    pub readings: [&'c Reading; 2],
    /// Whether the kernel was asked for causes.
    pub causes: bool,
    /// Tracepoints that do not report.
    pub without: &'c [String],
}

/// Joins everything.
#[must_use]
pub fn join(collected: Collected<'_>) -> Found {
    let Collected { cpus, tids, series, clock, events, readings: [before, after], causes, without } = collected;
    let mut interference = Interference::default();
    let intervals: Vec<Interval> =
        events.iter().flat_map(|(event, named)| interference.push(event, named.as_ref())).collect();
    let windows: Vec<(u64, u64)> =
        series.iter().map(|one| (clock.time_ns(one.window.0), clock.time_ns(one.window.1))).collect();
    let begin_ns = windows.iter().map(|(begin, _)| *begin).min().unwrap_or(0);
    let end_ns = windows.iter().map(|(_, end)| *end).max().unwrap_or(0);
    let mut account = Account::new(begin_ns, end_ns);
    intervals.iter().for_each(|interval| account.take(interval));
    let attached = |name: &str| causes && !without.iter().any(|out| out == name);
    let threads = causes.then(|| (kernels(before, after), from_events(before, after)));
    let of_threads = threads.map_or_else(Vec::new, |(kernel, events)| {
        audit::threads([kernel.switches, kernel.faults], [events.switches, events.faults], &attached)
    });
    let of_cpu = |cpu: &u32, tid: &u32, series: Series, window_ns: (u64, u64)| {
        let detour = |gap: &arch::measuring::Gap| Detour {
            start_ns: clock.time_ns(gap.before),
            length_ns: clock.length_ns(gap.after - gap.before),
        };
        let detours: Vec<Detour> = series.gaps.iter().map(detour).collect();
        let own: Vec<Interval> = intervals.iter().filter(|interval| interval.tid == *tid).copied().collect();
        let growth = after.growth(before, *cpu);
        OfCpu {
            cpu: *cpu,
            tid: *tid,
            window_ns,
            findings: if causes { findings(&detours, &own, interference.causes()) } else { Vec::new() },
            detours,
            series,
            audit: {
                let interrupts = growth.interrupts.as_deref().unwrap_or_default();
                let softirqs = growth.softirqs.as_deref().unwrap_or_default();
                let mut rows = audit::interrupts(interrupts, &growth.from_events, &attached);
                rows.extend(audit::softirqs(softirqs, &growth.from_events, &attached));
                rows.extend(of_threads.iter().cloned());
                rows
            },
            silent: [("/proc/interrupts", &growth.interrupts), ("/proc/softirqs", &growth.softirqs)]
                .into_iter()
                .filter_map(|(file, rows)| rows.is_none().then_some(file))
                .collect(),
            steal_ns: growth.steal_ns,
        }
    };
    let measured = cpus.iter().zip(tids).zip(series.into_iter().zip(windows));
    let found = measured.map(|((cpu, tid), (series, window_ns))| of_cpu(cpu, tid, series, window_ns)).collect();
    Found { cpus: found, causes: interference.causes().clone(), account, threads }
}

/// The kernel's counts, over all measuring threads.
fn kernels(before: &Reading, after: &Reading) -> Thread {
    after.threads_since(before).into_iter().fold(Thread::default(), |sum, thread| Thread {
        switches: sum.switches + thread.switches,
        faults: sum.faults + thread.faults,
    })
}

/// The counts of the BPF programs, over all CPUs.
fn from_events(before: &Reading, after: &Reading) -> Thread {
    let sum = |reading: &Reading, index: usize| -> u64 {
        reading.from_events.iter().flatten().filter_map(|counts| counts.get(index)).sum()
    };
    let grown = |index| sum(after, index).saturating_sub(sum(before, index));
    Thread { switches: grown(count::SWITCHES_OUT), faults: grown(count::USER_FAULTS) + grown(count::KERNEL_FAULTS) }
}
