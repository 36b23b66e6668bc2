//! What overlapping did, for people and programs.

use advise::numbers::{count, counted, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::{Style, wrapped};

/// Less is not named: it would be 0.00.
const LEAST_NS: u64 = 5_000_000;

/// A section of a report: the program's OpenMP tasks were run by cox's runtime. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverlapReport {
    /// How blocked threads were noticed: `bpf`, `perf`, `standby-idle`, `leader`, or `off`, not at all.
    pub backend: String,
    /// CPUs that the program had.
    pub cpus: u64,
    /// Processes that asked for doorbells: that had a parallel region with tasks of gcc's.
    pub processes: u64,
    /// Standby threads that were made.
    pub standbys: u64,
    /// From the program's start to its end.
    pub wall_ns: u64,
    /// CPU time of all its threads, but for those of the idle class.
    pub ran_ns: u64,
    /// … of standbys: while a thread of the program's own was blocked, or had left them its tasks.
    pub standby_ns: u64,
    /// CPU time that nobody used.
    pub idle_ns: u64,
    /// Time that threads were runnable and had no CPU, all together.
    pub crowded_ns: u64,
    /// What threads were blocked by, nanoseconds by cause; not waiting for tasks or at doorbells.
    pub blocked_by: Vec<Blocked>,
    /// Tasks that standbys ran.
    pub tasks: u64,
    /// Blocks of the program's threads and of standbys.
    pub blocks: u64,
    /// Doorbells rung.
    pub rings: u64,
    /// … of these by the program's own threads, which made tasks where CPUs were idle.
    pub own_rings: u64,
    /// … and those that found no task.
    pub empty_rings: u64,
    /// Times that a standby left its tasks to others because too many threads were runnable.
    pub surrenders: u64,
    /// Times that a CPU went idle with tasks pending and no standby was parked.
    pub unheard: u64,
    /// Times that a scan found a task and a free CPU of which nobody had been told.
    pub overlooked: u64,
    /// Standbys that could not be made.
    pub failed: u64,
    /// From the moment that a CPU went idle to a standby's first task, median and 99th percentile, in microseconds.
    pub delay_us: Option<(f64, f64)>,
    /// Why there were no doorbells, or not everywhere.
    pub complaints: Vec<String>,
}

/// Time blocked by one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// Its name, as elsewhere in the report.
    pub cause: String,
    /// All threads together.
    pub ns: u64,
}

impl OverlapReport {
    /// For a terminal, as a section of another report.
    pub(crate) fn section(&self, style: &Style) -> Vec<String> {
        let lines = [(self.heading(), "  ")].into_iter().chain(self.lines().into_iter().map(|line| (line, "    ")));
        lines.flat_map(|(line, indent)| wrapped(&style.clean(&line), style.columns(), indent, "      ")).collect()
    }

    fn heading(&self) -> String {
        let how = match self.backend.as_str() {
            "bpf" => "eBPF doorbells",
            "perf" => "the kernel's records of switches",
            "standby-idle" => "idle-class sentinels",
            "leader" => "one leader",
            _ => "no doorbells",
        };
        format!("overlap: {how}, {}, {}", counted(self.cpus, "CPU"), counted(self.standbys, "standby thread"))
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.standbys > 0 {
            lines.push(self.took());
            lines.push(format!("Standbys ran {}: {}", counted(self.tasks, "task"), core_seconds(self.standby_ns)));
            let blocked = self.blocked_by.iter().filter(|blocked| blocked.ns >= LEAST_NS).take(5);
            let blocked: Vec<String> = blocked.map(|by| format!("{} {}", by.cause, core_seconds(by.ns))).collect();
            if !blocked.is_empty() {
                lines.push(format!("Meanwhile threads were blocked by: {}", blocked.join(", ")));
            }
            lines.push(self.rung());
        }
        lines.extend(self.complaints.iter().cloned());
        lines
    }

    /// What it took, beside what the same CPU time takes on CPUs that are never idle. How long the program would take without overlap does not follow from a run with it:
    /// other reads would be under way, each as long as fewer others are.
    fn took(&self) -> String {
        let cpus = self.cpus.max(1);
        let there_ns = self.wall_ns.saturating_mul(cpus);
        format!(
            "{} of CPU time in {}: {:.0} % of {}; at 100 % it would be {}",
            core_seconds(self.ran_ns),
            seconds(self.wall_ns),
            100.0 * self.ran_ns as f64 / there_ns.max(1) as f64,
            counted(self.cpus, "CPU"),
            seconds(self.ran_ns / cpus)
        )
    }

    fn rung(&self) -> String {
        let crowded = 100.0 * self.crowded_ns as f64 / (self.wall_ns.max(1) as f64 * self.cpus.max(1) as f64);
        let mut parts = vec![
            format!("Waits for a CPU {crowded:.1} % of run time"),
            counted(self.blocks, "block"),
            format!("{}, {} for nothing", counted(self.rings, "doorbell"), count(self.empty_rings)),
            counted(self.overlooked, "safety-scan rescue"),
        ];
        if let Some((median, late)) = self.delay_us {
            parts.push(format!("block → first task {median:.0} us (p99 {late:.0} us)"));
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
            backend: "bpf".into(),
            cpus: 2,
            processes: 1,
            standbys: 3,
            wall_ns: 7_400_000_000,
            ran_ns: 14_000_000_000,
            standby_ns: 6_000_000_000,
            tasks: 24_000,
            idle_ns: 2_000_000_000,
            crowded_ns: 148_000_000,
            blocked_by: vec![
                Blocked { cause: "disk".into(), ns: 4_400_000_000 },
                Blocked { cause: "pipe".into(), ns: 900_000 },
            ],
            blocks: 9412,
            rings: 3377,
            empty_rings: 1,
            overlooked: 2,
            delay_us: Some((6.2, 20.9)),
            ..OverlapReport::default()
        }
    }

    #[test]
    fn what_it_took_is_beside_the_least_that_it_can_take() {
        let page = sample().section(&Style::default()).join("\n");
        for part in [
            "overlap: eBPF doorbells, 2 CPUs, 3 standby threads",
            "14.00 core-s of CPU time in 7.40 s: 95 % of 2 CPUs; at 100 % it would be 7.00 s",
            "Standbys ran 24,000 tasks: 6.00 core-s",
            "Meanwhile threads were blocked by: disk 4.40 core-s",
            "Waits for a CPU 1.0 % of run time · 9,412 blocks · 3,377 doorbells, 1 for nothing · 2 safety-scan rescues",
            "first task 6 us (p99 21 us)",
        ] {
            assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{part}:\n{page}");
        }
        assert!(!page.contains("pipe"), "too little to name");
    }

    #[test]
    fn without_standbys_there_is_only_why() {
        let why = "no process asked for doorbells".to_owned();
        let none =
            OverlapReport { backend: "off".into(), cpus: 2, complaints: vec![why.clone()], ..Default::default() };
        assert_eq!(none.lines(), [why]);
        assert!(none.heading().contains("no doorbells"));
    }
}
