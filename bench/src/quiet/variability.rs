//! The steps of a solver (conjugate gradients, as in POP) beside a load on all CPUs, at each level: how much longer the
//! mean step is than the shortest one, and how much the runs differ (the source's slides 22 to 24).

use anyhow::Result;
use quiet::Level;

use super::place::{Place, Under, load};
use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::noise::solver::{Measured, run};
use crate::rounds::in_turns;
use crate::stats::median;

const UNDER: [Under; 7] = [
    Under::Nothing,
    Under::Taskset,
    Under::Quiet(Level::Cgroup),
    Under::Quiet(Level::NoBalance),
    Under::Quiet(Level::Irq),
    Under::Quiet(Level::Work),
    Under::Quiet(Level::Full),
];
/// About two seconds of one rank.
const STEPS: u32 = 10_000;

pub fn variability(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if !found.has("stress-ng") {
        return Ok(found);
    }
    let place = Place::chosen()?;
    let load = load(field)?;
    let all = in_turns(UNDER.len(), runs.into(), |at| {
        let mut command = UNDER[at].command(field, &place);
        run(field, command.arg(field.workload("solver")), 1, STEPS)
    })?;
    drop(load);
    // The same for all: what a step takes if nothing disturbs it.
    let shortest = all.iter().flatten().map(|run| run.quiet_ns).fold(f64::INFINITY, f64::min);
    found.line(format!(
        "CPU {}, one rank, shortest step {:.1} us; medians of {runs} runs: mean step / shortest | standard deviation of the steps / mean | slowest run / fastest",
        place.cpu,
        shortest / 1e3
    ));
    for (under, runs) in UNDER.iter().zip(&all) {
        let of = |figure: fn(&Measured) -> f64| runs.iter().map(figure).collect::<Vec<f64>>();
        let means = of(|run| run.step_ns);
        let (fastest, slowest) =
            means.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &of| (low.min(of), high.max(of)));
        found.line(format!(
            "  {:28} {:6.3} | {:6.3} | {:6.3}",
            under.name(),
            median(&means) / shortest,
            median(&of(|run| run.variation)),
            slowest / fastest
        ));
    }
    Ok(found)
}
