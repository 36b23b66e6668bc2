//! The result of overlapping, as text and as JSON.

use advise::numbers::{count, counted, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::Style;

/// Shortest time that the text mentions, nanoseconds. Shorter times would be printed as 0.00.
const LEAST_NS: u64 = 5_000_000;

ledger::figures! {
    /// Counts of what the runtime and its standby threads did, summed over all processes.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct OverlapCounts {}
    figures of counts {
        /// Number of processes that asked cox for doorbells, through which standbys (parked threads that run tasks) are woken. A process does so when
        /// it has a parallel region with tasks that gcc compiled.
        processes: u64, sum;
        /// Standby threads that were created.
        standbys: u64, sum;
        /// Number of tasks that standbys ran.
        tasks: u64, sum;
        /// How often threads that run the program's tasks (its own threads, and standbys) blocked.
        blocks: u64, sum;
        /// Number of times that cox or the program rang the doorbell of a standby (woke this parked thread). With `perf` and `leader`, each wake-up
        /// by the kernel counts as a ring.
        rings: u64, sum;
        /// Number of times that one of the program's own threads woke a standby (rang its doorbell), because it had created tasks while CPUs were
        /// idle. `rings` includes these.
        own_rings: u64, sum;
        /// Number of `rings` (wake-ups) after which the woken thread found no task.
        empty_rings: u64, sum;
        /// Number of times that a standby gave its CPU back instead of starting its next task, because other threads wanted the CPU and this task was
        /// not likely to block.
        surrenders: u64, sum;
        /// Number of times that a CPU went idle while tasks were pending, but no standby was parked (waiting to be woken).
        #[serde(alias = "unheard")]
        no_standby: u64, sum;
        /// Number of times that the safety scan (a periodic search) found a ready task and a free CPU about which no thread had been notified.
        /// Normally 0. It is larger if an event was lost, or, with `perf` and `leader`, if a thread that cox does not track left a CPU: the kernel
        /// writes no record of that.
        #[serde(alias = "overlooked")]
        scan_rescues: u64, sum;
        /// Standby threads that could not be created.
        failed: u64, sum;
    }
}

/// A section of a report: the program's OpenMP tasks were run by cox's runtime. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverlapReport {
    /// What notices that a thread has blocked, and wakes a standby (a parked thread of cox's runtime) to run tasks meanwhile. `bpf`: eBPF programs.
    /// `perf`: the kernel's records of context switches. `leader`: one thread, which these records wake. `standby-idle`: a thread of the idle class
    /// on each CPU. `off`: nothing.
    pub backend: Noticed,
    /// CPUs that the program had.
    pub cpus: u64,
    /// The counts of the runtime and its standbys.
    #[serde(flatten)]
    pub counts: OverlapCounts,
    /// From the program's start to its end.
    pub wall_ns: u64,
    /// CPU time of the program's threads, including spinning. cox's threads of the idle class are not included.
    pub ran_ns: u64,
    /// The part of `ran_ns` that standbys used: threads of cox, which run tasks while one of the program's own threads is blocked or has left them
    /// its tasks.
    pub standby_ns: u64,
    /// Idle time of all CPUs.
    pub idle_ns: u64,
    /// Time for which threads were runnable and had no CPU (wake delay and preempt wait of all threads, as the scheduler saw them). The report
    /// divides it by the CPUs' time, `wall_ns` × `cpus`. It includes time spent waiting for other programs, and three threads that wait for one
    /// CPU count three times: it is not the UMT paper's oversubscription, which [`cox bench umt`](bench.md) measures from a trace.
    #[serde(alias = "crowded_ns")]
    pub runnable_wait_ns: u64,
    /// Blocked time of all threads together (`ns`), by `cause`. Two kinds of waiting are left out. Futexes: there, threads wait for tasks. Poll,
    /// select and epoll in standbys: there, standbys wait to be woken. If a task that runs on a standby makes such a call, that time is left out too.
    pub blocked_by: Vec<Blocked>,
    /// Time from the ring with which BPF or a sentinel (a thread of the idle class) wakes a standby to the standby's first task, in microseconds:
    /// median and 99th percentile, within 9 %. With `perf` and `leader`, the time begins when the thread blocks for which the standby is woken. Times
    /// above 0.86 ms count as 0.94 ms.
    pub delay_us: Option<(f64, f64)>,
    /// Why overlap did not work, or only in part, as sentences: for example, why there were no standbys.
    #[serde(alias = "complaints")]
    pub diagnostics: Vec<String>,
}

/// How blocked threads were noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Noticed {
    /// eBPF programs noticed that a thread had blocked, and woke a standby (a parked thread that runs tasks).
    Bpf,
    /// When a thread left its CPU, the kernel's record of the context switch woke a standby (a parked thread that runs tasks).
    Perf,
    /// When a thread left its CPU, the kernel's record of the context switch woke one leader thread, which then woke a standby (a parked thread that
    /// runs tasks).
    Leader,
    /// A thread of the idle class on each CPU noticed that the CPU was idle, and woke a standby (a parked thread that runs tasks).
    StandbyIdle,
    /// Blocked threads were not noticed.
    #[default]
    Off,
}

/// Time blocked by one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// The cause's name, as elsewhere in the report.
    pub cause: String,
    /// Blocked time of all threads together, nanoseconds.
    pub ns: u64,
}

impl OverlapReport {
    /// Formats the section for a terminal.
    pub(crate) fn section(&self, style: &Style) -> Vec<String> {
        style.section(&self.heading(), &self.lines())
    }

    fn heading(&self) -> String {
        let how = match self.backend {
            Noticed::Bpf => "eBPF doorbells",
            Noticed::Perf => "the kernel's context-switch records",
            Noticed::StandbyIdle => "idle-class sentinels",
            Noticed::Leader => "one leader",
            Noticed::Off => "no doorbells",
        };
        format!("overlap: {how}, {}, {}", counted(self.cpus, "CPU"), counted(self.counts.standbys, "standby thread"))
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.counts.standbys > 0 {
            lines.push(self.took());
            lines.push(format!(
                "Standbys ran {}: {}",
                counted(self.counts.tasks, "task"),
                core_seconds(self.standby_ns)
            ));
            let blocked = self.blocked_by.iter().filter(|blocked| blocked.ns >= LEAST_NS).take(5);
            let blocked: Vec<String> = blocked.map(|by| format!("{} {}", by.cause, core_seconds(by.ns))).collect();
            if !blocked.is_empty() {
                lines.push(format!("Threads were blocked by: {}", blocked.join(", ")));
            }
            lines.push(self.rung());
        }
        lines.extend(self.diagnostics.iter().cloned());
        lines
    }

    /// Formats the program's CPU time and wall time, and the wall time that the same CPU time would take on CPUs that are never idle. How long the
    /// program would take without overlap cannot be computed from a run with overlap: fewer reads would be in flight at the same time, and each read
    /// would therefore be faster.
    fn took(&self) -> String {
        let cpus = self.cpus.max(1);
        let there_ns = self.wall_ns.saturating_mul(cpus);
        format!(
            "{used} of CPU time in {wall}: {:.0} % of {all_cpus}; at 100 %, the run would take {ideal}",
            100.0 * self.ran_ns as f64 / there_ns.max(1) as f64,
            used = core_seconds(self.ran_ns),
            wall = seconds(self.wall_ns),
            all_cpus = counted(self.cpus, "CPU"),
            ideal = seconds(self.ran_ns / cpus),
        )
    }

    fn rung(&self) -> String {
        let waits = 100.0 * self.runnable_wait_ns as f64 / (self.wall_ns.max(1) as f64 * self.cpus.max(1) as f64);
        let mut parts = vec![
            format!("Waits for a CPU: {waits:.1} % of the CPUs' time"),
            counted(self.counts.blocks, "block"),
            format!("{}, {} for nothing", counted(self.counts.rings, "doorbell"), count(self.counts.empty_rings)),
            counted(self.counts.scan_rescues, "safety-scan rescue"),
        ];
        if let Some((median, late)) = self.delay_us {
            parts.push(format!("from block to first task: median {median:.0} us, p99 {late:.0} us"));
        }
        parts.join(" · ")
    }
}

fn core_seconds(ns: u64) -> String {
    format!("{:.2} core-s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> OverlapReport {
        OverlapReport {
            backend: Noticed::Bpf,
            cpus: 2,
            counts: OverlapCounts {
                processes: 1,
                standbys: 3,
                tasks: 24_000,
                blocks: 9412,
                rings: 3377,
                empty_rings: 1,
                scan_rescues: 2,
                ..OverlapCounts::default()
            },
            wall_ns: 7_400_000_000,
            ran_ns: 14_000_000_000,
            standby_ns: 6_000_000_000,
            idle_ns: 2_000_000_000,
            runnable_wait_ns: 148_000_000,
            blocked_by: vec![
                Blocked { cause: "disk".into(), ns: 4_400_000_000 },
                Blocked { cause: "pipe".into(), ns: 900_000 },
            ],
            delay_us: Some((6.2, 20.9)),
            ..OverlapReport::default()
        }
    }

    #[test]
    fn what_it_took_is_beside_the_least_that_it_can_take() {
        let page = sample().section(&Style::default()).join("\n");
        for part in [
            "overlap: eBPF doorbells, 2 CPUs, 3 standby threads",
            "14.00 core-s of CPU time in 7.40 s: 95 % of 2 CPUs; at 100 %, the run would take 7.00 s",
            "Standbys ran 24,000 tasks: 6.00 core-s",
            "Threads were blocked by: disk 4.40 core-s",
            "Waits for a CPU: 1.0 % of the CPUs' time · 9,412 blocks · 3,377 doorbells, 1 for nothing · 2 safety-scan rescues",
            "from block to first task: median 6 us, p99 21 us",
        ] {
            assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{part}:\n{page}");
        }
        assert!(!page.contains("pipe"), "too little to name");
    }

    #[test]
    fn without_standbys_there_is_only_why() {
        let why = "no process asked cox to wake standby threads".to_owned();
        let none = OverlapReport { cpus: 2, diagnostics: vec![why.clone()], ..Default::default() };
        assert_eq!(none.lines(), [why]);
        assert!(none.heading().contains("no doorbells"));
    }
}
