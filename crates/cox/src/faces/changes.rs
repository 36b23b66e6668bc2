//! Text of `cox changes` about journals.

use std::fmt::Write;

use anyhow::Result;
use changes::entry::{Entry, Problem};
use changes::journals::Listing;
use changes::undo::Undone;
use outputs::diagnostics::one_line;

/// Appends the files that cox cannot handle to `text`; returns whether there are any.
pub fn problems(listing: &Listing, text: &mut String) -> Result<bool> {
    let mut found = false;
    for entry in &listing.entries {
        let path = entry.path.display();
        match &entry.problem {
            None => continue,
            Some(Problem::Damaged(why)) => writeln!(text, "{path} is damaged: {why}")?,
            Some(Problem::Unreadable(why)) => writeln!(
                text,
                "the journal {path} cannot be read ({why}), and the changes listed in it may still be in force. Inspect the file, restore \
                 affinities with taskset -pc LIST TID, and remove the file"
            )?,
            Some(Problem::Newer(_)) if entry.alive => continue,
            Some(Problem::Newer(format)) => writeln!(
                text,
                "{path} was written by a later version of cox (format {format}); only that version can restore its changes"
            )?,
            Some(Problem::SetAside) => writeln!(
                text,
                "the journal {path} was damaged. cox has undone the changes that it could read. Inspect the damaged lines, restore \
                 affinities with taskset -pc LIST TID, and remove the file"
            )?,
        }
        found = true;
    }
    for foreign in &listing.foreign {
        writeln!(text, "{} was not made by cox ({}); cox leaves it alone", foreign.path.display(), foreign.why)?;
        found = true;
    }
    Ok(found)
}

/// Returns a text that says what was restored for a session.
pub fn told(undone: &Undone) -> String {
    let mut parts = vec![format!("{} put back", undone.restored)];
    let others = [
        (undone.born, "put back of threads created meanwhile"),
        (undone.gone, "gone"),
        (undone.inherited, "held by another session"),
        (undone.left.len(), "left"),
    ];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

/// Returns a text that names the session that wrote the journal.
pub fn session(entry: &Entry) -> String {
    match &entry.record {
        // The words of a command line may contain control characters, so they are escaped for the terminal.
        Some(record) => format!("process {} ({})", record.header.pid, one_line(&record.header.command)),
        None => format!("the session of {}", entry.path.display()),
    }
}
