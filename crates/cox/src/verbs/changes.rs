//! `cox changes`: what sessions of this user have changed, and the way back.

use std::fmt::Write as _;

use anyhow::Result;
use changes::book::{Book, Entry};
use changes::guardian;
use changes::undo::Undone;
use changes::{Hands, LiveHands};
use machine::Root;

use crate::cli;
use crate::complaint;
use crate::outputs::Output;

/// Exit code when a dead session's changes are there, or cannot be put back.
const FINDING: u8 = 1;

/// List, put back, or guard.
pub fn changes(what: &cli::Changes) -> Result<u8> {
    let hands = LiveHands::new(Root::live());
    match what {
        cli::Changes::Status => status(&hands, &Book::of_user()),
        cli::Changes::Undo => undo(&hands, &Book::of_user()),
        cli::Changes::Guard { journal } => {
            for left in guardian::guard(&hands, journal)?.left {
                complaint::say(&left.to_string());
            }
            Ok(0)
        }
    }
}

fn status(hands: &dyn Hands, book: &Book) -> Result<u8> {
    let entries = book.entries(hands)?;
    let mut text = String::new();
    for (entry, change) in entries.iter().flat_map(|entry| entry.changes().iter().map(move |change| (entry, change))) {
        let now = match hands.read(&change.knob) {
            Ok(now) => now.to_string(),
            Err(error) => error.to_string(),
        };
        let state = if entry.alive { "" } else { ", which is dead" };
        writeln!(text, "{}: {now}; it was {}", change.knob, change.original)?;
        writeln!(text, "    changed by {} of {}{state}", change.engine, session(entry))?;
    }
    for (entry, births) in entries.iter().flat_map(|entry| entry.births().iter().map(move |births| (entry, births))) {
        let state = if entry.alive { "" } else { ", which is dead" };
        writeln!(text, "{} and of threads born there meanwhile: it was {}", births.knob, births.original)?;
        writeln!(text, "    claimed by {} of {}{state}", births.engine, session(entry))?;
    }
    if text.is_empty() {
        text.push_str("Nothing is changed.\n");
    }
    let is_any = |entry: &Entry| !entry.changes().is_empty() || !entry.births().is_empty();
    let left = entries.iter().any(|entry| !entry.alive && is_any(entry));
    if left {
        text.push_str("A dead session has left something. Fix: cox changes undo\n");
    }
    Output::Stdout.write(text.as_bytes())?;
    Ok(if left { FINDING } else { 0 })
}

fn undo(hands: &dyn Hands, book: &Book) -> Result<u8> {
    let lock = book.lock()?;
    let settled = book.settle_dead(&lock, hands)?;
    let mut text = String::new();
    for (entry, undone) in &settled {
        writeln!(text, "{}: {}", session(entry), told(undone))?;
        for left in &undone.left {
            writeln!(text, "    {left}")?;
        }
    }
    for entry in book.entries(hands)? {
        writeln!(text, "{} still runs: what it has changed goes back when it ends", session(&entry))?;
    }
    if text.is_empty() {
        text.push_str("Nothing is changed.\n");
    }
    Output::Stdout.write(text.as_bytes())?;
    Ok(if settled.iter().any(|(_, undone)| !undone.left.is_empty()) { FINDING } else { 0 })
}

fn told(undone: &Undone) -> String {
    let mut parts = vec![format!("{} put back", undone.restored)];
    let others = [
        (undone.born, "born meanwhile put back"),
        (undone.gone, "gone"),
        (undone.inherited, "held by another session"),
        (undone.left.len(), "left"),
    ];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

fn session(entry: &Entry) -> String {
    match &entry.record {
        Some(record) => format!("process {} ({})", record.header.pid, record.header.command),
        None => format!("the session of {}", entry.path.display()),
    }
}
