//! `cox-bench loops --timing`: the time by which a schedule compares threads, in cells of a table: what else runs on the CPUs, and whether threads are
//! equally fast. `workloads/weights` runs in each cell with `static` and with the schedule by wall time, CPU time and both, in turns; the simulator drives
//! the same policy in the same cells. The defaults of [`loops::Timing::of`] follow from this table.

mod cells;
mod co_runner;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use loops::sim::cpus::Machine;
use loops::sim::load::Load;
use loops::sim::{self, simulate};
use loops::{Kind, Schedule, Timing};
use serde::Serialize;
use tempfile::TempDir;

use self::cells::{Cell, SLOW, Treatment};
use self::co_runner::Running;
use super::program::ns_each;
use crate::interrupt::Interrupt;
use crate::pack::field::without_runtime_variables;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate, shown};
use crate::verdict::Outcome;

/// The loop: iterations, and the work of each, microseconds. With two threads of the same speed, an instance takes 8 ms.
const ITERATIONS: u32 = 800;
const WORK_US: u32 = 20;

/// How long a run takes, seconds: a co-runner that wanders stays on eight CPUs one after the other.
const SECONDS: f64 = 2.0;

/// Time limit of a run: beside many other programs, it takes longer.
const LIMIT: Duration = Duration::from_secs(120);

/// What the experiment needs.
pub struct Programs<'a> {
    /// `weights`.
    pub program: PathBuf,
    /// `libcox_loops.so`.
    pub library: PathBuf,
    /// The program's results.
    pub scratch: &'a TempDir,
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// The CPUs of the team, one for each thread.
    pub cpus: Vec<usize>,
}

/// One cell of the table, for one schedule.
#[derive(Debug, Serialize)]
pub struct Row {
    schedule: String,
    cell: String,
    /// Milliseconds of an instance, for each treatment and round.
    ms: Vec<(&'static str, Vec<f64>)>,
    /// Ratios of the treatment's time to that by wall time, in the same round.
    ratios: Vec<(&'static str, Vec<f64>)>,
    /// The same by the simulator: medians over its seeds.
    simulated: Vec<(&'static str, f64)>,
    /// What applies if the user asks for none.
    default: &'static str,
    limit: f64,
    /// The outcome of the default, measured.
    pub outcome: Outcome,
}

/// Measures all cells with a schedule; `each` gets every row as soon as it is known.
///
/// # Errors
/// When the program cannot be measured.
pub fn measure(
    programs: &Programs<'_>,
    schedule: &str,
    runs: usize,
    only: Option<&str>,
    mut each: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let parsed: Schedule = schedule.parse().map_err(|invalid| anyhow::anyhow!("{schedule}: {invalid}"))?;
    for cell in Cell::all().filter(|cell| only.is_none_or(|part| cell.name().contains(part))) {
        let mut turn = 0;
        let ms = in_turns(Treatment::ALL.len(), runs, |at| {
            turn += 1;
            // All treatments of a round meet the same co-runner.
            programs.run(cell, schedule, Treatment::ALL[at], (turn - 1) / Treatment::ALL.len() as u64)
        })?;
        each(row(&parsed, cell, &ms, programs.cpus.len())?)?;
    }
    Ok(())
}

fn row(schedule: &Schedule, cell: Cell, ms: &[Vec<f64>], threads: usize) -> Result<Row> {
    let wall = &ms[Treatment::WALL];
    let ratios = |of: &Vec<f64>| of.iter().zip(wall).map(|(one, wall)| one / wall).collect::<Vec<f64>>();
    let named = |treatment: &Treatment, of: Vec<f64>| (treatment.name(), of);
    let ratios: Vec<_> = Treatment::ALL.iter().zip(ms.iter().map(ratios)).map(|(t, of)| named(t, of)).collect();
    let default = Timing::of(schedule.kind).name();
    let of_default = ratios.iter().find(|(name, _)| *name == default).map_or(&[][..], |(_, ratios)| ratios);
    Ok(Row {
        schedule: schedule.to_string(),
        cell: cell.name(),
        outcome: cell.judge(of_default),
        limit: cell.limit(),
        default,
        simulated: simulated(schedule, cell, threads)?,
        ms: Treatment::ALL.iter().zip(ms).map(|(t, of)| named(t, of.clone())).collect(),
        ratios,
    })
}

/// Simulates the cell, and returns the ratio of each treatment's time to that by wall time.
fn simulated(schedule: &Schedule, cell: Cell, threads: usize) -> Result<Vec<(&'static str, f64)>> {
    let load = Load {
        trips: ITERATIONS.into(),
        mean_ns: f64::from(WORK_US) * 1e3,
        variation: 0.0,
        instances: (SECONDS * 1e6 * threads as f64 / f64::from(ITERATIONS * WORK_US)) as u32,
        request_ns: 500.0,
        seed: 1,
    };
    let time_of = |treatment: &Treatment| -> Result<f64> {
        let times: Result<Vec<f64>> = (0..15)
            .map(|seed| {
                let machine = Machine::new(&cell.speeds(threads), cell.co_runner, 4.0 * SECONDS * 1e9, seed);
                let (schedule, timing) = match treatment {
                    Treatment::Static => (&Schedule::new(Kind::Static), Timing::Wall),
                    Treatment::With(timing) => (schedule, *timing),
                };
                let options = sim::Options { timing, ..sim::Options::default() };
                let outcome = simulate(schedule, &load, &machine, options);
                outcome.map(|outcome| outcome.time_ns).map_err(|invalid| anyhow::anyhow!("{invalid}"))
            })
            .collect();
        Ok(median(&times?))
    };
    let times: Vec<f64> = Treatment::ALL.iter().map(time_of).collect::<Result<_>>()?;
    Ok(Treatment::ALL.iter().zip(&times).map(|(t, time)| (t.name(), time / times[Treatment::WALL])).collect())
}

impl Programs<'_> {
    /// Runs the program once; returns milliseconds of an instance.
    fn run(&self, cell: Cell, schedule: &str, treatment: Treatment, seed: u64) -> Result<f64> {
        self.interrupt.check()?;
        let mut command = Command::new(&self.program);
        without_runtime_variables(&mut command);
        let threads = self.cpus.len().to_string();
        let slow = if cell.is_unequal { SLOW } else { 1.0 };
        command.args(["--threads", &threads, "--seconds", &SECONDS.to_string(), "--slow", &slow.to_string()]);
        command.args(["--iterations", &ITERATIONS.to_string(), "--work-us", &WORK_US.to_string()]);
        command.args(["--iterations-per-us", &STEPS_PER_US.to_string()]);
        // A thread that spins at a barrier would share its CPU with the co-runner, and have had its turn when the next instance begins.
        let places = self.cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect::<Vec<_>>().join(",");
        command.env("OMP_PROC_BIND", "true").env("OMP_PLACES", places).env("OMP_WAIT_POLICY", "passive");
        command.env("LD_PRELOAD", &self.library);
        match treatment {
            Treatment::Static => command.env("COX_SCHEDULE", "static"),
            Treatment::With(timing) => command.env("COX_SCHEDULE", schedule).env("COX_TIMING", timing.name()),
        };
        let _co_runner = Running::start(cell.co_runner, &self.cpus, seed)?;
        Ok(ns_each(&mut command, &treatment, LIMIT, self.scratch, self.interrupt)? / 1e6)
    }
}

/// Steps of the program's work in a microsecond. A constant, since a calibration beside a co-runner would differ from run to run.
const STEPS_PER_US: u32 = 1000;

/// Returns the heading of the rows.
pub fn heading(schedule: &str, threads: usize) -> String {
    format!("{schedule}, {threads} threads: ms of a loop · ratio to wall (95 %) · the same simulated\n")
}

/// Returns a row as text.
pub fn text(row: &Row) -> String {
    let mut text = format!("  {}\n", row.cell);
    for (((name, ms), (_, ratios)), (_, simulated)) in row.ms.iter().zip(&row.ratios).zip(&row.simulated) {
        let ratio = if *name == "wall" { "1".to_owned() } else { shown(&median_estimate(ratios), 3) };
        let (least, most) = ms.iter().fold((f64::MAX, 0.0_f64), |(least, most), ms| (least.min(*ms), most.max(*ms)));
        let _ = write!(text, "    {name:8}{:8.2} ({least:.2} to {most:.2})   {ratio:26} {simulated:.3}", median(ms));
        if *name == row.default {
            let _ = write!(text, "   default; limit {}: {}", row.limit, row.outcome.word());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use loops::sim::cpus::CoRunner;

    #[test]
    fn the_default_is_judged_in_its_row() {
        let schedule = "static_weighted".parse().unwrap();
        let wanders = Cell { co_runner: CoRunner::Wanders(250), is_unequal: false };
        let ms = [vec![16.0; 9], vec![14.0; 9], vec![15.6; 9], vec![12.6; 9]];
        let row = row(&schedule, wanders, &ms, 2).unwrap();
        assert_eq!((row.default, row.outcome), ("both", Outcome::Pass));
        // The simulator has the same order.
        assert!(row.simulated[3].1 < 0.95 && row.simulated[0].1 > 1.0, "{:?}", row.simulated);
        let text = text(&row);
        assert!(text.contains("both       12.60 (12.60 to 12.60)   0.900 (0.900 to 0.900)"), "{text}");
        assert!(text.contains("default; limit 0.95: PASS"), "{text}");
    }
}
