//! `cox pack simulate`: the packer on a simulated machine.

use anyhow::Result;
use outputs::Output;
use pack::policy::assignment::FULL_CAPACITY;
use pack::sim::{Costs, Outcome, Program, Wait};
use report::simulation::{How, SCHEMA_VERSION, Simulation, Way};
use session::provenance;

use crate::cli::{self, Waiting};
use crate::engines;
use crate::faces::print;
use crate::simulated::Scenario;

/// Work of each simulated thread in the whole run, in ns. If the user gives no number of phases, this number is
/// `WORK_NS ÷ work per phase`, but at least [`LEAST_PHASES`].
const WORK_NS: u64 = 3_000_000_000;
const LEAST_PHASES: u64 = 20;

/// Simulates, prints the result, and returns the exit code.
pub fn simulate(options: &cli::Simulate) -> Result<u8> {
    let json = Output::wanted(options.json.as_deref())?;
    let simulation = simulation(options, &scenario(options));
    let text = (!matches!(json, Some(Output::Stdout))).then_some(Output::Stdout);
    print(text, false, |style| simulation.text(style))?;
    if let Some(json) = json {
        json.write(&serde_json::to_vec_pretty(&simulation)?)?;
    }
    Ok(0)
}

fn scenario(options: &cli::Simulate) -> Scenario {
    let fast = options.ncpus.or(options.fast).unwrap_or(0);
    let mut capacities = vec![FULL_CAPACITY; fast];
    capacities.resize(fast + options.slow.unwrap_or(0), options.slow_capacity);
    let work_ns = options.work_us * 1_000;
    let wait = match options.wait {
        Waiting::Spin => Wait::Spin,
        Waiting::Yield => Wait::Yield,
        Waiting::Futex => Wait::Block,
        Waiting::SpinFutex => Wait::SpinThenBlock(options.spin_us * 1_000),
        Waiting::None => Wait::Never,
    };
    let known = Costs::default();
    Scenario {
        program: Program {
            threads: options.threads,
            rounds: options.phases.unwrap_or((WORK_NS / work_ns).max(LEAST_PHASES)),
            work_ns,
            jitter: f64::from(options.spread) / 100.0,
            wait,
        },
        capacities,
        costs: Costs {
            switch_ns: options.switch_us.unwrap_or(known.switch_ns),
            tick_ns: options.tick_us.unwrap_or(known.tick_ns),
            order_ns: options.order_us.unwrap_or(known.order_ns),
            move_ns: options.move_us.unwrap_or(known.move_ns),
            wake_ns: options.wake_us.unwrap_or(known.wake_ns),
        },
        settings: engines::settings(options.period, options.always),
        seed: options.seed,
    }
}

fn simulation(options: &cli::Simulate, scenario: &Scenario) -> Simulation {
    let program = &scenario.program;
    let ideal_ns = scenario.ideal_ns();
    let way = |how, period_ns, threads: usize, outcome: &Outcome| Way {
        how,
        threads: threads as u64,
        period_ns,
        elapsed_ns: outcome.elapsed_ns,
        slowdown: outcome.elapsed_ns as f64 / ideal_ns,
        moves: outcome.totals.seen.moves,
        moves_per_s: outcome.totals.seen.moves as f64 / (outcome.elapsed_ns.max(1) as f64 / 1e9),
        switches: outcome.switches,
        own_ns: outcome.own_ns,
    };
    let packed = scenario.packed();
    let fixed = scenario.best_fixed();
    let fewer = scenario.fewer_threads();
    let ways = [
        Some(way(How::Taskset, None, program.threads, &scenario.taskset())),
        fixed.map(|(period_ns, outcome)| way(How::BestFixed, Some(period_ns), program.threads, &outcome)),
        Some(way(
            How::Packed,
            Some(packed.totals.period_ns).filter(|period_ns| *period_ns > 0),
            program.threads,
            &packed,
        )),
        fewer.map(|(threads, outcome)| way(How::FewerThreads, None, threads, &outcome)),
    ];
    Simulation {
        schema_version: SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        provenance: Some(provenance::here("cox", None)),
        simulated: true,
        threads: program.threads as u64,
        capacities: scenario.capacities.clone(),
        phases: program.rounds,
        work_ns: program.work_ns,
        spread: program.jitter,
        wait: cli::name_of(&options.wait),
        spin_ns: (options.wait == Waiting::SpinFutex).then_some(options.spin_us * 1_000),
        seed: options.seed,
        ideal_ns: ideal_ns as u64,
        static_slowdown: scenario.static_slowdown(),
        ways: ways.into_iter().flatten().collect(),
    }
}
