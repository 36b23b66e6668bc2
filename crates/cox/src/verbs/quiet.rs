//! `cox quiet`: CPUs that the system leaves alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use changes::entry::Entry;
use changes::{JournalFolder, Knob, KnobIo, LiveKnobIo, probe};
use ledger::Provenance;
use machine::{CpuSet, Root};
use outputs::Output;
use outputs::diagnostics::{chain, say};
use quiet::{ENGINE, Facts, Lasting, Quieting, Refusal, plan, reboot};
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
    let (text_output, json_output) = options.report.open([])?;
    let target = targets::of(&options.program, &[]);
    let provenance = provenance::here("cox", None);
    let engines = Engines::new().with(Quieting::new(options.which.wanted(), options.which.extent()));
    let mut outcome = session::run(&target, engines, Limits::default())?;
    // The program has run. From here on, failures are reported, but do not change its exit code.
    let failures = outcome.findings.failures();
    failures.iter().for_each(|(_, error)| say(&chain(error)));
    let code = exit::after(&outcome.ended, !failures.is_empty(), &outcome.findings.unrestored());
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
    let Lasting { plan, moved, name, diagnostics } = Quieting::new(which.wanted(), which.extent()).keep()?;
    diagnostics.iter().for_each(|diagnostic| say(diagnostic));
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
    let mut known = Vec::new();
    for entry in sessions(&knob_io)? {
        known.extend(quiet::quiet_folders(entry.changes()));
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
                Ok((now, false)) if now == change.original && matches!(change.knob, Knob::Interrupt { .. }) => {
                    format!(
                        "{}: {now} as before: moved back, or the other CPUs had no interrupt vector left",
                        change.knob
                    )
                }
                Ok((now, false)) => format!("{}: now {now}, set by cox to: {}", change.knob, change.claim),
                Err(error) => error.to_string(),
            };
            has_drifted = true;
            writeln!(text, "    changed since: {drift}")?;
        }
    }
    let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
    text.push_str(&without_journal(&facts.quieted, &known, rustix::process::geteuid().is_root()));
    if text.is_empty() {
        text.push_str("No CPU is quiet.\n");
    }
    Output::Stdout.write(text.as_bytes())?;
    Ok(u8::from(has_drifted))
}

/// Returns a line for each quiet cpuset that is in no journal which this user may read. `known` has the others.
fn without_journal(quieted: &BTreeMap<PathBuf, CpuSet>, known: &[PathBuf], is_root: bool) -> String {
    let unknown = quieted.iter().filter(|(folder, _)| !known.contains(folder));
    let line = |(folder, cpus): (&PathBuf, &CpuSet)| {
        let folder = folder.display();
        let why = if is_root {
            format!("no journal names it. Fix: rmdir {folder}, once it has no process")
        } else {
            "this user cannot read the session's journal. Fix: sudo cox quiet status".to_owned()
        };
        format!("CPUs {cpus} are quiet, in cpuset {folder}: {why}\n")
    };
    unknown.map(line).collect()
}

/// Returns whether this is a thread or an interrupt that the kernel has not let the session move.
fn is_unmovable(knob_io: &dyn KnobIo, knob: &Knob) -> bool {
    match knob {
        Knob::Affinity(thread) => knob_io.fixed(*thread).is_some(),
        Knob::Interrupt { .. } | Knob::Membership { .. } => {
            matches!(probe(knob_io, knob), Err(changes::Error::Unmovable { .. }))
        }
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_another_user_is_seen_by_its_cpuset() {
        let folders = ["/sys/fs/cgroup/cox-quiet-1", "/sys/fs/cgroup/cox-quiet-4"].map(PathBuf::from);
        let quieted =
            BTreeMap::from([(folders[0].clone(), "1".parse().unwrap()), (folders[1].clone(), "4-5".parse().unwrap())]);
        let said = without_journal(&quieted, &folders[..1], false);
        assert!(said.starts_with("CPUs 4-5 are quiet, in cpuset /sys/fs/cgroup/cox-quiet-4: this user"), "{said}");
        assert_eq!((said.lines().count(), without_journal(&quieted, &folders, false).len()), (1, 0), "{said}");
        assert!(without_journal(&quieted, &folders[..1], true).contains("no journal names it"));
    }
}
