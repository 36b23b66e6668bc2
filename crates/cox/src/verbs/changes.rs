//! `cox changes`: lists and restores what sessions of this user have changed.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use changes::entry::Entry;
use changes::guardian;
use changes::journals::{JournalFolder, Listing};
use changes::undo::Undone;
use changes::{KnobIo, LiveKnobIo};
use machine::Root;
use outputs::Output;
use outputs::diagnostics::{chain, say};

use crate::cli;
use crate::faces::changes::{problems, session, told};

/// Exit code if a dead session's changes remain or cannot be restored, or a file cannot be read as a journal.
const FINDING: u8 = 1;

/// Lists the changes or restores them. For the hidden subcommand of the guardian process, waits until the session's cox has ended, and then restores
/// what it has left.
pub fn changes(what: &cli::Changes) -> Result<u8> {
    let knob_io = LiveKnobIo::new(Root::live());
    match what {
        cli::Changes::Status => in_all_places(|journals, text| status(&knob_io, journals, text)),
        cli::Changes::Undo { session: None } => in_all_places(|journals, text| undo(&knob_io, journals, text)),
        cli::Changes::Undo { session: Some(name) } => undo_named(&knob_io, name),
        cli::Changes::Guard { journal } => {
            let undone = guardian::guard(&knob_io, journal)?;
            undone.left.iter().for_each(|left| say(&left.to_string()));
            undone.troubles.iter().for_each(|trouble| say(trouble));
            Ok(if undone.failures().next().is_some() { FINDING } else { 0 })
        }
    }
}

/// Calls `look` for each folder that may contain journals of this user. An unusable folder is reported and does not stop the search.
fn in_all_places(mut look: impl FnMut(&JournalFolder, &mut String) -> Result<bool>) -> Result<u8> {
    let (mut text, mut found, mut failed) = (String::new(), false, None);
    for journals in JournalFolder::all_of_user() {
        match look(&journals, &mut text) {
            Ok(finding) => found |= finding,
            Err(error) => {
                if let Some(before) = failed.replace(error) {
                    say(&chain(&before));
                }
            }
        }
    }
    if text.is_empty() && failed.is_none() {
        text.push_str("Nothing is changed.\n");
    }
    Output::Stdout.write(text.as_bytes())?;
    match failed {
        Some(error) => Err(error),
        None => Ok(if found { FINDING } else { 0 }),
    }
}

/// Lists the journals. If there is none, fails if the folder contains files that cox did not make.
fn look(knob_io: &dyn KnobIo, journals: &JournalFolder) -> Result<Listing> {
    let listing = journals.look(knob_io)?;
    if listing.entries.is_empty() {
        journals.refuse_foreign()?;
    }
    Ok(listing)
}

fn status(knob_io: &dyn KnobIo, journals: &JournalFolder, text: &mut String) -> Result<bool> {
    let listing = look(knob_io, journals)?;
    let entries = &listing.entries;
    for (entry, change) in entries.iter().flat_map(|entry| entry.changes().iter().map(move |change| (entry, change))) {
        let now = match knob_io.read(&change.knob) {
            Ok(now) => now.to_string(),
            Err(error) => error.to_string(),
        };
        let state = state(entry);
        writeln!(text, "{}: {now}; originally it was {}", change.knob, change.original)?;
        let (engine, session) = (&change.engine, session(entry));
        writeln!(text, "    changed by {engine} of {session}{state}")?;
    }
    for (entry, births) in entries.iter().flat_map(|entry| entry.births().iter().map(move |births| (entry, births))) {
        let state = state(entry);
        writeln!(
            text,
            "{}, and of threads that its process has created since: originally it was {}",
            births.knob, births.original
        )?;
        let (engine, session) = (&births.engine, session(entry));
        writeln!(text, "    claimed by {engine} of {session}{state}")?;
    }
    let is_any = |entry: &Entry| !entry.changes().is_empty() || !entry.births().is_empty();
    let left = entries.iter().any(|entry| !entry.alive && is_any(entry));
    if left {
        text.push_str("A dead session left changes. Fix: cox changes undo\n");
    }
    Ok(problems(&listing, text)? || left)
}

/// Returns the end of a sentence that names a session.
fn state(entry: &Entry) -> String {
    match entry {
        entry if entry.lasts() => format!("; it lasts until cox changes undo {}", entry.name()),
        entry if entry.alive => String::new(),
        _ => ", which has ended".to_owned(),
    }
}

/// Restores the changes of one session, which outlast its process.
pub fn undo_named(knob_io: &dyn KnobIo, name: &str) -> Result<u8> {
    for journals in JournalFolder::all_of_user() {
        if !journals.is_there()? {
            continue;
        }
        let lock = journals.lock()?;
        let Some(undone) = journals.settle_named(&lock, knob_io, name)? else { continue };
        let mut text = String::new();
        describe(name, &undone, &mut text)?;
        Output::Stdout.write(text.as_bytes())?;
        return Ok(if undone.left.is_empty() && undone.troubles.is_empty() { 0 } else { FINDING });
    }
    bail!("no session {name}: cox changes status names the sessions")
}

/// Appends what was restored for a session, and what was not.
fn describe(session: &str, undone: &Undone, text: &mut String) -> Result<()> {
    writeln!(text, "{session}: {}", told(undone))?;
    for left in &undone.left {
        writeln!(text, "    {left}")?;
    }
    for trouble in &undone.troubles {
        writeln!(text, "    {trouble}")?;
    }
    Ok(())
}

fn undo(knob_io: &dyn KnobIo, journals: &JournalFolder, text: &mut String) -> Result<bool> {
    if look(knob_io, journals)?.entries.is_empty() {
        return Ok(false);
    }
    let lock = journals.lock()?;
    let settled = journals.settle_dead(&lock, knob_io)?;
    for (entry, undone) in &settled {
        describe(&session(entry), undone, text)?;
    }
    let listing = journals.look(knob_io)?;
    for entry in listing.entries.iter().filter(|entry| entry.alive) {
        if entry.lasts() {
            writeln!(text, "{} has changed the machine. Fix: cox changes undo {}", session(entry), entry.name())?;
        } else {
            writeln!(text, "{} still runs, and restores its changes when it ends", session(entry))?;
        }
    }
    let is_left = |(_, undone): &(Entry, Undone)| !undone.left.is_empty() || !undone.troubles.is_empty();
    Ok(problems(&listing, text)? || settled.iter().any(is_left))
}
