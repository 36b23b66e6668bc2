//! Simulates configurations for which this machine is too small. First, the simulator is compared with *live* figures, which are measured on this
//! machine.

use anyhow::Result;
use pack::sim::Costs;
use serde::Serialize;

use super::barriers::{self, LINES, Line, Measured, run_once};
use super::catalogue::Kernel;
use super::field::{Confined, Field};
use super::job::{Job, With};
use super::judge;
use super::kernels::{self, PERIODS_MS, Table};
use super::model::{Cpus, How, Model, Simulated, fitted_tick_ns, tick_cost_ns};
use super::part::{Part, progress};
use super::ratio::Ratio;
use super::text;
use crate::rounds::in_turns;
use crate::stats::median;
use crate::verdict::{Outcome, Verdict};

/// The ratio of threads to CPUs at which simulated figures are compared with *live* ones (of real runs on this machine).
pub const RATIO: Ratio = Ratio { threads: 3, cpus: 2 };
/// Number of rounds of real runs on this machine (for the *live* figures), if no other part of the experiment has measured these figures.
const LIVE_ROUNDS: usize = 3;
/// The two scheduling periods with which the controller's CPU time is measured, to compute what one tick costs, ns.
const FIT_PERIODS_NS: (u64, u64) = (250_000, 1_000_000);
/// Largest permitted relative deviation of a simulated figure from the figure that was measured on this machine.
const NEAR: f64 = 0.20;

/// A live figure (measured in real runs on this machine) and the corresponding simulated one.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    what: String,
    with: &'static str,
    live: f64,
    simulated: f64,
}

impl Pair {
    fn deviation(&self) -> f64 {
        self.simulated / self.live - 1.0
    }
}

/// A simulated figure of a configuration that cannot be measured on this machine.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// Always true: nothing in this row was measured.
    simulated: bool,
    cpus: &'static str,
    kernel: String,
    with: String,
    slowdown: f64,
    controller_percent: f64,
    moves_per_s: f64,
}

#[derive(Debug, Serialize)]
struct Lines {
    tick_ns: u64,
    live_against_simulated: Vec<Pair>,
    rows: Vec<Row>,
}

/// Live figures (of real runs on this machine) that other parts of the experiment have measured.
#[derive(Debug, Default)]
pub struct Live {
    /// Figures that the part `barriers` has measured.
    pub lines: Vec<Measured>,
    /// Figures that the part `kernels` has measured.
    pub tables: Vec<Table>,
}

fn lines_here() -> Vec<Line> {
    LINES.iter().copied().filter(|line| line.ratio == RATIO).collect()
}

/// Returns the expected duration of the part `simulated` of the experiment, s. `measured`: other parts measure the figures of real runs, so that
/// these take no time here.
pub fn expected_s(kernels: &[&Kernel], measured: bool, scale: f64) -> f64 {
    let live = barriers::expected_s(&lines_here(), LIVE_ROUNDS, scale)
        + kernels.len() as f64 * LIVE_ROUNDS as f64 * (5.0 * scale + 0.5);
    let simulation = 20.0 * kernels.len() as f64 + 30.0;
    simulation + if measured { 0.0 } else { live }
}

fn live_figures(field: &Field<'_>, kernels: &[&'static Kernel], live: Live) -> Result<(Live, Vec<Verdict>)> {
    let (mut lines, mut tables, mut failed) = (live.lines, live.tables, Vec::new());
    lines.retain(|measured| measured.line.ratio == RATIO);
    tables.retain(|table| table.ratio == RATIO);
    if lines.is_empty() {
        let found = barriers::measure(field, "simulated, first real runs to compare", &lines_here(), LIVE_ROUNDS)?;
        failed.extend(found.failed.iter().map(|(line, why)| judge::not_measured(&line.name(), why)));
        lines = found.measured;
    }
    if tables.is_empty() {
        for &kernel in kernels {
            progress(&format!("simulated: first, real runs of {} for the comparison", kernel.name));
            let with = [With::Taskset, With::FewerThreads, With::Ours];
            let measured =
                Job::calibrated(field, kernel, RATIO).and_then(|job| kernels::measure(field, &job, &with, LIVE_ROUNDS));
            match measured {
                Ok(table) => tables.push(table),
                Err(error) => {
                    field.interrupt.check()?;
                    failed.push(judge::not_measured(kernel.name, &format!("{error:#}")));
                }
            }
        }
    }
    Ok((Live { lines, tables }, failed))
}

/// Measures what a tick (the controller's work at the end of a CPU's scheduling period) costs on this machine, and fits the simulator's tick cost to
/// it. Returns the simulator's costs, and the measured cost of a tick in ns.
fn calibrated(field: &Field<'_>) -> Result<(Costs, f64)> {
    let Some(line) = lines_here().into_iter().find(|line| line.name() == "3/2 spin 10 ms") else {
        anyhow::bail!(
            "the calibration needs the row '3/2 spin 10 ms' of the barriers (3 threads on 2 CPUs that spin, phases of 10 ms), which does not exist"
        );
    };
    let periods = [FIT_PERIODS_NS.0, FIT_PERIODS_NS.1];
    let confined = |period_ns: u64| Confined::packed(&format!("--always --period {}us", period_ns / 1000));
    let live = in_turns(2, LIVE_ROUNDS, |place| {
        run_once(field, &line, &confined(periods[place])).map(|(_, own_percent, _)| own_percent)
    })?;
    let live_ns = tick_cost_ns(RATIO.cpus, FIT_PERIODS_NS, (median(&live[0]), median(&live[1])));
    let model = Model::of_line(&line, 1.0);
    let cpus = Cpus::equal("3/2", RATIO);
    let own_percent = |period_ns| model.run(&cpus, How::Fixed(period_ns), Costs::default()).own_percent;
    let simulated_ns =
        tick_cost_ns(RATIO.cpus, FIT_PERIODS_NS, (own_percent(FIT_PERIODS_NS.0), own_percent(FIT_PERIODS_NS.1)));
    let default = Costs::default();
    Ok((Costs { tick_ns: fitted_tick_ns(default.tick_ns, live_ns, simulated_ns), ..default }, live_ns))
}

fn pairs(field: &Field<'_>, live: &Live, costs: Costs) -> Vec<Pair> {
    let cpus = Cpus::equal("3/2", RATIO);
    let mut pairs = Vec::new();
    for measured in &live.lines {
        let model = Model::of_line(&measured.line, field.scale);
        for (with, how, live) in [("taskset", How::Taskset, &measured.taskset), ("cox pack", How::Ours, &measured.cox)]
        {
            let simulated = model.run(&cpus, how, costs).slowdown;
            pairs.push(Pair { what: measured.line.name(), with, live: live.estimate.median, simulated });
        }
    }
    for table in &live.tables {
        let Some(model) = Model::of_kernel(table) else { continue };
        let fewer = model.run(&cpus, How::FewerThreads, costs).slowdown;
        for (with, how) in [(With::Taskset, How::Taskset), (With::Ours, How::Ours)] {
            let live = table.slowdown(with).filter(|_| !table.row(with).is_some_and(kernels::Row::is_bound));
            if let Some(live) = live {
                let simulated = model.run(&cpus, how, costs).slowdown / fewer;
                pairs.push(Pair { what: format!("{} 3/2", table.kernel), with: with.word(), live, simulated });
            }
        }
    }
    pairs
}

fn rows(field: &Field<'_>, live: &Live, costs: Costs) -> Result<Vec<Row>> {
    let models = live.lines.iter().map(|m| (m.line.name().replace("3/2 ", "barriers "), Model::of_line(&m.line, 1.0)));
    let kernels = live.tables.iter().filter_map(|table| Some((table.kernel.to_owned(), Model::of_kernel(table)?)));
    let models: Vec<(String, Model)> = models.chain(kernels).collect();
    let mut rows = Vec::new();
    for cpus in Cpus::beyond_this_machine() {
        progress(&format!("simulated: {}", cpus.name));
        for (name, model) in &models {
            field.interrupt.check()?;
            let mut add = |with: String, simulated: Simulated| {
                rows.push(Row {
                    simulated: true,
                    cpus: cpus.name,
                    kernel: name.clone(),
                    with,
                    slowdown: simulated.slowdown,
                    controller_percent: simulated.own_percent,
                    moves_per_s: simulated.moves_per_s,
                });
            };
            add(With::Taskset.word().to_owned(), model.run(&cpus, How::Taskset, costs));
            add(With::FewerThreads.word().to_owned(), model.run(&cpus, How::FewerThreads, costs));
            let (period_ms, best) =
                static_best(|period_ms| model.run(&cpus, How::Fixed((period_ms * 1e6) as u64), costs));
            add(format!("{} {period_ms} ms", With::StaticBest.word()), best);
            add(With::Palm.word().to_owned(), model.run(&cpus, How::Palm, costs));
            add(With::Ours.word().to_owned(), model.run(&cpus, How::Ours, costs));
        }
    }
    Ok(rows)
}

fn static_best(run: impl Fn(f64) -> Simulated) -> (f64, Simulated) {
    let all = PERIODS_MS.map(|period_ms| (period_ms, run(period_ms)));
    all.into_iter().reduce(|a, b| if b.1.slowdown < a.1.slowdown { b } else { a }).unwrap_or(all[0])
}

/// Returns the verdict whether all simulated figures of the treatment `with` deviate by at most [`NEAR`] from the measured ones.
fn near(pairs: &[Pair], with: &str) -> Verdict {
    let all: Vec<&Pair> = pairs.iter().filter(|pair| pair.with == with).collect();
    let far: Vec<String> = all
        .iter()
        .filter(|pair| pair.deviation().abs() > NEAR)
        .map(|pair| format!("{} {:+.0} %", pair.what, 100.0 * pair.deviation()))
        .collect();
    let outcome = match (all.is_empty(), far.is_empty()) {
        (true, _) => Outcome::NotMeasured,
        (_, true) => Outcome::Pass,
        _ => Outcome::Fail,
    };
    let mut text = format!(
        "simulated figures of {with} within {} % of the measured ones: {} of {}",
        100.0 * NEAR,
        all.len() - far.len(),
        all.len()
    );
    if !far.is_empty() {
        text = format!("{text}; not {}", far.join(", "));
    }
    Verdict { outcome, text }
}

/// Measures and reports the part `simulated` of the experiment.
pub fn part(field: &Field<'_>, kernels: &[&'static Kernel], live: Live) -> Result<Part> {
    let (live, failed) = live_figures(field, kernels, live)?;
    progress("simulated: calibration");
    let (costs, live_tick_ns) = calibrated(field)?;
    let pairs = pairs(field, &live, costs);
    let rows = rows(field, &live, costs)?;
    let lines = Lines { tick_ns: costs.tick_ns, live_against_simulated: pairs, rows };
    let mut verdicts =
        vec![near(&lines.live_against_simulated, "cox pack"), near(&lines.live_against_simulated, "taskset")];
    verdicts.extend(failed);
    let notes = vec![
        "SIMULATED: all figures of the second table come from the simulator".to_owned(),
        format!(
            "calibration: in real runs, a tick and the moves that it orders cost {} us (from cox's CPU time at periods of 0.25 and 1 ms); \
             in the simulator, a tick without moves costs {} us, a switch {} us, a move {} us, and a wake-up {} us",
            text::figure(live_tick_ns / 1e3),
            text::figure(costs.tick_ns as f64 / 1e3),
            costs.switch_ns as f64 / 1e3,
            costs.move_ns as f64 / 1e3,
            costs.wake_ns as f64 / 1e3
        ),
        "kernels: each simulated phase is as long as the mean phase of the real run with fewer threads, and each CPU has the same \
         work; both columns are elapsed time / elapsed time with fewer threads"
            .to_owned(),
        "7 fast + 8 slow: a slow CPU has half the capacity of a fast one".to_owned(),
    ];
    Ok(Part::new(
        "simulated",
        "simulated runs on more CPUs than this machine has, and a comparison of simulated with measured figures",
    )
    .with_table(printed(&lines))
    .with_lines(&[lines])?
    .with_notes(notes)
    .with_verdicts(verdicts))
}

fn printed(lines: &Lines) -> String {
    let pairs = lines.live_against_simulated.iter().map(|pair| {
        vec![
            pair.what.clone(),
            pair.with.to_owned(),
            text::figure(pair.live),
            text::figure(pair.simulated),
            format!("{:+.0} %", 100.0 * pair.deviation()),
        ]
    });
    let rows = lines.rows.iter().map(|row| {
        vec![
            format!("simulated {}", row.cpus),
            row.kernel.clone(),
            row.with.clone(),
            text::figure(row.slowdown),
            text::figure(row.controller_percent),
            text::figure(row.moves_per_s),
        ]
    });
    format!(
        "{}\n\n{}",
        text::table(&["3/2", "with", "live", "simulated", "deviation"], 2, pairs.collect()),
        text::table(&["CPUs", "program", "with", "time / bound", "cox CPU %", "moves/s"], 3, rows.collect())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(with: &'static str, live: f64, simulated: f64) -> Pair {
        Pair { what: "3/2 spin 1 ms".into(), with, live, simulated }
    }

    #[test]
    fn deviations_are_judged_by_treatment() {
        let pairs = [pair("cox pack", 1.0, 1.19), pair("taskset", 1.0, 2.0), pair("taskset", 1.0, 0.81)];
        assert_eq!(near(&pairs, "cox pack").outcome, Outcome::Pass);
        let taskset = near(&pairs, "taskset");
        assert_eq!(taskset.outcome, Outcome::Fail);
        assert!(taskset.text.contains("1 of 2; not 3/2 spin 1 ms +100 %"), "{}", taskset.text);
        assert_eq!(near(&pairs, "palm").outcome, Outcome::NotMeasured);
    }

    #[test]
    fn the_best_of_all_periods() {
        let (period_ms, best) = static_best(|period_ms| Simulated {
            slowdown: 1.0 + (period_ms - 0.5).abs(),
            own_percent: 0.0,
            moves_per_s: 0.0,
        });
        assert_eq!((period_ms, best.slowdown), (0.5, 1.0));
    }

    #[test]
    fn every_simulated_row_says_so() {
        let row = Row {
            simulated: true,
            cpus: "16/15",
            kernel: "cg".into(),
            with: "taskset".into(),
            slowdown: 1.9,
            controller_percent: 0.0,
            moves_per_s: 0.0,
        };
        let lines = Lines { tick_ns: 1, live_against_simulated: Vec::new(), rows: vec![row] };
        assert!(printed(&lines).contains("simulated 16/15"));
    }
}
