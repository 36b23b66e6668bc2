//! What overlapping did, for people and programs.

use advise::numbers::{count, counted, seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::{Style, wrapped};

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
    /// CPU time that standbys used: work done while the program's own threads were blocked.
    pub overlapped_ns: u64,
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
            let free_ns = self.overlapped_ns.saturating_add(self.idle_ns);
            lines.push(format!(
                "Blocked threads left their CPUs free for {}; {} of it ({:.0} %) ran other tasks",
                core_seconds(free_ns),
                core_seconds(self.overlapped_ns),
                100.0 * self.overlapped_ns as f64 / free_ns.max(1) as f64
            ));
            let without_ns = self.wall_ns.saturating_add(self.overlapped_ns / self.cpus.max(1));
            lines.push(format!(
                "{} now, about {} without ({} on {})",
                seconds(self.wall_ns),
                seconds(without_ns),
                core_seconds(self.overlapped_ns),
                counted(self.cpus, "CPU"),
            ));
            let blocked = self.blocked_by.iter().filter(|blocked| blocked.ns >= 1_000_000).take(5);
            let blocked: Vec<String> = blocked.map(|by| format!("{} {}", by.cause, core_seconds(by.ns))).collect();
            if !blocked.is_empty() {
                lines.push(format!("Threads were blocked by: {}", blocked.join(", ")));
            }
            lines.push(self.rung());
        }
        lines.extend(self.complaints.iter().cloned());
        lines
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
            overlapped_ns: 6_000_000_000,
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
    fn what_was_won_is_what_standbys_ran() {
        let page = sample().section(&Style::default()).join("\n");
        for part in [
            "overlap: eBPF doorbells, 2 CPUs, 3 standby threads",
            "free for 8.00 core-s; 6.00 core-s of it (75 %) ran other tasks",
            "7.40 s now, about 10.40 s without (6.00 core-s on 2 CPUs)",
            "blocked by: disk 4.40 core-s",
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
