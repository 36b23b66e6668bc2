//! Makes the report of packing.

use broker::ebpf;
use machine::CpuSet;
use report::pack::{
    OtherProgram, PackReport, Repacked, SCHEMA_VERSION, SpinningRuntime, confidence_beside, others_share,
};
use session::{Exit, preload};
use watch::snapshots::Other;

use crate::live::{Summary, Wasteful};

/// Maximum number of other programs in the report.
const OTHERS_AT_MOST: usize = 10;

/// Makes the report of packing `command`. `cpus` are the CPUs of the pack at the end.
pub(super) fn report(
    command: Vec<String>,
    cpus: &CpuSet,
    repacked: Vec<Repacked>,
    summary: &Summary,
    exit: Option<Exit>,
) -> PackReport {
    let seen = summary.totals.seen;
    let others = summary.others_ns.and_then(|ns| others_share(ns, summary.slots_ns, summary.wall_ns));
    PackReport {
        schema_version: SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        provenance: None,
        exit_code: exit.map(Exit::shell_code),
        cpus: cpus.to_string(),
        slots: cpus.len() as u64,
        slots_ns: summary.slots_ns,
        repacked,
        threads: summary.threads as u64,
        wall_ns: summary.wall_ns,
        rotating_ns: summary.totals.rotating_ns,
        period_ns: summary.totals.period_ns,
        run_ns: summary.totals.run_ns,
        only_watched: summary.only_watched,
        profiles: summary.profiles,
        short_bursts: summary.short_bursts,
        others,
        confidence: others.map(confidence_beside),
        other_programs: summary.others.programs.iter().take(OTHERS_AT_MOST).map(other).collect(),
        other_programs_at_most: summary.others.at_most,
        spinning: (seen.samples > 0).then(|| seen.spinning as f64 / seen.samples as f64),
        efficiency_without: summary.without,
        efficiency_without_low: summary.measured.map(|measured| measured.low),
        efficiency_without_high: summary.measured.map(|measured| measured.high),
        without_measured_ns: summary.measured.map_or(0, |measured| measured.ns),
        efficiency_with: summary.with,
        exchanges: seen.exchanges,
        moves: seen.moves,
        own_ns: summary.own_ns,
        restored: summary.restored as u64,
        preloaded: summary.preloads.preloaded,
        spin_throttled: summary.preloads.throttled,
        spinning_runtimes: summary.preloads.wasteful.iter().map(spinning_runtime).collect(),
        backend: summary.backend,
        passed_over: summary.passed_over.as_deref().map(ebpf::explained_text),
        unread: summary.preloads.unread.iter().map(|(pid, why)| format!("process {pid}: {why}")).collect(),
        diagnostics: summary.diagnostics.clone(),
    }
}

fn other(other: &Other) -> OtherProgram {
    OtherProgram { comm: other.comm.clone(), run_ns: other.ran_ns }
}

/// Describes a process whose libgomp spins, and what the user can do about it.
fn spinning_runtime(wasteful: &Wasteful) -> SpinningRuntime {
    let library = preload::PRELOAD.path().filter(|_| !wasteful.refused).map(|path| path.display().to_string());
    SpinningRuntime::of_libgomp(wasteful.pid, wasteful.cpus_at_start, library.as_deref())
}
