//! What a session has changed, on disk before it changes it.
//!
//! One JSON object a line: first the session, then its changes in order. A change of a process's leader
//! may also stand for the threads that will be *born* in the process and inherit it. Lines are fsync'ed
//! before what they announce is done, so that a line that is missing or torn announces nothing that
//! happened. What is done together is announced together, with one fsync.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::knob::{Claim, Knob, Value};

/// Written by this version; another one's journal is not touched.
pub const FORMAT: u32 = 2;

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
    Births(C),
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
        journal.append([Line::Session(header)])?;
        Ok(journal)
    }

    /// Announce a change.
    ///
    /// # Errors
    /// When the line could not be written and synced: the change must not be made then.
    pub fn announce(&mut self, change: &Change) -> Result<(), Error> {
        self.announce_all(std::slice::from_ref(change))
    }

    /// Announce changes, with one fsync for all.
    ///
    /// # Errors
    /// As [`Journal::announce`]; none of them may be made then.
    pub fn announce_all(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.append(changes.iter().map(Line::Change))
    }

    /// Announce what threads that will be born in a process may inherit: a change of its leader's knob.
    ///
    /// # Errors
    /// As [`Journal::announce`]: no thread of these processes may be changed then.
    pub fn announce_births(&mut self, births: &[Change]) -> Result<(), Error> {
        self.append(births.iter().map(Line::Births))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append<'l>(&mut self, lines: impl IntoIterator<Item = Line<&'l Header, &'l Change>>) -> Result<(), Error> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, &line).map_err(|error| self.failed(error.into()))?;
            text.push(b'\n');
        }
        if text.is_empty() {
            return Ok(());
        }
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
    /// What threads of a process inherit that are born meanwhile: changes of the leader's knobs.
    pub births: Vec<Change>,
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
                record = Some(Record { header, changes: Vec::new(), births: Vec::new() });
            }
            (Line::Session(header), None) => return Err(format!("format {}, not {FORMAT}", header.format)),
            (Line::Change(change), Some(record)) => record.changes.push(change),
            (Line::Births(births), Some(record)) => record.births.push(births),
            (Line::Session(_), Some(_)) => return Err(format!("line {}: a second session", at + 1)),
            (Line::Change(_) | Line::Births(_), None) => return Err("no session in the first line".to_owned()),
        }
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::{Scheduling, Thread};
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
        journal.announce_births(&[change(9)]).unwrap();
        journal.announce_all(changes).unwrap();
        std::fs::read_to_string(journal.path()).unwrap()
    }

    #[test]
    fn what_was_announced_is_read() {
        let file = Change {
            knob: Knob::File("/proc/sys/x".into()),
            claim: Claim::Exactly(Value::Text("1".into())),
            ..change(1)
        };
        let at_times = Change {
            knob: Knob::Scheduling(Thread { tid: 3, start_ns: 4 }),
            claim: Claim::AtTimes(Value::Scheduling(Scheduling::default().idle())),
            ..change(1)
        };
        let changes = [change(1), change(2), file, at_times];
        let record = Record { header: header(), changes: changes.to_vec(), births: vec![change(9)] };
        assert_eq!(parse(&written(&changes)).unwrap(), Some(record));
    }

    #[test]
    fn a_foreign_journal_is_refused() {
        let text = written(&[change(1)]);
        assert!(parse(&text.replace("\"format\":2", "\"format\":1")).unwrap_err().contains("format 1"));
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
            let told = record.map(|r| (r.births.len(), r.changes));
            // The first line is the session's, the second that of the births.
            let announced = |n: usize| (n.min(1), changes[..n.saturating_sub(1)].to_vec());
            prop_assert_eq!(told, whole.checked_sub(1).map(announced));
        }
    }
}
