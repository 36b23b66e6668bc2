//! The journal of a session: records each change on disk before it is made.
//!
//! The first line identifies the file ([`crate::reading`]). The other lines are one JSON object each: first the
//! session, then its changes in order. A line of the kind *births* says that new threads of a process may inherit a
//! changed value. It has the form of a change of the process's leader (its first thread). Lines are fsync'ed before the
//! change is made, so a missing or incomplete line stands for a change that never happened. Changes that are made
//! together are announced together, with one fsync.
//!
//! If a line cannot be written completely, its beginning is cut off again: lines written later, when the disk has
//! space again, must not follow half a line. Restoring needs no disk space: it only reads and removes files.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files::{self, Name};
use crate::format::{Change, Header, Line, first_line};

/// The longest command line in a journal, in bytes. It serves messages only, and the kernel accepts megabytes.
const LONGEST_COMMAND: usize = 4096;

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Length of all complete lines, in bytes.
    length: u64,
    /// True if a write failed and the incomplete line could not be cut off. Nothing may be written after such a line.
    is_broken: bool,
}

impl Journal {
    /// Creates a journal at a path of [`JournalFolder::journal`](crate::JournalFolder::journal); the file must not
    /// exist.
    ///
    /// # Errors
    /// Fails if the file cannot be created and synced, or the path is not that of a journal.
    pub fn create(path: PathBuf, header: &Header) -> Result<Journal, Error> {
        // Only the owner may read the journal, which tells the guardian what to do in the owner's name.
        let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| Error::Journal { path: path.clone(), source })?;
        let mut journal = Journal { path, file, length: 0, is_broken: false };
        let begun = match Name::of_path(&journal.path) {
            Some(name) => journal.begin(&name, header),
            None => Err(journal.failed(io::Error::other("not the name of a journal"))),
        };
        match begun {
            Ok(()) => Ok(journal),
            Err(error) => {
                // The error is ignored: an empty file does no harm, and the removal may fail for the same reason as the
                // writing.
                let _ = files::remove(&journal.path, &journal.file);
                Err(error)
            }
        }
    }

    fn begin(&mut self, name: &Name, header: &Header) -> Result<(), Error> {
        let mut header = header.clone();
        if let Some((cut, _)) = header.command.char_indices().find(|(at, _)| *at >= LONGEST_COMMAND) {
            header.command.truncate(cut);
        }
        let mut text = first_line(name).into_bytes();
        text.push(b'\n');
        self.append(text, [Line::Session(&header)])
    }

    /// Writes changes to the journal before they are made, with one fsync.
    ///
    /// # Errors
    /// Fails if the lines could not be written and synced; none of the changes may be made then.
    pub fn announce(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.append(Vec::new(), changes.iter().map(Line::Change))
    }

    /// Writes to the journal which values new threads may inherit from the session. Each item names a knob of a
    /// process's first thread (its leader), and holds for the same knob of all threads of that process.
    ///
    /// # Errors
    /// The same as [`Journal::announce`]; no thread of these processes may be changed then.
    pub fn announce_births(&mut self, births: &[Change]) -> Result<(), Error> {
        self.append(Vec::new(), births.iter().map(Line::Births))
    }

    /// Writes to the journal that the session's changes outlast its process.
    ///
    /// # Errors
    /// The same as [`Journal::announce`]; the changes must be restored then.
    pub fn announce_lasting(&mut self) -> Result<(), Error> {
        self.append(Vec::new(), [Line::Lasts(true)])
    }

    /// Returns the path of the journal.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append<'l>(
        &mut self,
        mut text: Vec<u8>,
        lines: impl IntoIterator<Item = Line<&'l Header, &'l Change>>,
    ) -> Result<(), Error> {
        for line in lines {
            serde_json::to_writer(&mut text, &line).map_err(|error| self.failed(error.into()))?;
            text.push(b'\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        if self.is_broken {
            return Err(self.failed(io::Error::other("an earlier line could not be written")));
        }
        match self.file.write_all(&text).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Making a file shorter needs no disk space.
                let cut = self.file.set_len(self.length).and_then(|()| self.file.sync_data());
                self.is_broken = cut.is_err();
                Err(self.failed(source))
            }
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Journal { path: self.path.clone(), source }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::format::FORMAT;
    use crate::knob::{Knob, Thread};
    use crate::reading::{Content, Record, read};
    use crate::value::{Scheduling, Value};

    const NAME: Name = Name { pid: 5, id: Some(7) };

    pub(crate) fn header(pid: u32) -> Header {
        Header { format: FORMAT, boot_id: "b".into(), pid, start_ns: 6, command: "cox pack".into() }
    }

    pub(crate) fn change(tid: u32) -> Change {
        Change {
            engine: "pack".into(),
            knob: Knob::Affinity(Thread { tid, start_ns: 1 << 60 }),
            original: Value::Cpus("0-63".parse().unwrap()),
            claim: Claim::Within("0-1".parse().unwrap()),
        }
    }

    /// Returns the text of a journal: the session, one value that new threads may inherit, then `changes`.
    pub(crate) fn written(name: &Name, changes: &[Change]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path().join(name.journal()), &header(name.pid)).unwrap();
        journal.announce_births(&[change(9)]).unwrap();
        journal.announce(changes).unwrap();
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
        let record = Record { header: header(5), changes: changes.to_vec(), births: vec![change(9)], lasts: false };
        let text = written(&NAME, &changes);
        assert_eq!(read(text.as_bytes(), &NAME).unwrap(), Content::Record(record, None));
        assert!(text.starts_with("coxswain journal 4 5-0000000000000007\n"));
    }

    #[test]
    fn a_command_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let header = Header { command: "ä".repeat(1 << 20), ..header(5) };
        let journal = Journal::create(folder.path().join(NAME.journal()), &header).unwrap();
        assert!(std::fs::metadata(journal.path()).unwrap().len() < 5000);
    }
}
