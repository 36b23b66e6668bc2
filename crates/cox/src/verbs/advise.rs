//! `cox advise`: which way a program should be run on fewer CPUs than it has threads.
//!
//! Forecasts are made in [`advise::forecast`]; here its evidence is gathered. A command is run once, with the
//! packer on trial; an account of `cox run` is given to the simulator.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use advise::Facts;
use advise::forecast::measured::{Placing, Trial, Window};
use advise::forecast::modelled::{self, Simulated, Sketch, Waits};
use advise::forecast::{Accepts, Basis, Forecast, Refusal, measured};
use advise::picture::Picture;
use anyhow::{Context, Result};
use ledger::Provenance;
use machine::limits::Who;
use machine::steal::CpuTimes;
use machine::{CpuSet, Root};
use outputs::diagnostics::{chain, say};
use outputs::{Output, refuse_same};
use pack::live::{Began, Plan, Summary};
use pack::policy::conductor::Settings;
use pack::policy::regime::{FIRST_LOOK_NS, WORTH};
use pack::policy::seating::FULL_CAPACITY;
use pack::sim::{Costs, Program, Wait};
use pack::trial::{Seen, Tried, Way};
use report::Document;
use report::advice::{Advice, Run, SCHEMA_VERSION};
use watch::Sight;

use crate::choice::Choice;
use crate::cli;
use crate::provenance;
use crate::session::packing::others_ns;
use crate::session::trying::Trying;
use crate::session::{self, Launch, Limits, Target};
use crate::simulated::Scenario;
use crate::surroundings::Surroundings;

/// Exit code when a report leaves nothing to choose between.
const NOTHING_TO_CHOOSE: u8 = 1;

/// Advise on what `options` name, and return the exit code to end with.
pub fn advise(options: &cli::Advise) -> Result<u8> {
    let text = options.output.clone().filter(|_| !options.quiet);
    refuse_same([("--json", options.json.clone()), ("--output", text)])?;
    let json = Output::wanted(options.json.as_deref())?;
    let text = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };
    match &options.from {
        Some(path) => {
            let document = read(path)?;
            match modelled_advice(options, &document) {
                Ok(advice) => write(&advice, text, json).map(|()| 0),
                Err(refusal) => {
                    say(&refusal.to_string());
                    Ok(NOTHING_TO_CHOOSE)
                }
            }
        }
        None => run(options, text, json),
    }
}

fn write(advice: &Advice, text: Option<Output>, json: Option<Output>) -> Result<()> {
    // Each is written whatever becomes of the other.
    let text = text.map_or(Ok(()), |output| {
        let style = super::style(Some(&output), false);
        output.write(advice.text(&style).as_bytes())
    });
    let json = json.map_or(Ok(()), |output| output.write(&serde_json::to_vec_pretty(advice)?));
    text.and(json)
}

/// Runs the program once, with both ways in turn.
fn run(options: &cli::Advise, text: Option<Output>, json: Option<Output>) -> Result<u8> {
    let choice = Choice::of(Who::Own)?;
    let cpus = choice.choose(&options.cpus)?;
    let surroundings = Surroundings::read(None);
    let provenance = provenance::here(None);
    let plan = super::pack::plan(&choice, &cpus, Began::Here, !options.no_children);
    let mut trying = Trying::new(Plan { trial: true, sight: Sight::Traced, ..plan });
    let launch = Launch { command: options.program.clone(), ..Launch::default() };
    let before = CpuTimes::read(&Root::live()).ok();
    let outcome = session::run(&Target::Launch(vec![launch]), &mut trying, Limits::default())?;
    let exit_code = outcome.exit.map(session::Exit::shell_code);
    // From here on the program has run: whatever fails is said, and does not change its exit code.
    let advised = match (outcome.failed, trying.packing.summary.take()) {
        (Some(error), _) => Err(error.context("the trial failed, there is no advice")),
        (None, None) => Ok(()),
        (None, Some(summary)) => {
            for complaint in &summary.complaints {
                say(complaint);
            }
            let seen = summary.trial.clone().unwrap_or_default();
            let others = before.and_then(|before| others(&before, &cpus, &summary));
            let facts = surroundings.facts(&[], None, None, None);
            let trial = Trial { others: others.unwrap_or(0.0), ..trial(&seen, cpus.len(), trying.openmp, &facts) };
            match measured::forecast(&trial) {
                Ok(forecast) => {
                    let advice = Advice {
                        command: words(options),
                        exit_code,
                        cpu_list: Some(cpus.to_string()),
                        run: Run {
                            basis: Basis::Measured,
                            elapsed_ns: outcome.end_ns - outcome.start_ns,
                            cpus: cpus.len() as u64,
                            windows: trial.windows.len() as u64,
                            window_ns: pack::trial::WINDOW_NS,
                            others,
                        },
                        provenance: Some(Provenance { command: words(options), ..provenance }),
                        ..advice(forecast)
                    };
                    write(&advice, text, json)
                }
                Err(refusal) => Err(anyhow::anyhow!("{refusal}")),
            }
        }
    };
    if let Err(error) = advised {
        say(&chain(&error));
    }
    Ok(exit_code.map_or(0, |code| code as u8))
}

/// The part of the CPUs' time that neither the program nor cox had, and nobody left idle.
fn others(before: &CpuTimes, cpus: &CpuSet, summary: &Summary) -> Option<f64> {
    let there_ns = (summary.wall_ns * cpus.len() as u64).max(1);
    Some(others_ns(before, cpus, summary)? as f64 / there_ns as f64)
}

fn words(options: &cli::Advise) -> Vec<String> {
    options.program.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A forecast as advice; about its run the caller knows more.
fn advice(forecast: Forecast) -> Advice {
    Advice {
        schema_version: SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: Vec::new(),
        exit_code: None,
        cpu_list: None,
        run: Run { basis: Basis::Modelled, elapsed_ns: 0, cpus: 0, windows: 0, window_ns: 0, others: None },
        provenance: None,
        forecast,
    }
}

/// What the trial showed, for the rules.
fn trial(seen: &Seen, seats: usize, openmp: bool, facts: &Facts) -> Trial {
    let window = |tried: &Tried| Window {
        placing: match tried.way {
            Way::Settling => Placing::Settling,
            Way::Placed => Placing::Kernel,
            Way::Packed => Placing::Packer,
        },
        length_ns: tried.length_ns,
        run_ns: tried.run_ns,
        samples: tried.samples,
        waiting: tried.waiting,
        in_runtime: tried.in_runtime,
        crowded: tried.active > seats,
    };
    let given = facts.variable("OMP_NUM_THREADS").is_some();
    Trial {
        cpus: seats as u64,
        threads: seen.windows.iter().map(|tried| tried.active as u64).max().unwrap_or(0),
        windows: seen.windows.iter().map(window).collect(),
        worked: seen.worked.values().copied().collect(),
        openmp,
        passive_already: facts.waits_passively(),
        accepts: if openmp || given { Accepts::Yes } else { Accepts::Unknown },
        worth: WORTH,
        first_look_ns: FIRST_LOOK_NS,
        others: 0.0,
    }
}

/// A document of `cox run`.
fn read(path: &Path) -> Result<Document> {
    let name = path.display();
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).context("cannot read the report from stdin")?;
    } else {
        text = fs::read_to_string(path).with_context(|| format!("cannot read '{name}'"))?;
    }
    Document::read(&text).with_context(|| format!("cannot read '{name}'"))
}

fn modelled_advice(options: &cli::Advise, document: &Document) -> Result<Advice, Refusal> {
    let picture = Picture::new(&document.account, &document.facts);
    let count = options.cpus.cpus.as_ref().map_or(options.cpus.ncpus, |cpus| Some(cpus.len())).unwrap_or(1);
    let sketch = Sketch::of(&picture, count as u64)?;
    let simulated: Vec<Simulated> = sketch.phases_ns.iter().map(|phase_ns| simulate(&sketch, *phase_ns)).collect();
    let program = document.account.programs.first();
    Ok(Advice {
        command: document.facts.command.clone(),
        exit_code: program.and_then(|program| program.exit_code),
        cpu_list: options.cpus.cpus.as_ref().map(CpuSet::to_string),
        run: Run {
            basis: Basis::Modelled,
            elapsed_ns: sketch.elapsed_ns,
            cpus: sketch.had_cpus,
            windows: 0,
            window_ns: 0,
            others: None,
        },
        provenance: document.account.provenance.clone(),
        ..advice(modelled::forecast(&sketch, &simulated))
    })
}

/// Work of a simulated thread, ns: enough windows for the packer to find its turns.
const SIMULATED_NS: u64 = 3_000_000_000;
/// … in at most so many meetings of all threads together: a simulation should take a second or two.
const MOST_MEETINGS: u64 = 60_000;
/// How long a runtime that spins before it sleeps is taken to spin.
const SPINS_NS: u64 = 350_000;

/// What the simulator says of phases of this length.
fn simulate(sketch: &Sketch, phase_ns: u64) -> Simulated {
    // Threads that never meet do not tell one second from another.
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
        passive: times(scenario(Wait::Block, sketch.cpus).taskset().elapsed_ns),
        as_it_ran: had.taskset().elapsed_ns as f64 / had.ideal_ns(),
    }
}

#[cfg(test)]
mod tests {
    use advise::forecast::{self, Choice};

    use super::*;

    fn scenario(threads: usize, cpus: usize, wait: Wait, work_us: u64) -> Scenario {
        Scenario {
            program: Program { threads, rounds: 4_000_000 / work_us, work_ns: work_us * 1_000, jitter: 0.1, wait },
            capacities: vec![FULL_CAPACITY; cpus],
            costs: Costs::default(),
            settings: Settings::default(),
            seed: 5,
        }
    }

    /// What the simulator takes for each way.
    fn truth(scenario: &Scenario) -> [(forecast::Way, u64); 3] {
        [
            (forecast::Way::FewerThreads, scenario.fewer_threads().unwrap().1.elapsed_ns),
            (forecast::Way::Taskset, scenario.taskset().elapsed_ns),
            (forecast::Way::Packing, scenario.packed().elapsed_ns),
        ]
    }

    /// All times within 15 %, and no two that differ by more than 5 % in the wrong order. Of what takes more than
    /// ten times the bound next to no work is seen: 25 %.
    fn assert_foretold(name: &str, scenario: &Scenario, forecast: &Forecast) {
        let truth = truth(scenario);
        let choice = |way| -> &Choice { forecast.choices.iter().find(|choice| choice.way == way).unwrap() };
        for (way, elapsed_ns) in truth {
            let off = choice(way).time_ns as f64 / elapsed_ns as f64 - 1.0;
            let near = if elapsed_ns > 10 * forecast.bound_ns { 0.25 } else { 0.15 };
            assert!(off.abs() <= near, "{name}: {way:?} off by {off:.3}: {forecast:?}");
        }
        for (fast, fast_ns) in truth {
            for (slow, slow_ns) in truth {
                if (fast_ns as f64) < slow_ns as f64 * 0.95 {
                    assert!(choice(fast).time_ns <= choice(slow).time_ns, "{name}: {fast:?} before {slow:?}");
                }
            }
        }
    }

    #[test]
    fn windows_of_a_simulated_run_foretell_simulated_runs() {
        for (threads, cpus) in [(3, 2), (5, 2), (4, 3), (8, 7)] {
            for (wait, work_us) in [
                (Wait::Spin, 300),
                (Wait::Spin, 1_000),
                (Wait::Spin, 10_000),
                (Wait::Yield, 1_000),
                (Wait::Block, 1_000),
                (Wait::Block, 10_000),
                (Wait::SpinThenBlock(350_000), 3_000),
            ] {
                let scenario = scenario(threads, cpus, wait, work_us);
                let seen = scenario.trial().trial.unwrap();
                let forecast = measured::forecast(&trial(&seen, cpus, false, &Facts::default())).unwrap();
                assert_foretold(&format!("{threads}/{cpus} {wait:?} {work_us} us"), &scenario, &forecast);
            }
        }
    }

    #[test]
    fn the_account_of_a_simulated_run_foretells_simulated_runs() {
        for (wait, waits, work_us) in [
            (Wait::Spin, Waits::Loops, 300),
            (Wait::Spin, Waits::Loops, 2_000),
            (Wait::Spin, Waits::Loops, 12_000),
            (Wait::Block, Waits::Asleep, 1_000),
            (Wait::Block, Waits::Asleep, 10_000),
        ] {
            let scenario = scenario(3, 2, wait, work_us);
            let (work_ns, rounds) = (scenario.program.work_ns, scenario.program.rounds);
            let known = match waits {
                Waits::Loops => modelled::POSSIBLE_NS.to_vec(),
                _ => vec![work_ns],
            };
            let sketch = Sketch {
                threads: 3,
                had_cpus: 2,
                cpus: 2,
                elapsed_ns: scenario.taskset().elapsed_ns,
                work_ns: work_ns * rounds * 3,
                inequality: 1.0,
                waits,
                phases_ns: known,
                openmp: false,
                passive_already: false,
                accepts: Accepts::Unknown,
            };
            let simulated: Vec<Simulated> = sketch.phases_ns.iter().map(|phase| simulate(&sketch, *phase)).collect();
            let forecast = modelled::forecast(&sketch, &simulated);
            assert_foretold(&format!("{wait:?} {work_us} us"), &scenario, &forecast);
        }
    }
}
