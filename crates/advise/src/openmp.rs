//! Settings that need no change of the program: OpenMP's environment variables, if it is an OpenMP program.

use crate::evidence::Evidence;
use crate::expected::Expected;
use crate::facts::Facts;
use crate::numbers::{counted, cpu_list};
use crate::thresholds::{IMBALANCE_FACTOR, WORTH_FACTOR};
use crate::verdict::{Kind, NextStep};

/// With one thread per CPU, measured programs reach a speed-up between this part of the upper bound and the bound itself. The rest is lost at
/// barriers and to load imbalance.
const ONE_PER_CPU: f64 = 0.85;

/// With OMP_WAIT_POLICY=passive, programs reach a speed-up between these two fractions of the upper bound; they do not reach the bound, because the
/// kernel then decides which thread runs. The lower fraction is for a number of threads that is not a multiple of the number of CPUs.
const PASSIVE: (f64, f64) = (0.67, 0.95);

/// Returns whether the program uses OpenMP: its runtime was mapped or was seen spinning. Environment variables prove nothing, because shells and
/// batch systems set them for every program.
pub(crate) fn is_openmp(evidence: &Evidence) -> bool {
    let seen = evidence.account.hot_functions.iter().any(|hot| hot.waiting.as_deref() == Some("OpenMP runtime"));
    seen || evidence.facts.openmp_runtime.is_some()
}

/// Returns the next step "run with as many threads as `cpus`" for a verdict of kind `kind`; `None` if the forecast shows no gain.
pub(crate) fn threads(evidence: &Evidence, cpus: f64, kind: Kind) -> Option<NextStep> {
    // If the work is unequal, it stays unequal among fewer threads, so less of the bound is reached. `ONE_PER_CPU` already allows for a little
    // inequality.
    let inequality = evidence.inequality();
    let low = if inequality >= IMBALANCE_FACTOR { ONE_PER_CPU / inequality } else { ONE_PER_CPU };
    let bound = evidence.work_bound_on(cpus);
    // With unequal work, fewer threads can lose about as much time as they gain. Then this step is not proposed, because the work must be balanced
    // first. The gain is computed for the CPUs that other programs leave. Otherwise, even a small load of other programs would make this step come
    // first.
    let here = bound.min(evidence.work_bound_on(evidence.cpus_left()));
    if inequality >= IMBALANCE_FACTOR && here * low * here < WORTH_FACTOR {
        return None;
    }
    step(evidence, fewer(evidence, cpus), Expected::part_of(bound, low, 1.0), kind)
}

/// Returns the wording of the step: how to set the number of threads.
pub(crate) fn fewer(evidence: &Evidence, cpus: f64) -> String {
    let whole = (cpus.floor() as u64).max(1);
    if is_openmp(evidence) {
        format!("OMP_NUM_THREADS={whole}")
    } else {
        format!("run it with {}", counted(whole, "thread"))
    }
}

/// Returns a step with its forecast. `alone` is the forecast for CPUs without other programs; the step shows what remains of it at the present load.
fn step(evidence: &Evidence, action: impl Into<String>, alone: Expected, kind: Kind) -> Option<NextStep> {
    let expected = evidence.beside_others(alone);
    alone.is_worth_trying().then(|| NextStep::expecting(evidence, action, expected, kind, "any waiting"))
}

/// Returns the step to try packing with cox, in which threads take turns on the CPUs.
///
/// A program that can be started again is measured by `cox advise`; a running one is packed for as long as packing gains time. The step has no
/// forecast: the gain depends on the length of phases, which the account does not show.
pub(crate) fn turns(evidence: &Evidence, kind: Kind) -> Option<NextStep> {
    let Facts { command, .. } = evidence.facts;
    let cpus = cpu_list(evidence.facts.program_cpus());
    let (program, rest) = command.split_first().filter(|_| !cpus.is_empty())?;
    let (verb, what) = match program.as_str() {
        "--pid" => ("pack", command.join(" ")),
        attached if attached.starts_with("--") => return None,
        started => ("advise", format!("-- {started}{}", if rest.is_empty() { "" } else { " …" })),
    };
    (evidence.facts.has_verb(verb) && !evidence.facts.is_packed())
        .then(|| NextStep::plain(format!("cox {verb} --cpus {cpus} {what}"), kind))
}

/// Returns the step to let waiting threads sleep.
pub(crate) fn passive(evidence: &Evidence, kind: Kind) -> Option<NextStep> {
    let useful = is_openmp(evidence) && !evidence.facts.waits_passively();
    let expected = Expected::part_of(evidence.work_bound(), PASSIVE.0, PASSIVE.1);
    useful.then(|| step(evidence, "OMP_WAIT_POLICY=passive", expected, kind)).flatten()
}

/// Returns the step to let waiting threads spin, so that they need not be woken.
pub(crate) fn active(evidence: &Evidence, expected: Expected, kind: Kind) -> NextStep {
    let action = if is_openmp(evidence) { "OMP_WAIT_POLICY=active" } else { "spin briefly before sleeping" };
    NextStep::expecting(evidence, action, evidence.beside_others(expected), kind, "any wake delay")
}
