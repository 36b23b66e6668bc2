//! Input of the forecasts: the results of a trial, of simulations based on an account, or of runs in each way.

pub mod measured;
pub mod modelled;
pub mod tried;

use advise::forecast::{Basis, Forecast};
use report::advice::{Advice, Run, SCHEMA_VERSION};

/// Returns what is not forecast, as sentences. `openmp`: the program has loaded an OpenMP runtime.
fn not_forecast(openmp: bool) -> Vec<String> {
    let policy = "OMP_WAIT_POLICY is not forecast: its effect depends on how often threads wait. \
                  cox advise --runs 3 tries it, unless GOMP_SPINCOUNT or KMP_BLOCKTIME is set.";
    openmp.then(|| policy.to_owned()).into_iter().collect()
}

/// Returns the advice for a forecast; the caller fills in the details of the run.
fn advice(forecast: Forecast) -> Advice {
    Advice {
        schema_version: SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: Vec::new(),
        exit_code: None,
        cpu_list: None,
        run: Run { basis: Basis::Modelled, elapsed_ns: 0, cpus: 0, windows: 0, window_ns: 0, others: None },
        provenance: None,
        tried: None,
        not_forecast: Vec::new(),
        forecast,
    }
}

#[cfg(test)]
mod tests {
    use advise::Facts;
    use advise::forecast::modelled::{POSSIBLE_NS, Simulated, Sketch, Waits};
    use advise::forecast::{self, Choice};
    use pack::policy::assignment::FULL_CAPACITY;
    use pack::policy::controller::Settings;
    use pack::sim::{Costs, Program, Wait};

    use super::measured::trial;
    use super::modelled::simulate;
    use super::*;
    use crate::simulated::Scenario;

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
                let forecast = forecast::measured::forecast(&trial(&seen, cpus, false, &Facts::default())).unwrap();
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
                Waits::Loops => POSSIBLE_NS.to_vec(),
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
                accepts: false,
            };
            let simulated: Vec<Simulated> = sketch.phases_ns.iter().map(|phase| simulate(&sketch, *phase)).collect();
            let forecast = forecast::modelled::forecast(&sketch, &simulated);
            assert_foretold(&format!("{wait:?} {work_us} us"), &scenario, &forecast);
        }
    }
}
