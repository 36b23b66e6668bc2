//! Settings that need no change of the program: OpenMP's environment variables, if it is an OpenMP program.

use ledger::HotFunction;
use wire::Waiting;

use crate::evidence::{Evidence, share};
use crate::expected::Expected;
use crate::facts::Facts;
use crate::numbers::{counted, cpu_list};
use crate::pools;
use crate::thresholds::{IMBALANCE_FACTOR, WORTH_FACTOR};
use crate::verdict::{Kind, NextStep};

/// With one thread per CPU, measured programs reach a speed-up between this part of the upper bound and the bound itself. The rest is lost at
/// barriers and to load imbalance.
const ONE_PER_CPU: f64 = 0.85;

/// If going to sleep and waking up on idle CPUs take at least this part of the worker threads' time, threads sleep more often than is good for the program.
const COSTLY_SLEEP: f64 = 0.10;

/// With OMP_WAIT_POLICY=passive, programs reach a speed-up between these two fractions of the upper bound; they do not reach the bound, because the
/// kernel then decides which thread runs. The lower fraction is for a number of threads that is not a multiple of the number of CPUs.
const PASSIVE: (f64, f64) = (0.67, 0.95);

/// Least part of the spinning that must be in the OpenMP runtime, so that another waiting policy can help: half.
const RUNTIME_SPINS: f64 = 0.5;

/// Returns whether the program uses OpenMP: its runtime was seen spinning, or it was mapped and the program consists of threads and not of ranks. (A
/// rank may have the runtime mapped because of a library.) Environment variables prove nothing, because shells and batch systems set them for every
/// program.
pub(crate) fn is_openmp(evidence: &Evidence) -> bool {
    let seen = evidence.account.hot_functions.iter().any(|hot| hot.waiting.as_deref() == Some(Waiting::OpenMp.name()));
    seen || (evidence.facts.openmp_runtime.is_some() && evidence.ranks_of_one_thread().is_none())
}

/// Returns whether the worker threads are a team of OpenMP, as far as the samples show.
pub(crate) fn is_team(evidence: &Evidence) -> bool {
    is_openmp(evidence) && !may_be_other_threads(evidence)
}

/// Returns whether samples hit neither the OpenMP runtime nor functions that a compiler has made from parallel regions, although several threads work. The
/// runtime may then be mapped only because of a library, as for ffmpeg, whose threads are x264's.
fn may_be_other_threads(evidence: &Evidence) -> bool {
    let hot = &evidence.account.hot_functions;
    evidence.workers.len() > 1 && !hot.is_empty() && !hot.iter().any(is_of_openmp)
}

/// Returns whether a function belongs to an OpenMP runtime, or is a parallel region that a compiler has made a function: `f._omp_fn.0` (GCC),
/// `.omp_outlined.` (clang).
fn is_of_openmp(hot: &HotFunction) -> bool {
    let runtime = ["libgomp.", "libgomp-", "libomp.", "libomp5", "libomp-", "libiomp5"]
        .iter()
        .any(|name| hot.module.starts_with(name));
    let region = |name: &str| name.contains("._omp_fn.") || name.contains("omp_outlined") || name.starts_with("GOMP_");
    runtime || hot.function.as_deref().is_some_and(region)
}

/// Returns the part of the spinning that was in the OpenMP runtime's own code, from 0 to 1. Samples in sched_yield do not tell who called it, so they are
/// divided like the others. If it is not known where threads spun, the result is 1.
fn spun_in_runtime(evidence: &Evidence) -> f64 {
    let spun = |is: &dyn Fn(&str) -> bool| {
        let hot = evidence.account.hot_functions.iter().filter(|hot| hot.is_spinning());
        hot.filter(|hot| hot.waiting.as_deref().is_some_and(is)).map(|hot| hot.run_ns as f64).sum::<f64>()
    };
    let all = spun(&|why| why != Waiting::Yield.name());
    if all > 0.0 { share(spun(&|why| why == Waiting::OpenMp.name()), all) } else { 1.0 }
}

/// Whose OpenMP runtime a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    /// GCC's.
    Gcc,
    /// LLVM's, or Intel's, which has the same code.
    Llvm,
}

/// Returns whose OpenMP runtime the threads waited in. If they were not sampled there, returns whose the mapped one is. Both runtimes can be mapped,
/// because a library may use the other one. `None` if it is not known.
fn runtime(evidence: &Evidence) -> Option<Runtime> {
    let whose = |module: &str, function: &str| {
        if module.starts_with("libomp") || module.starts_with("libiomp") || function.contains("kmp") {
            Some(Runtime::Llvm)
        } else if module.starts_with("libgomp") || function.starts_with("gomp_") {
            Some(Runtime::Gcc)
        } else {
            None
        }
    };
    let hot =
        evidence.account.hot_functions.iter().filter(|hot| hot.waiting.as_deref() == Some(Waiting::OpenMp.name()));
    let mut sampled = hot.filter_map(|hot| whose(&hot.module, hot.function.as_deref().unwrap_or_default()));
    match sampled.next() {
        Some(first) => sampled.all(|other| other == first).then_some(first),
        None => whose(evidence.facts.openmp_runtime.as_deref().unwrap_or_default(), ""),
    }
}

/// Returns the next step "run with as many threads as `cpus`" for a verdict of kind `kind`; `None` if the forecast shows no gain.
pub(crate) fn threads(evidence: &Evidence, cpus: f64, kind: Kind) -> Option<NextStep> {
    let bound = evidence.bound_with_serial_parts(cpus);
    if unequal_work_comes_first(evidence, cpus) {
        return None;
    }
    let step = step(
        evidence,
        workers(evidence, cpus),
        Expected::part_of(bound, reached(evidence.sure_inequality()), 1.0),
        kind,
    )?;
    // As many threads as CPUs still sleep at each meeting if the environment tells them to. How much of the waiting that leaves is not known.
    let sleeps_on = evidence.facts.waits_passively() && sleeps_at_a_cost(evidence);
    Some(if sleeps_on { NextStep::plain(step.action, kind) } else { step })
}

/// Returns the part of the work bound that a thread for each CPU reaches. If the work is unequal, it stays unequal among fewer threads, so less of the
/// bound is reached. `ONE_PER_CPU` already allows for a little inequality.
fn reached(inequality: f64) -> f64 {
    if inequality >= IMBALANCE_FACTOR { ONE_PER_CPU / inequality } else { ONE_PER_CPU }
}

/// Returns whether the work is so unequal that as many threads as `cpus` can lose about as much time as they gain. The work must then be balanced
/// first. The gain is computed for the CPUs that other programs leave. Otherwise, even a small load of other programs would make fewer threads the first step.
pub(crate) fn unequal_work_comes_first(evidence: &Evidence, cpus: f64) -> bool {
    let inequality = evidence.parallel_inequality();
    let here = evidence.bound_with_serial_parts(cpus.min(evidence.cpus_left()));
    inequality >= IMBALANCE_FACTOR && here * reached(inequality) * here < WORTH_FACTOR
}

/// Returns whether going to sleep and waking up take much of the worker threads' time. A wake delay behind another thread does not count: a spinning thread
/// would have this wait for a CPU, too.
fn sleeps_at_a_cost(evidence: &Evidence) -> bool {
    let workers = &evidence.worker_sums;
    let from_idle_ns = evidence.behind.idle_ns.min(workers.wake_delay_ns);
    evidence.worker_share(workers.kernel_sync_ns.saturating_add(from_idle_ns) as f64) >= COSTLY_SLEEP
}

/// Returns whether threads sleep at a high cost because they are more than the CPUs: GCC's runtime then spins for 100 tests before it sleeps, and for
/// 300,000 otherwise (GOMP_SPINCOUNT in its manual).
pub(crate) fn sleeps_if_oversubscribed(evidence: &Evidence) -> bool {
    let is_gccs = is_team(evidence) && runtime(evidence) == Some(Runtime::Gcc);
    is_gccs
        && !evidence.facts.waits_passively()
        && evidence.workers_of_one_process() as f64 > evidence.cpus
        && sleeps_at_a_cost(evidence)
}

/// Returns the wording of the step: how to set the number of threads.
pub(crate) fn workers(evidence: &Evidence, cpus: f64) -> String {
    let whole = (cpus.floor() as u64).max(1);
    let single = evidence.ranks.as_ref().filter(|ranks| ranks.pids.len() == 1 && evidence.workers.len() == 1);
    if let Some(ranks) = evidence.ranks_of_one_thread().or(single) {
        // A job on several machines has other ranks elsewhere.
        let option = ranks.launcher.as_ref().map_or(String::new(), |launcher| format!(" ({launcher} -n {whole})"));
        format!("run it with {} on this machine{option}", counted(whole, "rank"))
    } else if is_openmp(evidence) {
        if may_be_other_threads(evidence) {
            format!("run it with {} (OMP_NUM_THREADS={whole}, if they are OpenMP's)", counted(whole, "thread"))
        } else {
            format!("OMP_NUM_THREADS={whole}")
        }
    } else if let Some(variable) = pools::variable(evidence) {
        format!("{variable}={whole}")
    } else {
        format!("run it with {}", counted(whole, "thread"))
    }
}

/// Returns a step with its forecast. `alone` is the forecast for CPUs without other programs, a part of the work bound. The step shows what remains of
/// it at the present load, and its range is wider by the error of the work.
fn step(evidence: &Evidence, action: impl Into<String>, alone: Expected, kind: Kind) -> Option<NextStep> {
    let expected = evidence.beside_others(alone).uncertain(evidence.work_error());
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

/// Returns the step to let waiting threads sleep; `None` if the spinning is not in the runtime's code, so that the runtime's policy does not change it, or
/// if a process has more threads than CPUs. The runtime then spins only for 100 or 1,000 tests before the thread sleeps (GOMP_SPINCOUNT in its manual), and
/// what sleeping at once changes varies: LULESH with three threads on two CPUs took 1.11 times as long without the step as with it in one comparison, and
/// 0.90 times as long in the next one.
///
/// The step is for GCC's runtime only. LLVM's runtime, and Intel's, let threads sleep at once under this policy, and waking them can take longer than
/// the phase for which they sleep: LULESH with three threads on two CPUs took five times as long. The account does not show how often spinning threads
/// wait, so cox cannot know in advance which programs this affects.
pub(crate) fn passive(evidence: &Evidence, kind: Kind) -> Option<NextStep> {
    let useful = is_openmp(evidence) && runtime(evidence) == Some(Runtime::Gcc) && !evidence.facts.waits_passively();
    let spins_briefly = evidence.workers_of_one_process() as f64 > evidence.cpus;
    let in_runtime = spun_in_runtime(evidence);
    if !useful || spins_briefly || in_runtime < RUNTIME_SPINS {
        return None;
    }
    // Other spinning goes on.
    let rest_ns = evidence.sums.spin_ns as f64 * (1.0 - in_runtime) / evidence.parallelism(evidence.cpus);
    let bound = evidence.wall_ns / (evidence.wall_ns / evidence.bound_with_serial_parts(evidence.cpus) + rest_ns);
    step(evidence, "OMP_WAIT_POLICY=passive", Expected::part_of(bound, PASSIVE.0, PASSIVE.1), kind)
}

/// Returns the step to let threads spin before they sleep, if the environment forbids it, and going to sleep and waking up take much of the run. It is
/// for LLVM's runtime only, which then yields while it spins. GCC's spins without yielding; with more threads than CPUs, that costs more than the sleep.
pub(crate) fn spin_again(evidence: &Evidence, kind: Kind) -> Option<NextStep> {
    let set = evidence.facts.passive_variables();
    let is_llvms = is_openmp(evidence) && runtime(evidence) == Some(Runtime::Llvm);
    (is_llvms && !set.is_empty() && sleeps_at_a_cost(evidence))
        .then(|| NextStep::plain(format!("unset {}, so that threads spin before they sleep", set.join(" and ")), kind))
}

/// Returns the step to let waiting threads spin, so that they need not be woken.
pub(crate) fn active(evidence: &Evidence, expected: Expected, kind: Kind) -> NextStep {
    let action = if is_openmp(evidence) { "OMP_WAIT_POLICY=active" } else { "spin briefly before sleeping" };
    NextStep::expecting(evidence, action, evidence.beside_others(expected), kind, "any wake delay")
}
