//! Input of the advice that comes from trying the ways: what an observed run shows, and the document.

use advise::Facts;
use advise::evidence::Evidence;
use advise::forecast::tried::{self, Timed};
use advise::forecast::{Basis, Refusal};
use ledger::accounts::{self, ProgramInfo};
use machine::CpuSet;
use observe::Observed;
use report::advice::{Advice, Run};
use session::{Ended, Exit, Launch};

/// If one thread does at least this part of all work, it does all of it: others only prepare, or print.
const ALL: f64 = 0.98;

/// What an observed run has shown.
pub struct Shown {
    /// Number of worker threads.
    pub workers: u64,
    /// True if one thread did all the work.
    pub is_serial: bool,
    /// Name of the OpenMP runtime, if one is mapped.
    pub openmp_runtime: Option<String>,
}

/// Returns what the run of `launch` has shown. `facts` are those of its surroundings.
pub fn shown(observed: &Observed, ended: &Ended, launch: &Launch, facts: &Facts) -> Shown {
    let program = ProgramInfo {
        root_pid: None,
        command: launch.words(),
        exit_code: ended.exit.map(Exit::shell_code),
        start_ns: ended.start_ns,
        end_ns: Some(ended.end_ns),
    };
    let own_cpu_ns = ended.own_cpu_ns.saturating_add(observed.cpu_elsewhere_ns);
    let account = accounts::build(&observed.record, &[program], own_cpu_ns);
    let facts = Facts { pinned_cpus: launch.cpus.as_ref().map(|cpus| cpus.iter().collect()), ..facts.clone() };
    let evidence = Evidence::new(&account, &facts);
    let all_ns = evidence.worker_sums.work_ns() as f64;
    Shown {
        workers: evidence.workers.len() as u64,
        is_serial: evidence.workers.len() <= 1 || evidence.largest_work_ns() >= ALL * all_ns,
        openmp_runtime: observed.openmp_runtime.clone(),
    }
}

/// The first run of the program, and what all runs have in common.
pub struct First<'r> {
    /// The command.
    pub command: Vec<String>,
    /// How the first run ended.
    pub ended: &'r Ended,
    /// What it has shown.
    pub shown: &'r Shown,
    /// The CPUs.
    pub cpus: &'r CpuSet,
    /// Part of the CPUs' time that other programs used during all runs; `None` if it could not be measured.
    pub others: Option<f64>,
}

/// Returns the advice from the runs of all ways.
///
/// # Errors
/// If there were too few runs to compare ways.
pub fn advice(first: First<'_>, ways: Vec<Timed>, notes: Vec<String>) -> Result<Advice, Refusal> {
    let First { command, ended, shown, cpus, others } = first;
    let count = cpus.len() as u64;
    let (forecast, tried) =
        tried::answer(shown.workers, count, ways, notes).ok_or(Refusal::OneWay("all others were left out"))?;
    let elapsed_ns = ended.end_ns - ended.start_ns;
    Ok(Advice {
        command,
        exit_code: ended.exit.map(Exit::shell_code),
        cpu_list: Some(cpus.to_string()),
        run: Run { basis: Basis::Measured, elapsed_ns, cpus: count, windows: 0, window_ns: 0, others },
        tried: Some(tried),
        ..super::advice(forecast)
    })
}
