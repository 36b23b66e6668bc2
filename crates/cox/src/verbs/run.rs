//! `cox run`: observe a program and report.

use anyhow::{Context, Result};
use ledger::accounts::ProgramInfo;
use machine::Root;
use machine::cgroup::Hierarchies;

use crate::cli;
use crate::outputs::Output;
use crate::session::observing::Observing;
use crate::session::{self, Limits, Outcome, Subject, Target};
use crate::surroundings::Surroundings;

/// Observe what `options` name, report, and return the exit code to end with.
pub fn run(options: &cli::Run) -> Result<u8> {
    let target = target(options)?;
    // Outputs are opened first: a bad path is refused before anything starts.
    let json = options.json.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let text = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };

    let surroundings = Surroundings::read(attached_to(&target));
    let mut observing = Observing::new(options.backend, !options.no_children)?;
    let limits = Limits { length: options.length, wait_all: options.wait_all };
    let outcome = session::run(&target, &mut observing, limits)?;
    let code = outcome.exit.map_or(0, |exit| exit.shell_code() as u8);

    // From here on the program has run: whatever fails is said, and does not change its exit code.
    if let Err(error) = report(options, &target, &outcome, &mut observing, &surroundings, text, json) {
        eprintln!("cox: {error:#}");
        return Ok(if outcome.exit.is_some() { code } else { crate::FAILED });
    }
    Ok(code)
}

/// What the command line asks to observe.
fn target(options: &cli::Run) -> Result<Target> {
    if let Some(path) = &options.cgroup {
        let root = Root::live();
        let cgroup = Hierarchies::read(&root).and_then(|all| all.resolve(&root, path)).context("--cgroup")?;
        return Ok(Target::Attach(Subject::Cgroup(cgroup)));
    }
    if !options.pid.is_empty() {
        return Ok(Target::Attach(Subject::Processes(options.pid.clone())));
    }
    Ok(Target::Launch(options.program.clone()))
}

/// The process whose limits count; `None`: cox's own, which the program inherits.
fn attached_to(target: &Target) -> Option<u32> {
    match target {
        Target::Attach(Subject::Processes(pids)) => pids.first().copied(),
        _ => None,
    }
}

/// What was observed, for people.
fn command_line(target: &Target) -> Vec<String> {
    match target {
        Target::Launch(command) => command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        Target::Attach(Subject::Cgroup(cgroup)) => vec!["--cgroup".into(), cgroup.name().display().to_string()],
        Target::Attach(Subject::Processes(pids)) => {
            pids.iter().flat_map(|pid| ["--pid".to_owned(), pid.to_string()]).collect()
        }
        Target::Attach(Subject::Launched(pid)) => vec![pid.to_string()],
    }
}

fn report(
    options: &cli::Run,
    target: &Target,
    outcome: &Outcome,
    observing: &mut Observing,
    surroundings: &Surroundings,
    text: Option<Output>,
    json: Option<Output>,
) -> Result<()> {
    let command = command_line(target);
    let program = ProgramInfo {
        root_pid: attached_to(target),
        command: command.clone(),
        exit_code: outcome.exit.map(session::Exit::shell_code),
        start_ns: outcome.start_ns,
        end_ns: Some(outcome.end_ns),
    };
    let record = observing.take_record()?;
    let account = ledger::accounts::build(&record, &[program], own_cpu_ns());
    if let Some(o) = json {
        o.write(serde_json::to_string_pretty(&account)?.as_bytes())?;
    }
    Ok(())
}

/// CPU time of this process so far.
fn own_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}
