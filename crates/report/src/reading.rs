//! Reads a report that this version of cox or an older one wrote.

use crate::json::{Document, SCHEMA_VERSION};

/// The oldest schema version that can be read. Later versions renamed some members and still accept the old names.
const OLDEST: u64 = 1;

/// Why a text cannot be read as a report.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The text is not JSON.
    #[error("not JSON of the form that cox run --json writes: {0}")]
    NotJson(serde_json::Error),
    /// The JSON has no schema version.
    #[error("not a report of cox run --json: it has no schema_version")]
    NoVersion,
    /// The schema version is not one that can be read.
    #[error(
        "its schema_version is {0}, but this cox reads only {OLDEST} to {SCHEMA_VERSION}: use a newer cox, or record the run again"
    )]
    Version(u64),
    /// The JSON's members are not those of a report.
    #[error("not a report of cox run --json: {0}")]
    Shape(serde_json::Error),
    /// The report has no thread.
    #[error("it contains no thread")]
    Empty,
}

/// Figures that were renamed after version 1: old and new name. Renamed members of structs have serde aliases instead.
const RENAMED: [(&str, &str); 4] = [
    ("crew_threads", "worker_threads"),
    ("took_cpu.sibling", "preemptors.sibling"),
    ("took_cpu.other", "preemptors.other"),
    ("took_cpu.idle", "preemptors.idle"),
];

fn with_present_names(mut document: Document) -> Document {
    for (before, now) in RENAMED {
        if let Some(value) = document.figures.remove(before) {
            document.figures.insert(now.to_owned(), value);
        }
    }
    let sentences = document.verdict.iter_mut().flat_map(|verdict| &mut verdict.sentences);
    for evidence in sentences.flat_map(|sentence| &mut sentence.evidence) {
        if let Some((_, now)) = RENAMED.iter().find(|(before, _)| *before == evidence.figure) {
            evidence.figure = (*now).to_owned();
        }
    }
    document
}

impl Document {
    /// Reads a report. The result has the shape and the schema version of this version of cox, whatever version wrote it.
    ///
    /// # Errors
    /// If the text is not a report of this version or an older one, or if the report has no thread.
    pub fn read(text: &str) -> Result<Document, Unreadable> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(Unreadable::NotJson)?;
        match value.get("schema_version").and_then(serde_json::Value::as_u64) {
            Some(version) if (OLDEST..=u64::from(SCHEMA_VERSION)).contains(&version) => {}
            Some(version) => return Err(Unreadable::Version(version)),
            None => return Err(Unreadable::NoVersion),
        }
        let document: Document = serde_json::from_value(value).map_err(Unreadable::Shape)?;
        let document = with_present_names(Document { schema_version: SCHEMA_VERSION, ..document });
        if ledger::summary::is_empty(&document.account) {
            return Err(Unreadable::Empty);
        }
        Ok(document)
    }
}
