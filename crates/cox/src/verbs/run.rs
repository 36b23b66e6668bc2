//! `cox run`: observe a program and report.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use ledger::accounts::ProgramInfo;
use machine::Root;
use machine::cgroup::Hierarchies;
use report::Document;

use crate::cli;
use crate::outputs::Output;
use crate::session::observing::Observing;
use crate::session::{self, Launch, Limits, Outcome, Subject, Target};
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
    let mut outcome = session::run(&target, &mut observing, limits)?;
    let code = outcome.exit.map_or(0, |exit| exit.shell_code() as u8);

    // From here on the program has run: whatever fails is said, and does not change its exit code.
    let reported = match outcome.failed.take() {
        Some(error) => Err(error.context("observing failed, there is no report")),
        None => report(options, &target, &outcome, &mut observing, &surroundings, text, json),
    };
    if let Err(error) = reported {
        crate::complaint::say(&format!("{error:#}"));
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
        let mut pids = options.pid.clone();
        // Named twice, watched once; the first stays first.
        let mut seen = BTreeSet::new();
        pids.retain(|pid| seen.insert(*pid));
        return Ok(Target::Attach(Subject::Processes(pids)));
    }
    Ok(Target::Launch(Launch { command: options.program.clone(), variables: Vec::new() }))
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
        Target::Launch(launch) => launch.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
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
    let account = ledger::accounts::build(&record, &[program], outcome.own_cpu_ns);
    let document = Document::new(
        env!("CARGO_PKG_VERSION"),
        account,
        surroundings.facts(&command, observing.allowed(), observing.openmp_runtime()),
    );
    // Each is written whatever becomes of the other.
    let text = text.map_or(Ok(()), |output| {
        let mut page = report::text::text(&document, &super::style(Some(&output), options.threads));
        page.push_str(&afterwards(observing));
        output.write(page.as_bytes())
    });
    let json = json.map_or(Ok(()), |output| output.write(document.to_json().context("making the JSON")?.as_bytes()));
    // The process ends here: taking apart the accounts of 50,000 threads one by one helps nobody.
    std::mem::forget((record, document));
    text.and(json)
}

/// What is worth saying beside the account: why a better backend was passed over.
fn afterwards(observing: &Observing) -> String {
    let mut text = String::new();
    for reason in &observing.passed_over {
        text.push_str(&format!("  passed over: {reason}\n"));
    }
    text
}
