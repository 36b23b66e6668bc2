//! What a session has changed, on disk before it changes it.
//!
//! One JSON object a line: first the session, then its changes in order. Each line is fsync'ed before
//! what it announces is done, so that a line that is missing or torn announces nothing that happened.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::knob::{Claim, Knob, Value};

/// Written by this version; another one's journal is not touched.
pub const FORMAT: u32 = 1;

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// The boot in which it was written.
    pub boot_id: String,
    /// The session's process,
    pub pid: u32,
    /// and its start, to tell it from a later one with the same id.
    pub start_ns: u64,
    /// Its command line, for people.
    pub command: String,
}

/// A knob that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The engine that wanted it.
    pub engine: String,
    /// What is changed.
    pub knob: Knob,
    /// The value before any session changed it.
    pub original: Value,
    /// What it may be while the session lasts.
    pub claim: Claim,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<S, C> {
    Session(S),
    Change(C),
}

/// A journal being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Begin one; the file must not exist.
    ///
    /// # Errors
    /// When it cannot be created and synced.
    pub fn create(path: PathBuf, header: &Header) -> Result<Journal, Error> {
        // Only the owner may read it: it is what the guardian will do in his name.
        let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| Error::Journal { path: path.clone(), source })?;
        let mut journal = Journal { path, file };
        journal.append(&Line::<&Header, &Change>::Session(header))?;
        Ok(journal)
    }

    /// Announce a change.
    ///
    /// # Errors
    /// When the line could not be written and synced: the change must not be made then.
    pub fn announce(&mut self, change: &Change) -> Result<(), Error> {
        self.append(&Line::<&Header, &Change>::Change(change))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append(&mut self, line: &Line<&Header, &Change>) -> Result<(), Error> {
        let mut text = serde_json::to_vec(line).map_err(|error| self.failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Journal { path: self.path.clone(), source }
    }
}

/// A journal that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose it is.
    pub header: Header,
    /// What it announced, in order.
    pub changes: Vec<Change>,
}

/// Reads a journal's text; `None` when even its first line is torn: then nothing was changed.
///
/// # Errors
/// What is wrong with a line that is whole.
pub fn parse(text: &str) -> Result<Option<Record>, String> {
    let mut record = None;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else { break };
        let parsed: Line<Header, Change> = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", at + 1))?;
        match (parsed, &mut record) {
            (Line::Session(header), None) if header.format == FORMAT => {
                record = Some(Record { header, changes: Vec::new() });
            }
            (Line::Session(header), None) => return Err(format!("format {}, not {FORMAT}", header.format)),
            (Line::Change(change), Some(record)) => record.changes.push(change),
            (Line::Session(_), Some(_)) => return Err(format!("line {}: a second session", at + 1)),
            (Line::Change(_), None) => return Err("no session in the first line".to_owned()),
        }
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Thread;
    use proptest::prelude::*;

    fn header() -> Header {
        Header { format: FORMAT, boot_id: "b".into(), pid: 5, start_ns: 6, command: "cox pack".into() }
    }

    fn change(tid: u32) -> Change {
        Change {
            engine: "pack".into(),
            knob: Knob::Affinity(Thread { tid, start_ns: 1 << 60 }),
            original: Value::Cpus("0-63".parse().unwrap()),
            claim: Claim::Within("0-1".parse().unwrap()),
        }
    }

    fn written(changes: &[Change]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path().join("j"), &header()).unwrap();
        for change in changes {
            journal.announce(change).unwrap();
        }
        std::fs::read_to_string(journal.path()).unwrap()
    }

    #[test]
    fn what_was_announced_is_read() {
        let file = Change {
            knob: Knob::File("/proc/sys/x".into()),
            claim: Claim::Exactly(Value::Text("1".into())),
            ..change(1)
        };
        let changes = [change(1), change(2), file];
        assert_eq!(parse(&written(&changes)).unwrap(), Some(Record { header: header(), changes: changes.to_vec() }));
    }

    #[test]
    fn a_foreign_journal_is_refused() {
        let text = written(&[change(1)]);
        assert!(parse(&text.replace("\"format\":1", "\"format\":2")).unwrap_err().contains("format 2"));
        assert!(parse("{\"nonsense\":1}\n").is_err());
        let (_, changes) = text.split_once('\n').unwrap();
        assert!(parse(changes).unwrap_err().contains("no session"));
    }

    proptest! {
        /// Cut anywhere, a journal tells all changes whose lines are whole, and no other.
        #[test]
        fn a_torn_journal_tells_what_may_have_happened(cut in 0usize..2000) {
            let changes = [change(1), change(2), change(3)];
            let text = written(&changes);
            let cut = cut.min(text.len());
            let whole = text[..cut].matches('\n').count();
            let record = parse(&text[..cut]).unwrap();
            prop_assert_eq!(record.map(|r| r.changes), whole.checked_sub(1).map(|n| changes[..n].to_vec()));
        }
    }
}
