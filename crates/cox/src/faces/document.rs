//! The report of `cox run` as data: the account of the threads' time, the facts that the advice needs, and the results of packing and overlap.

use advise::Facts;
use anyhow::{Result, bail};
use ledger::accounts::ProgramInfo;
use ledger::co_run::{self, CoRun, Player};
use ledger::{Account, Provenance, Unsampled};
use machine::CpuSet;
use noise::phases::Phases;
use noise::program::Taken;
use observe::Observed;
use overlap::Counted;
use report::Document;
use report::pack::PackReport;
use session::{Attached, Ended, Exit, Launch, Launched, Target};
use trace::Recording;
use wire::Backend;

use super::program_noise;
use crate::run_context::RunContext;
use crate::{cli, engines};

/// A session that has ended: its options, target and run context. Does not contain what was observed, nor the results of packing and overlap.
pub struct Session<'s> {
    /// Options of the session.
    pub options: &'s cli::Run,
    /// Target of the session.
    pub target: &'s Target,
    /// How the target ended.
    pub ended: &'s Ended,
    /// Run context, read before the session began.
    pub run_context: &'s RunContext,
    /// Where and when the session ran.
    pub provenance: Provenance,
}

/// Builds the document. Also returns the recording for traces, if one was kept, or the reason why it cannot be used.
///
/// # Errors
/// If nothing was observed.
pub fn document(
    session: Session<'_>,
    observed: &mut Observed,
    packed: Option<PackReport>,
    counted: Option<&Counted>,
    (taken, phases): (Option<&Taken>, Option<&Phases>),
) -> Result<(Document, Option<Result<Recording>>)> {
    let Session { options, target, ended, run_context, provenance } = session;
    let command = target.words();
    let programs = programs(target, ended);
    let own_cpu_ns = ended.own_cpu_ns.saturating_add(observed.cpu_elsewhere_ns);
    let record = &observed.record;
    let mut account = ledger::accounts::build(record, &programs, own_cpu_ns);
    account.provenance = Some(Provenance { command: command.clone(), ..provenance });
    if let Some(sees) = &mut account.sees
        && !engines::samples(options)
        && account.backend != Backend::Proc
    {
        sees.unsampled = Some(Unsampled::Noise);
    }
    refuse_without_threads(&account, target)?;
    // If the trace has failed, the account is still reported.
    let recorded = observed.recorder.take().map(|recorder| {
        let recording = recorder.finish(record, &account, &observed.waits, record.cpus.len() as u32)?;
        if programs.len() > 1 {
            account.co_run = Some(side_by_side(&recording, &programs, &observed.allowed)?);
        }
        Ok(recording)
    });
    let allowed = observed.allowed.first().and_then(Option::as_ref);
    let runtime = observed.openmp_runtime.take();
    // CPUs that cox itself gave the program are no choice of the user's.
    let given = options.pack_cpus.as_ref().or(options.quiet_cpus.as_ref());
    let mut facts = run_context.facts(&command, allowed, given, runtime);
    if !observed.passed_over.is_empty() {
        facts.denied.insert(Facts::EBPF.to_owned());
    }
    let cpus = facts.allowed_cpus.len() as u64;
    let overlap = counted.map(|counted| overlap::report(counted, &account, cpus));
    let noise = taken.map(|taken| program_noise::document(taken, phases, &account));
    let document =
        Document { pack: packed, overlap, noise, ..Document::new(env!("CARGO_PKG_VERSION"), account, facts) };
    Ok((document, recorded))
}

/// Returns the programs of a session: those that it started, or the one that it is attached to.
fn programs(target: &Target, ended: &Ended) -> Vec<ProgramInfo> {
    match target {
        Target::Launch(launches) if launches.len() > 1 => {
            let launched = ended.launched.iter().zip(launches);
            let info = |(one, launch): (&Launched, &Launch)| ProgramInfo {
                root_pid: Some(one.pid),
                command: launch.words(),
                exit_code: Some(one.exit.shell_code()),
                start_ns: one.start_ns,
                end_ns: Some(one.end_ns),
            };
            launched.map(info).collect()
        }
        _ => vec![ProgramInfo {
            root_pid: target.attached_to(),
            command: target.words(),
            exit_code: ended.exit.map(Exit::shell_code),
            start_ns: ended.start_ns,
            end_ns: Some(ended.end_ns),
        }],
    }
}

/// Computes what co-run programs took from one another.
fn side_by_side(recording: &Recording, programs: &[ProgramInfo], allowed: &[Option<CpuSet>]) -> Result<CoRun> {
    let programs = programs.iter().enumerate().map(|(at, program)| {
        let cpus = allowed.get(at).and_then(Option::as_ref);
        co_run::Program {
            root_pid: program.root_pid.unwrap_or_default(),
            cpus: cpus.map(|cpus| cpus.iter().collect()),
            named: cpus.map(ToString::to_string).unwrap_or_default(),
        }
    });
    let mut player = Player::new(programs.collect(), recording.cpus, recording.start_ns);
    recording.each(|trace_event| -> Result<()> {
        player.take(trace_event);
        Ok(())
    })?;
    Ok(player.finish(recording.end_ns))
}

/// Fails if the account has no thread: such a report could be mistaken for one on an idle program.
fn refuse_without_threads(account: &Account, target: &Target) -> Result<()> {
    if !ledger::summary::is_empty(account) {
        return Ok(());
    }
    match target {
        Target::Attach(Attached::Cgroup(cgroup)) => {
            bail!("no report: the control group {} contained no thread during the observation", cgroup.name().display())
        }
        _ => bail!(
            "no report: the backend {} saw no thread of the target; try another --backend",
            account.backend.name()
        ),
    }
}
