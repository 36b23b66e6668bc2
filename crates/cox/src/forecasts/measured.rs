//! Converts the results of a trial for the forecast.

use advise::Facts;
use advise::forecast::measured::{self, Trial};
use advise::forecast::{Basis, Refusal};
use pack::engine::Tested;
use pack::policy::mode::{FIRST_LOOK_NS, WORTH};
use pack::trial::{Seen, WINDOW_NS};
use report::advice::{Advice, Run};
use session::Ended;

/// Returns the advice from the trial of a program that has ended.
///
/// # Errors
/// The reason why no forecast is possible.
pub fn advice(tested: &Tested, ended: &Ended, command: Vec<String>, facts: &Facts) -> Result<Advice, Refusal> {
    let seen = tested.summary.trial.clone().unwrap_or_default();
    let cpus = tested.cpus.len();
    // `others` = the time that programs other than this one and cox ran on the CPUs ÷ `there_ns`, the whole time of the
    // CPUs.
    let there_ns = (tested.summary.wall_ns * cpus as u64).max(1);
    let others = tested.summary.others_ns.map(|others_ns| others_ns as f64 / there_ns as f64);
    let trial = Trial { others: others.unwrap_or(0.0), ..trial(&seen, cpus, tested.openmp, facts) };
    Ok(Advice {
        command,
        exit_code: ended.exit.map(session::Exit::shell_code),
        cpu_list: Some(tested.cpus.to_string()),
        run: Run {
            basis: Basis::Measured,
            elapsed_ns: ended.end_ns - ended.start_ns,
            cpus: cpus as u64,
            windows: trial.windows.len() as u64,
            window_ns: WINDOW_NS,
            others,
        },
        not_forecast: super::not_forecast(tested.openmp),
        ..super::advice(measured::forecast(&trial)?)
    })
}

/// Converts `seen`, what a trial has measured, for the forecast. In a trial, the kernel and the packer place the
/// threads alternately. `slots` is the number of CPUs.
pub(super) fn trial(seen: &Seen, slots: usize, openmp: bool, facts: &Facts) -> Trial {
    let given = facts.variable("OMP_NUM_THREADS").is_some();
    Trial {
        cpus: slots as u64,
        threads: seen.threads,
        windows: seen.windows.clone(),
        worked: seen.worked.values().copied().collect(),
        accepts: openmp || given,
        worth: WORTH,
        first_look_ns: FIRST_LOOK_NS,
        others: 0.0,
    }
}
