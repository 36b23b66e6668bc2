//! A solver as in POP's barotropic part (the source's slides 22 and 23): conjugate gradients on a two-dimensional grid, with two sums over all ranks in
//! each step. Measured on this machine, and forecast for the source's 236 nodes.

use std::process::Command;

use anyhow::{Context, Result};

use super::field::Field;
use super::findings::Findings;

/// Nodes of the source's machine.
const NODES: u64 = 236;
/// Steps of the solver.
const STEPS: u32 = 3000;
/// Synchronisations in a step: two sums, and the exchange with neighbours.
const SYNCHRONISATIONS: u64 = 3;

/// What the solver tells about itself.
pub struct Measured {
    /// Mean time that a rank computes between two synchronisations, ns.
    pub work_ns: u64,
    /// Mean time of a step, ns.
    pub step_ns: f64,
    /// The shortest step, ns.
    pub quiet_ns: f64,
    /// Standard deviation of the steps, divided by their mean.
    pub variation: f64,
}

pub fn solver(field: &Field<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    field.noise(&["--for", "10s"])?;
    for ranks in [1_u64, 2] {
        let of = run(field, &mut Command::new(field.workload("solver")), ranks, STEPS)?;
        found.line(format!(
            "{ranks} rank(s) here: {:.1} us between synchronisations, step {:.1} us, shortest {:.1} us: {:.3} times",
            of.work_ns as f64 / 1e3,
            of.step_ns / 1e3,
            of.quiet_ns / 1e3,
            of.step_ns / of.quiet_ns
        ));
        let (all, per_node) = (format!("{ranks},{}", ranks * NODES), ranks.to_string());
        let work = format!("{}ns", of.work_ns);
        let report = field.forecast(&["--ranks", &all, "--ranks-per-node", &per_node, "--work", &work])?;
        for scale in report.works.iter().flat_map(|work| &work.scales) {
            let value = scale.slowdown.map_or_else(|| "no estimate".to_owned(), |value| format!("{value:.3}"));
            found.line(format!(
                "  forecast of each synchronisation, {} node(s) of {ranks} rank(s): {value} ({}; at least {:.3})",
                scale.nodes, scale.kind, scale.at_least
            ));
        }
    }
    found.line("a node here has 2 CPUs: the source's third and fourth rank of a node cannot be recorded");
    Ok(found)
}

/// Runs the solver by a command that ends with it, and appends its options.
pub fn run(field: &Field<'_>, command: &mut Command, ranks: u64, steps: u32) -> Result<Measured> {
    let phases = field.file("phases.csv");
    command.args(["--threads", &ranks.to_string(), "--steps", &steps.to_string(), "--phases"]).arg(&phases);
    field.done(command)?;
    let text = std::fs::read_to_string(&phases).context("the solver wrote no phases")?;
    let row = |line: &str| -> Option<[u64; 4]> {
        let numbers: Vec<u64> = line.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        numbers.try_into().ok()
    };
    let rows: Vec<[u64; 4]> = text.lines().filter_map(row).collect();
    let count = rows.len().max(1) as f64;
    let steps = || rows.iter().map(|[.., compute, sync]| (compute + sync) as f64);
    let mean = steps().sum::<f64>() / count;
    let variance = steps().map(|step| (step - mean).powi(2)).sum::<f64>() / count;
    Ok(Measured {
        work_ns: rows.iter().map(|[.., compute, _]| compute).sum::<u64>() / rows.len().max(1) as u64 / SYNCHRONISATIONS,
        step_ns: mean,
        quiet_ns: steps().fold(f64::INFINITY, f64::min),
        variation: variance.sqrt() / mean,
    })
}
