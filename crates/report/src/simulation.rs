//! The result of a simulation of packing, as text and as JSON.

use advise::numbers::{count, counted, duration, milliseconds, seconds};
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::Style;
use crate::table::{Align, Table};

/// Version of the JSON schema of [`Simulation`].
pub const SCHEMA_VERSION: u32 = 2;

/// Full capacity of a CPU, as the kernel counts it.
const FULL_CAPACITY: u64 = 1024;

/// The document of `cox pack simulate --json`, from which its text is made. Times are simulated nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Simulation {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// Where and when the simulation ran. The simulation's result does not depend on this.
    #[serde(default)]
    pub provenance: Option<Provenance>,
    /// Always true: nothing here was measured.
    pub simulated: bool,
    /// Number of threads of the program.
    pub threads: u64,
    /// Capacity of each CPU, out of 1024.
    pub capacities: Vec<u64>,
    /// Number of barriers.
    pub phases: u64,
    /// CPU work of each thread between two barriers, on a CPU of full capacity.
    pub work_ns: u64,
    /// Largest deviation of a thread's work in a phase from `work_ns`, as a part of `work_ns`.
    pub spread: f64,
    /// How threads wait: `spin`, `yield`, `futex`, `spin-futex`, `none`.
    pub wait: String,
    /// How long `spin-futex` spins before it sleeps; absent otherwise.
    pub spin_ns: Option<u64>,
    /// Seed of the pseudorandom numbers.
    pub seed: u64,
    /// Lower bound: all work spread over all CPUs, with no thread on two CPUs at a time.
    pub ideal_ns: u64,
    /// The smallest slowdown if each thread stays on its CPU. For N threads on C equal CPUs, it is ceil(N/C) × C/N.
    pub static_slowdown: f64,
    /// The simulated ways to run the program.
    pub ways: Vec<Way>,
}

/// One way to run the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Way {
    /// The way to run the program.
    pub how: How,
    /// Number of threads when the program runs in this way.
    pub threads: u64,
    /// The scheduling period, nanoseconds. If the period was searched for, it is the last one that was used. Absent without rotation.
    #[serde(alias = "turn_ns")]
    pub period_ns: Option<u64>,
    /// Time until the last thread ended.
    pub elapsed_ns: u64,
    /// `elapsed_ns` divided by `ideal_ns`.
    pub slowdown: f64,
    /// Number of times that a thread was moved to another CPU.
    pub moves: u64,
    /// `moves` per second.
    pub moves_per_s: f64,
    /// Number of switches from one thread to another.
    pub switches: u64,
    /// CPU time of the controller. The threads could not use this time.
    pub own_ns: u64,
}

/// Ways to run more threads than CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// As with taskset: the kernel places the threads on the given CPUs.
    Taskset,
    /// Rotated with a fixed scheduling period: the result of the best period.
    BestFixed,
    /// Packed as `cox pack` does it.
    Packed,
    /// The same work, divided among as many threads as there are CPUs.
    FewerThreads,
}

impl Simulation {
    /// Formats the result for a terminal.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        let title = format!(
            "cox: simulated · {threads} on {cpus} · {phases} of {work}{spread}, {waiting}",
            threads = counted(self.threads, "thread"),
            cpus = self.cpus(),
            phases = counted(self.phases, "phase"),
            work = duration(self.work_ns),
            spread = if self.spread > 0.0 { format!(" ± {:.0} %", 100.0 * self.spread) } else { String::new() },
            waiting = self.waiting(),
        );
        let mut lines = vec![style.title(&style.clean(&title)), String::new()];
        let mut table = Table::new(style);
        let cells = |cell: &dyn Fn(&Way) -> String| self.ways.iter().map(cell).collect::<Vec<_>>();
        table.column("way", Align::Left, 0, cells(&Way::name));
        table.column("period", Align::Right, 2, cells(&|way| way.period_ns.map_or_else(|| "-".into(), milliseconds)));
        table.column("elapsed", Align::Right, 0, cells(&|way| seconds(way.elapsed_ns)));
        table.column("/ ideal time", Align::Right, 0, cells(&|way| format!("{:.2}×", way.slowdown)));
        table.column("moves/s", Align::Right, 0, cells(&|way| count(way.moves_per_s.round() as u64)));
        table.column("controller", Align::Right, 1, cells(&Way::controller));
        lines.extend(table.lines(style.columns()));
        lines.push(String::new());
        let last = format!(
            "  ideal {} · if each thread stays on its CPU, at least {:.2}× (ceil(N/C) × C/N for equal CPUs)",
            seconds(self.ideal_ns),
            self.static_slowdown
        );
        lines.push(style.clean(&last));
        lines.into_iter().map(|line| line + "\n").collect()
    }

    fn cpus(&self) -> String {
        let full = self.capacities.iter().filter(|capacity| **capacity == FULL_CAPACITY).count() as u64;
        let slow = self.capacities.iter().find(|capacity| **capacity != FULL_CAPACITY);
        match slow {
            None => counted(full, "CPU"),
            Some(slow) => {
                let slower = self.capacities.len() as u64 - full;
                format!("{full} CPUs and {slower} of capacity {slow}")
            }
        }
    }

    fn waiting(&self) -> String {
        match (self.wait.as_str(), self.spin_ns) {
            ("spin", _) => "waiting in loops".to_owned(),
            ("yield", _) => "waiting by sched_yield".to_owned(),
            ("futex", _) => "waiting asleep".to_owned(),
            ("spin-futex", Some(ns)) => format!("waiting in loops for {}, then asleep", duration(ns)),
            _ => "no barrier before the end".to_owned(),
        }
    }
}

impl Way {
    fn name(&self) -> String {
        match self.how {
            How::Taskset => "taskset".to_owned(),
            How::BestFixed => "best fixed period".to_owned(),
            How::Packed => "cox pack".to_owned(),
            How::FewerThreads => counted(self.threads, "thread"),
        }
    }

    fn controller(&self) -> String {
        match self.how {
            How::Taskset | How::FewerThreads => "-".to_owned(),
            How::BestFixed | How::Packed => {
                format!("{:.1} % of a CPU", 100.0 * self.own_ns as f64 / self.elapsed_ns.max(1) as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated() -> Simulation {
        let way = |how, threads, period_ns, elapsed_ns: u64| Way {
            how,
            threads,
            period_ns,
            elapsed_ns,
            slowdown: elapsed_ns as f64 / 4.5e9,
            moves: 9_000,
            moves_per_s: 1_500.4,
            switches: 1,
            own_ns: elapsed_ns / 20,
        };
        Simulation {
            simulated: true,
            threads: 3,
            capacities: vec![1024, 1024],
            phases: 3_000,
            work_ns: 1_000_000,
            wait: "spin".into(),
            ideal_ns: 4_500_000_000,
            static_slowdown: 4.0 / 3.0,
            ways: vec![
                way(How::Taskset, 3, None, 12_000_000_000),
                way(How::Packed, 3, Some(250_000), 6_000_000_000),
                way(How::FewerThreads, 2, None, 4_600_000_000),
            ],
            ..Simulation::default()
        }
    }

    #[test]
    fn every_figure_stands_under_its_heading() {
        let text = simulated().text(&Style::default());
        for part in [
            "cox: simulated · 3 threads on 2 CPUs · 3,000 phases of 1.0 ms, waiting in loops",
            "taskset          -  12.00 s         2.67×",
            "cox pack   0.25 ms   6.00 s         1.33×    1,500  5.0 % of a CPU",
            "2 threads        -   4.60 s         1.02×",
            "ideal 4.50 s · if each thread stays on its CPU, at least 1.33×",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn unequal_cpus_and_two_ways_of_waiting_are_named() {
        let hybrid = Simulation {
            capacities: [vec![1024; 7], vec![512; 8]].concat(),
            wait: "spin-futex".into(),
            spin_ns: Some(350_000),
            spread: 0.1,
            ..simulated()
        };
        let text = hybrid.text(&Style::default());
        for part in ["7 CPUs and 8 of capacity 512", "± 10 %", "in loops for 350 µs, then asleep"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
