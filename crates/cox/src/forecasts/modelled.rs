//! Simulates a program. Its threads, work and waits come from the account of an earlier run.

use advise::evidence::Evidence;
use advise::forecast::modelled::{self, Simulated, Sketch, Waits};
use advise::forecast::{Basis, Refusal};
use machine::CpuSet;
use pack::policy::assignment::FULL_CAPACITY;
use pack::policy::controller::Settings;
use pack::sim::{Costs, Program, Wait};
use report::Document;
use report::advice::{Advice, Run};

use crate::cli::Cpus;
use crate::simulated::Scenario;

/// Returns the advice from a report of `cox run` for these CPUs.
///
/// # Errors
/// The reason why no forecast is possible.
pub fn advice(wanted: &Cpus, document: &Document) -> Result<Advice, Refusal> {
    let evidence = Evidence::new(&document.account, &document.facts);
    let count = wanted.cpus.as_ref().map_or(wanted.ncpus, |cpus| Some(cpus.len())).unwrap_or(1);
    let sketch = Sketch::of(&evidence, count as u64)?;
    let simulated: Vec<Simulated> = sketch.phases_ns.iter().map(|phase_ns| simulate(&sketch, *phase_ns)).collect();
    let program = document.account.programs.first();
    Ok(Advice {
        command: document.facts.command.clone(),
        exit_code: program.and_then(|program| program.exit_code),
        cpu_list: wanted.cpus.as_ref().map(CpuSet::to_string),
        run: Run {
            basis: Basis::Modelled,
            elapsed_ns: sketch.elapsed_ns,
            cpus: sketch.had_cpus,
            windows: 0,
            window_ns: 0,
            others: None,
        },
        provenance: document.account.provenance.clone(),
        not_forecast: super::not_forecast(document.facts.openmp_runtime.is_some()),
        ..super::advice(modelled::forecast(&sketch, &simulated))
    })
}

/// Work of each simulated thread in a whole simulated run, in ns. It is long enough for the packer to find its
/// scheduling period.
const SIMULATED_NS: u64 = 3_000_000_000;
/// Limit of `barriers × threads` in one simulation, so that it takes a second or two.
const MOST_MEETINGS: u64 = 60_000;
/// Assumed time, in ns, for which a runtime spins before it sleeps.
const SPINS_NS: u64 = 350_000;

/// Simulates the program that `sketch` describes. Each thread has about `phase_ns` of work between two barriers.
pub(super) fn simulate(sketch: &Sketch, phase_ns: u64) -> Simulated {
    // If threads never meet at a barrier, every second of the run is like the others. So at most `SIMULATED_NS` of work
    // is simulated.
    let work_ns = if sketch.waits == Waits::Never { phase_ns.min(SIMULATED_NS) } else { phase_ns };
    let wait = match sketch.waits {
        Waits::Loops => Wait::Spin,
        Waits::Asleep => Wait::Block,
        Waits::Both => Wait::SpinThenBlock(SPINS_NS),
        Waits::Never => Wait::Never,
    };
    let rounds = if sketch.waits == Waits::Never {
        1
    } else {
        (SIMULATED_NS / phase_ns).clamp(20, (MOST_MEETINGS / sketch.threads).max(20))
    };
    let threads = sketch.threads as usize;
    let scenario = |wait, cpus: u64| Scenario {
        program: Program { threads, rounds, work_ns, jitter: (sketch.inequality - 1.0).min(0.5), wait },
        capacities: vec![FULL_CAPACITY; cpus as usize],
        costs: Costs::default(),
        settings: Settings::default(),
        seed: 1,
    };
    let on = scenario(wait, sketch.cpus);
    let ideal_ns = on.ideal_ns();
    let times = |elapsed_ns: u64| elapsed_ns as f64 / ideal_ns;
    let taskset = times(on.taskset().elapsed_ns);
    let had = scenario(wait, sketch.had_cpus);
    Simulated {
        taskset,
        packed: times(on.packed().elapsed_ns),
        fewer_threads: on.fewer_threads().map_or(1.0, |(_, outcome)| times(outcome.elapsed_ns)),
        as_it_ran: had.taskset().elapsed_ns as f64 / had.ideal_ns(),
    }
}
