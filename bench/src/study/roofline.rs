//! Where the programs stand below the ceilings of the machine: figure 4.1 of the study.
//!
//! Operations and bytes are the programs' own counts from their source code. The bytes are the least that the loops move, so the true intensity of a
//! program whose data do not stay in the caches is lower.

use compare::stats::median;
use serde::Serialize;

use super::ceilings::Ceilings;
use super::cell::Observer;
use super::results::{Results, Setting};
use super::sample::Program;

/// A program at its fastest schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    pub program: &'static str,
    pub schedule: String,
    pub threads: usize,
    pub operations_per_s: f64,
    /// Operations per byte; absent for a program that moves no data.
    pub intensity: Option<f64>,
    /// The part of what the ceilings allow at this intensity, with the highest roof.
    pub reached: f64,
    /// Whether the memory limits the program at this intensity, and not the highest roof.
    pub is_memory_bound: bool,
}

/// Returns a point for each program that ran alone and unbound with at most one thread per CPU: with the most threads, without an observer if that was
/// measured, and with the schedule that was fastest.
pub fn points(results: &Results, ceilings: &Ceilings, cpus: usize) -> Vec<Point> {
    let settings = results.settings(false);
    let fitting = |setting: &&Setting| !setting.bound && setting.threads <= cpus;
    let most = |setting: &&Setting| {
        settings
            .iter()
            .filter(fitting)
            .all(|other| other.programs != setting.programs || other.threads <= setting.threads)
    };
    let of = |setting: &Setting| {
        let at = |observer| {
            results.schedules.iter().filter_map(move |schedule| point(results, ceilings, *setting, schedule, observer))
        };
        let fastest = |points: &mut dyn Iterator<Item = Point>| {
            points.max_by(|a, b| a.operations_per_s.total_cmp(&b.operations_per_s))
        };
        fastest(&mut at(Observer::None)).or_else(|| fastest(&mut at(Observer::Cox)))
    };
    settings.iter().filter(fitting).filter(most).filter_map(of).collect()
}

fn point(
    results: &Results,
    ceilings: &Ceilings,
    setting: Setting,
    schedule: &String,
    observer: Observer,
) -> Option<Point> {
    let runs: Vec<&Program> =
        results.same(setting, schedule, observer).iter().filter_map(|run| run.programs.first()).collect();
    let first = runs.first()?;
    let rates: Vec<f64> = runs.iter().map(|run| run.operations / run.elapsed_s).collect();
    let operations_per_s = median(&rates);
    let intensity = (first.bytes > 0.0).then(|| first.operations / first.bytes);
    let (_, roof) = ceilings.roofs.last()?;
    let memory = intensity.map_or(f64::INFINITY, |intensity| intensity * ceilings.bytes_per_s);
    Some(Point {
        program: setting.programs.apps()[0].name(),
        schedule: schedule.clone(),
        threads: setting.threads,
        operations_per_s,
        intensity,
        reached: operations_per_s / memory.min(*roof),
        is_memory_bound: memory < *roof,
    })
}

impl Point {
    /// Returns the point in words.
    pub fn name(&self) -> String {
        let threads = if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        format!("{} ({}, {threads})", self.program, self.schedule)
    }
}

/// Returns the roofline as text.
pub fn text(points: &[Point], ceilings: &Ceilings) -> String {
    let mut text = format!(
        "Roofline (figure 4.1 of the study)\n  operations and bytes as the programs count them from their source code; ceilings measured in this run\n  memory: {:.1} GB/s\n",
        ceilings.bytes_per_s / 1e9
    );
    for (name, roof) in &ceilings.roofs {
        text.push_str(&format!("  {name}: {:.1} Gop/s\n", roof / 1e9));
    }
    for point in points {
        let intensity = match point.intensity {
            Some(intensity) => format!("{intensity:.2} operations per byte"),
            None => "moves no data".to_owned(),
        };
        let limit = if point.is_memory_bound { "memory" } else { "computing" };
        text.push_str(&format!(
            "  {:34} {:>7.2} Gop/s, {intensity}: {:.0} % of what {limit} allows\n",
            point.name(),
            point.operations_per_s / 1e9,
            point.reached * 100.0
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::cell::{Cell, Programs};
    use crate::study::results::Measured;
    use crate::study::sample::Sample;

    fn measured(programs: Programs, schedule: &str, threads: usize, observer: Observer, times: &[f64]) -> Measured {
        let bytes = if programs == Programs::Triad { 24e9 } else { 0.0 };
        let run = |elapsed_s: &f64| Sample {
            programs: vec![Program { elapsed_s: *elapsed_s, operations: 2e9, bytes, ..Program::default() }],
            ..Sample::default()
        };
        let cell = Cell { programs, schedules: vec![schedule.to_owned()], threads, bound: false, observer };
        Measured { cell, runs: times.iter().map(run).collect() }
    }

    #[test]
    fn a_program_stands_at_its_fastest_schedule_without_an_observer() {
        let cells = vec![
            measured(Programs::Triad, "static", 2, Observer::None, &[2.0, 2.5, 2.0]),
            measured(Programs::Triad, "fac2", 2, Observer::None, &[4.0]),
            measured(Programs::Triad, "fac2", 2, Observer::Cox, &[0.5]),
            measured(Programs::Triad, "fac2", 4, Observer::Cox, &[0.1]),
            measured(Programs::Triad, "fac2", 1, Observer::Cox, &[0.1]),
            measured(Programs::Mandelbrot, "fac2", 1, Observer::Cox, &[1.0]),
        ];
        let results = Results { schedules: vec!["static".into(), "fac2".into()], cells };
        let ceilings = Ceilings { bytes_per_s: 20e9, roofs: vec![("scalar".into(), 2e9), ("vector".into(), 8e9)] };
        let points = points(&results, &ceilings, 2);
        assert_eq!(points.len(), 2);
        let [mandelbrot, triad] = [&points[0], &points[1]];
        // 2 Gop in 2 s. At 1/12 operations per byte, 20 GB/s allow 5/3 Gop/s.
        assert_eq!((triad.name().as_str(), triad.operations_per_s), ("triad (static, 2 threads)", 1e9));
        assert!(triad.is_memory_bound && (triad.reached - 0.6).abs() < 1e-9, "{triad:?}");
        assert_eq!((mandelbrot.intensity, mandelbrot.is_memory_bound, mandelbrot.reached), (None, false, 0.25));
        let text = text(&points, &ceilings);
        assert!(text.contains("1.00 Gop/s, 0.08 operations per byte: 60 % of what memory allows"), "{text}");
        assert!(text.contains("moves no data: 25 % of what computing allows"), "{text}");
    }
}
