//! The results on disk: one JSON line for each finished situation, so that a later session continues where this one ended.
//!
//! A line counts only for the same cox and the same machine. A last line without an end was being written when a session was killed; it is removed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use machine::Root;
use machine::host::Host;
use serde::{Deserialize, Serialize};

use super::result::Finished;

/// Name of the file in the folder of results.
const FILE: &str = "situations.jsonl";
/// Files beside cox that take part in a report.
const BESIDE: [&str; 2] = ["cox-observe", "libcox_preload.so"];

/// What a line is valid for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Hash of cox's files.
    pub binary: String,
    /// CPU model, number of CPUs, and release of the kernel: the same after each boot.
    pub machine: String,
}

impl Origin {
    /// Reads the origin of results of this cox on this machine with this many CPUs.
    ///
    /// # Errors
    /// When cox's file cannot be read.
    pub fn of(cox: &Path, cpus: usize) -> Result<Origin> {
        let mut hash = Hash::new();
        hash.add(&fs::read(cox).with_context(|| format!("cannot read {}", cox.display()))?);
        for name in BESIDE {
            // A cox without these files is another cox, so a missing file is part of the hash as an empty one.
            hash.add(&fs::read(cox.with_file_name(name)).unwrap_or_default());
        }
        let host = Host::read(&Root::live());
        let known = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
        let machine = format!("{}, {cpus} CPUs, {}", known(host.cpu_model), known(host.kernel));
        Ok(Origin { binary: hash.text(), machine })
    }
}

/// FNV-1a with 128 bits: it only has to distinguish builds.
struct Hash(u128);

impl Hash {
    fn new() -> Hash {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn add(&mut self, bytes: &[u8]) {
        // The length separates the files from each other.
        for byte in bytes.iter().copied().chain((bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    fn text(&self) -> String {
        format!("{:032x}", self.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    origin: Origin,
    #[serde(flatten)]
    finished: Finished,
}

/// The kept results.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    origin: Origin,
    /// Results of this cox on this machine, in the order in which they were measured.
    pub finished: Vec<Finished>,
    /// Remarks on lines that do not count.
    pub notes: Vec<String>,
}

impl Kept {
    /// Reads the results in a folder, and removes a last line that was not written completely.
    ///
    /// # Errors
    /// When the folder cannot be made, or its file cannot be read or shortened.
    pub fn open(folder: &Path, origin: Origin) -> Result<Kept> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(FILE);
        let mut text = Vec::new();
        if path.exists() {
            File::open(&path)?.read_to_end(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
        }
        let mut kept = Kept { path, origin, finished: Vec::new(), notes: Vec::new() };
        kept.drop_half_a_line(&mut text)?;
        let (mut others, mut bad) = (0, 0);
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(line) if line.origin == kept.origin => kept.put(line.finished),
                Ok(_) => others += 1,
                Err(_) => bad += 1,
            }
        }
        if others > 0 {
            kept.notes.push(format!("{others} kept results are of another cox or machine, and do not count"));
        }
        if bad > 0 {
            kept.notes.push(format!("{bad} kept lines cannot be parsed, and do not count"));
        }
        Ok(kept)
    }

    fn drop_half_a_line(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if complete < text.len() {
            let file = OpenOptions::new().write(true).open(&self.path)?;
            file.set_len(complete as u64).with_context(|| format!("cannot shorten {}", self.path.display()))?;
            text.truncate(complete);
            self.notes.push("the last kept line was not written completely, and is removed".to_owned());
        }
        Ok(())
    }

    /// Returns what the results are valid for.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the keys of the situations that need not be measured again. A failed one is tried again.
    pub fn keys(&self) -> BTreeSet<&str> {
        self.finished.iter().filter(|one| one.failed.is_none()).map(|one| one.key.as_str()).collect()
    }

    /// Appends a result to the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, finished: Finished) -> Result<()> {
        let line = Line { origin: self.origin.clone(), finished: finished.clone() };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(&text).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.put(finished);
        Ok(())
    }

    /// Puts a result in the place of an earlier one of the same situation.
    fn put(&mut self, finished: Finished) {
        self.finished.retain(|other| other.key != finished.key);
        self.finished.push(finished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(binary: &str) -> Origin {
        Origin { binary: binary.to_owned(), machine: "here".to_owned() }
    }

    fn finished(key: &str, failed: Option<&str>) -> Finished {
        Finished {
            key: key.to_owned(),
            program: "x".to_owned(),
            loaded: false,
            failed: failed.map(str::to_owned),
            verdict: None,
            arrows: Vec::new(),
            tried: Vec::new(),
        }
    }

    #[test]
    fn a_later_session_continues() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path(), origin("a")).unwrap();
        assert!(kept.finished.is_empty() && kept.notes.is_empty());
        kept.add(finished("one", None)).unwrap();
        kept.add(finished("two", Some("killed"))).unwrap();
        let again = Kept::open(folder.path(), origin("a")).unwrap();
        assert_eq!(again.finished, kept.finished);
        assert_eq!(again.keys().into_iter().collect::<Vec<_>>(), ["one"], "the failed one is tried again");
        kept.add(finished("two", None)).unwrap();
        assert_eq!(kept.keys().len(), 2);
        let other = Kept::open(folder.path(), origin("b")).unwrap();
        assert!(other.finished.is_empty() && other.notes[0].starts_with("3 kept results are of another cox"));
    }

    #[test]
    fn half_a_line_is_dropped_and_the_next_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path(), origin("a")).unwrap();
        kept.add(finished("one", None)).unwrap();
        let path = folder.path().join(FILE);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"key\":\"tw").unwrap();
        let mut kept = Kept::open(folder.path(), origin("a")).unwrap();
        assert_eq!((kept.finished.len(), kept.notes.len()), (1, 1));
        kept.add(finished("two", None)).unwrap();
        let again = Kept::open(folder.path(), origin("a")).unwrap();
        assert_eq!((again.finished.len(), again.notes.len()), (2, 0));
        fs::write(&path, "nonsense\n").unwrap();
        assert_eq!(
            Kept::open(folder.path(), origin("a")).unwrap().notes,
            ["1 kept lines cannot be parsed, and do not count"]
        );
    }

    #[test]
    fn another_build_is_another_origin() {
        let folder = tempfile::tempdir().unwrap();
        let cox = folder.path().join("cox");
        fs::write(&cox, "one").unwrap();
        let first = Origin::of(&cox, 2).unwrap();
        assert_eq!(Origin::of(&cox, 2).unwrap(), first);
        assert_ne!(Origin::of(&cox, 4).unwrap(), first);
        fs::write(folder.path().join("cox-observe"), "helper").unwrap();
        assert_ne!(Origin::of(&cox, 2).unwrap(), first);
        assert!(Origin::of(&folder.path().join("none"), 2).is_err());
    }
}
