//! What can be set from outside: OpenMP's variables when the program is an OpenMP one.

use crate::expected::Expected;
use crate::facts::Facts;
use crate::numbers::{counted, cpu_list};
use crate::picture::Picture;
use crate::thresholds::{IMBALANCE_FACTOR, WORTH_FACTOR};
use crate::verdict::{Kind, NextStep};

/// One thread per CPU, measured: between this part of the bound and the bound itself. The rest is
/// barriers and the inequality of threads.
const ONE_PER_CPU: f64 = 0.85;

/// Sleeping instead of spinning leaves the turns to the kernel: from two thirds of the bound, when
/// rounds do not divide by the CPUs, up to nearly all of it.
const PASSIVE: (f64, f64) = (0.67, 0.95);

/// Whether the program uses OpenMP: its runtime was seen spinning or mapped. Variables in the environment are no
/// sign: shells and batch systems set them for every program.
pub(crate) fn is_openmp(picture: &Picture) -> bool {
    let seen = picture.account.hot_functions.iter().any(|hot| hot.waiting.as_deref() == Some("OpenMP runtime"));
    seen || picture.facts.openmp_runtime.is_some()
}

/// Run as many threads as `cpus`; nothing when that could not be seen to help.
pub(crate) fn threads(picture: &Picture, cpus: f64, kind: Kind) -> Option<NextStep> {
    // Unequal work stays unequal among fewer threads; a little of it is in the low end already.
    let inequality = picture.inequality();
    let low = if inequality >= IMBALANCE_FACTOR { ONE_PER_CPU / inequality } else { ONE_PER_CPU };
    let bound = picture.work_bound_on(cpus);
    // When it may lose about as much as it may win, the work must become more equal first. What others took is not
    // won by it: a small load must not make it the first step.
    let here = bound.min(picture.work_bound_on(picture.cpus_left()));
    if inequality >= IMBALANCE_FACTOR && here * low * here < WORTH_FACTOR {
        return None;
    }
    step(picture, fewer(picture, cpus), Expected::part_of(bound, low, 1.0), kind)
}

/// How to say it to the program.
pub(crate) fn fewer(picture: &Picture, cpus: f64) -> String {
    let whole = (cpus.floor() as u64).max(1);
    if is_openmp(picture) {
        format!("OMP_NUM_THREADS={whole}")
    } else {
        format!("run it with {}", counted(whole, "thread"))
    }
}

/// A step that would help on CPUs of one's own, with what it can give beside other programs.
fn step(picture: &Picture, action: impl Into<String>, alone: Expected, kind: Kind) -> Option<NextStep> {
    alone
        .is_worth_trying()
        .then(|| NextStep::expecting(action, &picture.beside_others(alone), kind).without("any waiting", picture.cpus))
}

/// Have cox find out what giving each thread its turn would win: a program that can be started again is
/// measured with it, one that runs is packed for as long as it wins. No number is promised: what is won
/// depends on how long phases are, and the account does not show that.
pub(crate) fn turns(picture: &Picture, kind: Kind) -> Option<NextStep> {
    let Facts { command, .. } = picture.facts;
    let cpus = cpu_list(picture.facts.program_cpus());
    let (program, rest) = command.split_first().filter(|_| !cpus.is_empty())?;
    let (verb, what) = match program.as_str() {
        "--pid" => ("pack", command.join(" ")),
        attached if attached.starts_with("--") => return None,
        started => ("advise", format!("-- {started}{}", if rest.is_empty() { "" } else { " …" })),
    };
    (picture.facts.has_verb(verb) && !picture.facts.is_packed())
        .then(|| NextStep::plain(format!("cox {verb} --cpus {cpus} {what}"), kind))
}

/// Let waiting threads sleep.
pub(crate) fn passive(picture: &Picture, kind: Kind) -> Option<NextStep> {
    let useful = is_openmp(picture) && !picture.facts.waits_passively();
    let expected = Expected::part_of(picture.work_bound(), PASSIVE.0, PASSIVE.1);
    useful.then(|| step(picture, "OMP_WAIT_POLICY=passive", expected, kind)).flatten()
}

/// Let waiting threads spin, so that they need not be woken.
pub(crate) fn active(picture: &Picture, expected: &Expected, kind: Kind) -> NextStep {
    let action = if is_openmp(picture) { "OMP_WAIT_POLICY=active" } else { "spin briefly before sleeping" };
    NextStep::expecting(action, &picture.beside_others(*expected), kind).without("any delay of wake-ups", picture.cpus)
}
