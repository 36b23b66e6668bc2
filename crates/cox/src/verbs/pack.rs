//! `cox pack`: N threads on fewer CPUs, at the speed those CPUs allow.

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::Result;
use ledger::Provenance;
use machine::CpuSet;
use machine::limits::Who;
use outputs::{Output, refuse_same};
use pack::live::{Began, Placed, Plan, Summary, Wasteful};
use pack::policy::Why;
use pack::policy::conductor::Settings;
use pack::policy::regime::Turns;
use report::pack::{
    OtherProgram, PackReport, SCHEMA_VERSION, SpinningRuntime, confidence_beside, cpus_of, others_share,
};
use watch::Sight;
use watch::stands::Other;

use crate::choice::Choice;
use crate::cli::{self, PackBackend};
use crate::ebpf;
use crate::preload;
use crate::provenance;
use crate::session::packing::Packing;
use crate::session::{self, Exit, Launch, Limits, Subject, Target, control};

/// So many other programs are in the report.
const OTHERS_AT_MOST: usize = 10;
/// Exit code when something is still changed, and the program has ended well: a script has to hear of it.
const UNRESTORED: u8 = 1;

/// Exit code for options that another command has now.
const WRONG_OPTION: u8 = 2;
const ELSEWHERE: &str = "--policy and --without are options of another command now: cox-bench pack palm --cpus LIST [--without PART] -- PROGRAM";

/// Pack what `options` name, report, and return the exit code to end with.
pub fn pack(options: &cli::Pack) -> Result<u8> {
    if options.policy.is_some() || options.without.is_some() {
        crate::complaint::say(ELSEWHERE);
        return Ok(WRONG_OPTION);
    }
    let text = options.output.clone().filter(|_| !options.quiet);
    refuse_same([("--json", options.json.clone()), ("--output", text), ("--log-moves", options.log_moves.clone())])?;
    let target = target(options);
    let json = Output::wanted(options.json.as_deref())?;
    let text = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };
    let log = Output::wanted(options.log_moves.as_deref())?;
    // Asked first: the masks of a packed program say nothing about which CPUs it may use.
    refuse_packed(&options.pid)?;
    let choice = Choice::of(whose(&options.pid))?;
    let cpus = choice.choose(&options.cpus)?;
    let plan = plan(&choice, &cpus, began(&options.pid), !options.no_children);
    let plan = Plan { settings: settings(options), sight: sight(options.backend), log: log.is_some(), ..plan };
    let mut packing = Packing::adjustable(plan, choice);
    let provenance = provenance::here(options.pid.first().copied());
    let limits = Limits { length: options.length, wait_all: false };
    let outcome = session::run(&target, &mut packing, limits)?;
    let code = outcome.exit.map_or(0, |exit| exit.shell_code() as u8);
    if let Some(error) = &outcome.failed {
        crate::complaint::say(&crate::complaint::chain(error));
    }
    let Some(summary) = packing.summary.take() else { return Ok(code) };
    let code = undone_or(code, &summary);
    // From here on the program has run: whatever fails is said, and does not change its exit code.
    let report = report(&options.program, &options.pid, &packing, &summary, outcome.exit);
    let provenance = Provenance { command: report.command.clone(), ..provenance };
    let report = PackReport { provenance: Some(provenance), ..report };
    let style = super::style(text.as_ref(), false);
    let written = [
        text.map(|output| output.write(report.text(&style).as_bytes())),
        json.map(|output| output.write(&serde_json::to_vec_pretty(&report)?)),
        log.map(|output| output.write(moves(&summary).as_bytes())),
    ];
    for error in written.into_iter().flatten().filter_map(Result::err) {
        crate::complaint::say(&crate::complaint::chain(&error));
    }
    Ok(code)
}

/// The exit code `code`, if everything was put back. Else what is still changed is said, and no program's success hides it.
pub fn undone_or(code: u8, summary: &Summary) -> u8 {
    if !summary.unrestored {
        return code;
    }
    let what = summary.complaints.join("; ");
    crate::complaint::say(&format!("not everything was put back: {what}; see `cox changes status`"));
    if code == 0 { UNRESTORED } else { code }
}

fn target(options: &cli::Pack) -> Target {
    if options.pid.is_empty() {
        return Target::Launch(vec![launch(&options.program, !options.no_preload, options.no_children)]);
    }
    let pids: BTreeSet<u32> = options.pid.iter().copied().collect();
    Target::Attach(Subject::Processes(pids.into_iter().collect()))
}

/// A program to be packed, with the preload library inside if it shall and can have it.
pub fn launch(command: &[OsString], preloaded: bool, no_children: bool) -> Launch {
    let program = command.first().filter(|_| preloaded);
    let variables = program.map_or_else(Vec::new, |program| preload::variables(program, no_children));
    Launch { command: command.to_vec(), variables, has_no_input: false }
}

/// That nobody packs these processes already.
pub fn refuse_packed(pids: &[u32]) -> Result<()> {
    for &pid in pids {
        if pack::live::is_packed(pid)? {
            return Err(pack::live::Error::PackedAlready(pid).into());
        }
    }
    Ok(())
}

/// Whose CPUs count: those of the first process, or cox's own, which a launched program inherits.
pub fn whose(pids: &[u32]) -> Who {
    pids.first().map_or(Who::Own, |pid| Who::Task(*pid))
}

/// Where what is packed begins: in the pack if it is launched, else where these processes are.
pub fn began(pids: &[u32]) -> Began {
    if pids.is_empty() { Began::Here } else { Began::Outside }
}

/// A plan for these CPUs, by cox's own rules.
pub fn plan(choice: &Choice, cpus: &CpuSet, began: Began, children: bool) -> Plan {
    Plan {
        pids: Vec::new(),
        began,
        children,
        capacities: choice.capacities(cpus),
        cpus: cpus.iter().collect(),
        settings: Settings::default(),
        sight: Sight::Best,
        helping: ebpf::helping(),
        trial: false,
        log: false,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "),
    }
}

fn sight(backend: PackBackend) -> Sight {
    match backend {
        PackBackend::Auto => Sight::Best,
        PackBackend::Bpf => Sight::Traced,
        PackBackend::Proc => Sight::Polled,
    }
}

fn settings(options: &cli::Pack) -> Settings {
    let mut settings = Settings { always: options.always, ..Settings::default() };
    if let Some(length) = options.period {
        settings.turns = Turns::Fixed(length.as_nanos() as u64);
    }
    settings
}

/// What packing a launched `program`, or else `pids`, did.
pub fn report(
    program: &[OsString],
    pids: &[u32],
    packing: &Packing,
    summary: &Summary,
    exit: Option<Exit>,
) -> PackReport {
    let seen = summary.totals.seen;
    let others = packing.others_ns.and_then(|ns| others_share(ns, summary.seats_ns, summary.wall_ns));
    let command = if pids.is_empty() {
        program.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    } else {
        pids.iter().map(|pid| format!("process {pid}")).collect()
    };
    PackReport {
        schema_version: SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        provenance: None,
        exit_code: exit.map(Exit::shell_code),
        cpus: packing.cpus().to_string(),
        seats: packing.cpus().len() as u64,
        seats_ns: summary.seats_ns,
        repacked: packing.repacked.clone(),
        threads: summary.threads as u64,
        wall_ns: summary.wall_ns,
        rotating_ns: summary.totals.rotating_ns,
        turn_ns: summary.totals.turn_ns,
        run_ns: summary.totals.run_ns,
        others,
        confidence: others.map(confidence_beside),
        other_programs: summary.others.programs.iter().take(OTHERS_AT_MOST).map(other).collect(),
        other_programs_at_most: summary.others.at_most,
        spinning: (seen.samples > 0).then(|| seen.spinning as f64 / seen.samples as f64),
        efficiency_without: summary.without,
        efficiency_with: summary.with,
        exchanges: seen.exchanges,
        moves: seen.moves,
        own_ns: summary.own_ns,
        restored: summary.restored as u64,
        preloaded: summary.told.guests,
        kept_from_spinning: summary.told.cured,
        spinning_runtimes: summary.told.wasteful.iter().map(spinning_runtime).collect(),
        backend: summary.backend,
        passed_over: summary.passed_over.as_deref().map(ebpf::explained_text),
        unread: summary.told.unread.iter().map(|(pid, why)| format!("process {pid}: {why}")).collect(),
        complaints: summary.complaints.clone(),
    }
}

fn other(other: &Other) -> OtherProgram {
    OtherProgram { comm: other.comm.clone(), run_ns: other.ran_ns }
}

/// What to say about a libgomp that spins.
fn spinning_runtime(wasteful: &Wasteful) -> SpinningRuntime {
    let library = preload::library().filter(|_| !wasteful.refused).map(|path| path.display().to_string());
    SpinningRuntime::of_libgomp(wasteful.pid, wasteful.cpus_at_start, library.as_deref())
}

/// One line per order: when, who, where, why.
fn moves(summary: &Summary) -> String {
    let start_ns = summary.log.first().map_or(0, |placed| placed.at_ns);
    let line = |placed: &Placed| {
        let told = match placed.to {
            Some((cpu, why)) => {
                let why = match why {
                    Why::Behind(ns) => format!("the least served there is {:.3} ms behind", ns as f64 / 1e6),
                    Why::Spins => "a thread there waits in a loop".to_owned(),
                    Why::SeatFree => "a CPU had nobody to run".to_owned(),
                    Why::Joined => "it is new".to_owned(),
                    Why::Start => "rotation begins".to_owned(),
                    Why::End => "rotation ends".to_owned(),
                    Why::Rules => "all are placed anew".to_owned(),
                };
                format!("thread {} to CPU {cpu}: {why}", placed.tid)
            }
            None => format!("thread {} is left to the kernel", placed.tid),
        };
        format!("{:12.6} s  {told}\n", (placed.at_ns - start_ns) as f64 / 1e9)
    };
    summary.log.iter().map(line).collect()
}

/// Have a packed program's session change its CPUs.
pub fn set(wanted: &cli::Set) -> Result<u8> {
    let cpus = control::ask(wanted.pid, &wanted.cpus)?;
    println!("cox: process {} is packed on {} now", wanted.pid, cpus_of(&cpus.to_string()));
    Ok(0)
}
