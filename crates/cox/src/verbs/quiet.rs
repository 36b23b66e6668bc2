//! `cox quiet`: CPUs that the system leaves alone.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use changes::entry::Entry;
use changes::{JournalFolder, Knob, KnobIo, LiveKnobIo, probe};
use ledger::Provenance;
use machine::Root;
use outputs::diagnostics::{chain, say};
use outputs::{Output, refuse_same};
use quiet::{ENGINE, Facts, Quieting, Refusal, plan, reboot};
use report::quiet::QuietReport;
use serde_json::json;
use session::{Engines, Limits, provenance};

use super::changes::undo_named;
use crate::cli::{self, QuietCpus, QuietPlan, QuietVerb};
use crate::faces::changes::session;
use crate::faces::print;
use crate::faces::quiet::{as_json, text};
use crate::{exit, targets};

/// Runs the program, or carries out a subcommand.
pub fn quiet(options: &cli::Quiet) -> Result<u8> {
    let done = match &options.what {
        None => run(options),
        Some(QuietVerb::Plan(options)) => show(options),
        Some(QuietVerb::Apply(which)) => apply(which),
        Some(QuietVerb::Measure(options)) => super::levels::measure(options),
        Some(QuietVerb::Status) => status(),
        Some(QuietVerb::Undo { session }) => undo(session.as_deref()),
    };
    // These CPUs cannot become quiet: a wrong option.
    match done {
        Err(error) if error.downcast_ref::<Refusal>().is_some() => {
            say(&chain(&error));
            Ok(exit::WRONG_OPTIONS)
        }
        done => done,
    }
}

fn run(options: &cli::Quiet) -> Result<u8> {
    let text_file = options.output.clone().filter(|_| !options.quiet);
    refuse_same([("--json", options.json.clone()), ("--output", text_file)])?;
    let json_output = Output::wanted(options.json.as_deref())?;
    let text_output = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };
    let target = targets::of(&options.program, &[]);
    let provenance = provenance::here("cox", None);
    let engines = Engines::new().with(Quieting::new(options.which.wanted(), options.which.extent()));
    let mut outcome = session::run(&target, engines, Limits::default())?;
    // The program has run. From here on, failures are reported, but do not change its exit code.
    let failures = outcome.findings.failures();
    failures.iter().for_each(|(_, error)| say(&chain(error)));
    let code = match exit::after(&outcome.ended, !failures.is_empty()) {
        0 if !failures.is_empty() => exit::UNRESTORED,
        code => code,
    };
    let Some(found) = outcome.findings.section::<Quieting>() else { return Ok(code) };
    let provenance = Provenance { command: target.words(), ..provenance };
    let report = QuietReport { provenance: Some(provenance), ..found };
    let written = [
        print(text_output, false, |style| report.text(style)),
        json_output.map_or(Ok(()), |output| output.write(&serde_json::to_vec_pretty(&report)?)),
    ];
    written.into_iter().filter_map(Result::err).for_each(|error| say(&chain(&error)));
    Ok(code)
}

fn show(options: &QuietPlan) -> Result<u8> {
    let json_output = Output::wanted(options.json.as_deref())?;
    let root = Root::live();
    let mut facts = Facts::read(&root).context("cannot examine this machine")?;
    let wanted = options.which.wanted();
    if rustix::process::geteuid().is_root() {
        facts.probe_interrupts(&LiveKnobIo::new(Root::live()), &wanted.candidates(&facts));
    }
    let chosen = wanted.choose(&facts)?;
    let plan = plan(&facts, &chosen, options.which.extent());
    let boot = reboot(&facts, &chosen, &root.read_text("/proc/cmdline").unwrap_or_default());
    let text_output = (!matches!(json_output, Some(Output::Stdout))).then_some(Output::Stdout);
    print(text_output, false, |style| text(&plan, &boot, style))?;
    if let Some(output) = json_output {
        let document =
            json!({ "schema_version": 1, "provenance": provenance::here("cox", None), "plan": as_json(&plan, &boot) });
        output.write(format!("{document:#}\n").as_bytes())?;
    }
    Ok(0)
}

fn apply(which: &QuietCpus) -> Result<u8> {
    let (plan, moved, name) = Quieting::new(which.wanted(), which.extent()).keep()?;
    let mut text =
        format!("CPUs {} are quiet: level {}, {moved} threads moved.\n", plan.chosen.cpus, plan.extent.level);
    if let Some(own) = &plan.cpusets {
        let list = if own.system.is_some() { "tasks" } else { "cgroup.procs" };
        writeln!(text, "Start a program there: sh -c 'echo $$ > {}/{list}; exec PROGRAM'", own.quiet.display())?;
    }
    writeln!(text, "Restore everything: cox quiet undo {name}")?;
    Output::Stdout.write(text.as_bytes())?;
    Ok(0)
}

/// Returns the journals of all sessions that keep CPUs quiet.
fn sessions(knob_io: &dyn KnobIo) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    for journals in JournalFolder::all_of_user() {
        let is_ours = |entry: &Entry| entry.changes().iter().any(|change| change.engine == ENGINE);
        found.extend(journals.look(knob_io)?.entries.into_iter().filter(is_ours));
    }
    Ok(found)
}

fn status() -> Result<u8> {
    let knob_io = LiveKnobIo::new(Root::live());
    let (mut text, mut has_drifted) = (String::new(), false);
    for entry in sessions(&knob_io)? {
        let changes = entry.changes().iter().filter(|change| change.engine == ENGINE);
        let cpus = quiet::quiet_cpus(entry.changes());
        let state = match () {
            () if entry.lasts() => format!("until cox quiet undo {}", entry.name()),
            () if entry.alive => "until that ends".to_owned(),
            () => "it has ended, and left its changes. Fix: cox changes undo".to_owned(),
        };
        writeln!(text, "CPUs {cpus} are quiet for {}: {state}", session(&entry))?;
        has_drifted |= !entry.alive;
        for change in changes.filter(|change| change.claim != changes::Claim::Confined) {
            let drift = match change.state(&knob_io) {
                Ok((_, true)) | Err(changes::Error::Gone(_)) => continue,
                Ok((now, false)) if now == change.original && is_unmovable(&knob_io, &change.knob) => continue,
                Ok((now, false)) => format!("{}: now {now}, set by cox to: {}", change.knob, change.claim),
                Err(error) => error.to_string(),
            };
            has_drifted = true;
            writeln!(text, "    changed since: {drift}")?;
        }
    }
    if text.is_empty() {
        text.push_str("No CPU is quiet.\n");
    }
    Output::Stdout.write(text.as_bytes())?;
    Ok(u8::from(has_drifted))
}

/// Returns whether this is an interrupt that the kernel has not let the session move.
fn is_unmovable(knob_io: &dyn KnobIo, knob: &Knob) -> bool {
    matches!(knob, Knob::Interrupt { .. }) && matches!(probe(knob_io, knob), Err(changes::Error::Unmovable { .. }))
}

fn undo(name: Option<&str>) -> Result<u8> {
    let knob_io = LiveKnobIo::new(Root::live());
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let lasting: Vec<Entry> = sessions(&knob_io)?.into_iter().filter(Entry::lasts).collect();
            match lasting.as_slice() {
                [one] => one.name(),
                [] => bail!("cox quiet apply has changed nothing here"),
                [_, ..] => bail!("there are several sessions; name one: cox quiet status shows their names"),
            }
        }
    };
    undo_named(&knob_io, &name)
}
