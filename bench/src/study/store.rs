//! Finished runs, kept in a file of JSON lines, so that an interrupted study continues where it stopped.
//!
//! The first line says what was measured: the programs, by a digest of their bytes, and the amount of work. Each other line is a finished run. If the
//! first line differs, the file is refused: its runs cannot be compared with new ones. The choice of cells may differ; runs of other cells stay in the
//! file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::cell::{App, Cell};
use super::command::{Setup, Work};
use super::sample::Sample;

/// What must be the same for runs to be comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of this file: raised when a line changes its meaning.
    version: u32,
    /// A digest of each program, by name.
    programs: BTreeMap<String, String>,
    work: Work,
    cpus: u32,
}

const VERSION: u32 = 1;

impl Identity {
    /// Reads the programs.
    ///
    /// # Errors
    /// When a program is missing.
    pub fn of(setup: &Setup, cpus: u32) -> Result<Identity> {
        let cox = setup.tools.cox.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let mut programs = BTreeMap::new();
        programs.insert("cox".to_owned(), digest(cox)?);
        programs.insert("libcox_loops.so".to_owned(), digest(&setup.library)?);
        // All of them, because another choice of programs may follow.
        for app in [App::Mandelbrot, App::Triad, App::Sedov].map(App::name) {
            programs.insert(app.to_owned(), digest(&setup.tools.workload(app)?)?);
        }
        Ok(Identity { version: VERSION, programs, work: setup.work, cpus })
    }

    /// Returns why runs of two identities cannot be compared; `None` if they can.
    fn difference(&self, other: &Identity) -> Option<String> {
        let differs = |(name, digest): &(&String, &String)| other.programs.get(*name) != Some(*digest);
        match () {
            () if self.version != other.version => Some("it was written by another version of cox-bench".to_owned()),
            () if self.cpus != other.cpus => Some(format!("it was measured on {} CPUs", other.cpus)),
            () if self.work != other.work => {
                Some("it was measured with another --seconds, --quick, --triad-chunk or --policy".to_owned())
            }
            () => self.programs.iter().find(differs).map(|(name, _)| format!("{name} has changed since then")),
        }
    }
}

/// Returns a digest of a file's bytes (FNV-1a). It recognises another build; it is no protection against forgery.
fn digest(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    Ok(format!("{hash:016x}"))
}

#[derive(Serialize, Deserialize)]
struct Line {
    cell: Cell,
    round: usize,
    sample: Sample,
}

/// All finished runs, by cell and round.
#[derive(Debug, Default)]
pub struct Store {
    runs: BTreeMap<Cell, BTreeMap<usize, Sample>>,
    file: Option<File>,
}

impl Store {
    /// Opens a file, which may be new or empty. A last line that was not written completely is removed.
    ///
    /// # Errors
    /// When the file belongs to another measurement, or cannot be read or written.
    pub fn open(path: &Path, identity: &Identity) -> Result<Store> {
        let cannot = || format!("--resume: cannot use {}", path.display());
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.with_context(cannot)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(cannot)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let mut store = Store { runs: BTreeMap::new(), file: Some(file) };
        let Some(first) = lines.next() else {
            if !text.is_empty() && !text.starts_with("{\"version\":") {
                bail!("--resume: {} is not a file of cox-bench study", path.display());
            }
            store.rewind(0).and_then(|()| store.append(identity)).with_context(cannot)?;
            return Ok(store);
        };
        let Ok(then) = serde_json::from_str::<Identity>(first) else {
            bail!("--resume: {} is not a file of cox-bench study", path.display());
        };
        if let Some(why) = identity.difference(&then) {
            bail!("--resume: {} cannot be continued: {why}", path.display());
        }
        for (at, line) in lines.enumerate() {
            let Line { cell, round, sample } =
                serde_json::from_str(line).with_context(|| format!("line {}", at + 2)).with_context(cannot)?;
            store.runs.entry(cell).or_default().insert(round, sample);
        }
        store.rewind(whole as u64).with_context(cannot)?;
        Ok(store)
    }

    /// Makes the file end at `length`, and continues there.
    fn rewind(&mut self, length: u64) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(())
    }

    fn append(&mut self, what: &impl Serialize) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_string(what)?;
        line.push('\n');
        file.write_all(line.as_bytes())?;
        Ok(())
    }

    /// Returns whether this run is finished.
    pub fn has(&self, cell: &Cell, round: usize) -> bool {
        self.runs.get(cell).is_some_and(|runs| runs.contains_key(&round))
    }

    /// Keeps a finished run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, cell: &Cell, round: usize, sample: Sample) -> Result<()> {
        let line = Line { cell: cell.clone(), round, sample };
        self.append(&line).context("cannot write the file of --resume")?;
        self.runs.entry(line.cell).or_default().insert(round, line.sample);
        Ok(())
    }

    /// Returns the first `rounds` runs of a cell, in the order of the rounds.
    pub fn runs(&self, cell: &Cell, rounds: usize) -> Vec<Sample> {
        self.runs.get(cell).map_or_else(Vec::new, |runs| runs.range(..rounds).map(|(_, run)| run.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::cell::{Observer, Programs};
    use crate::study::command::Policy;
    use crate::study::sample::Program;

    fn identity() -> Identity {
        let work = Work { seconds: 1.0, quick: false, triad_chunk: 512, policy: Policy::Default };
        let programs = [("cox", "1"), ("triad", "2")].map(|(name, digest)| (name.to_owned(), digest.to_owned()));
        Identity { version: VERSION, programs: programs.into(), work, cpus: 2 }
    }

    fn cell(threads: usize) -> Cell {
        let schedules = vec!["fac2".to_owned()];
        Cell { programs: Programs::Triad, schedules, threads, bound: false, observer: Observer::Cox }
    }

    fn sample(elapsed_s: f64) -> Sample {
        Sample { programs: vec![Program { elapsed_s, ..Program::default() }], ..Sample::default() }
    }

    #[test]
    fn finished_runs_are_kept_and_an_unfinished_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        let mut store = Store::open(&path, &identity()).unwrap();
        store.add(&cell(1), 0, sample(0.1)).unwrap();
        store.add(&cell(1), 1, sample(0.2)).unwrap();
        drop(store);
        // The machine lost its power while the third run was written.
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{{\"cell\":{{\"prog")).unwrap();
        let mut store = Store::open(&path, &identity()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        assert!(store.has(&cell(1), 0) && store.has(&cell(1), 1) && !store.has(&cell(1), 2) && !store.has(&cell(2), 0));
        store.add(&cell(2), 0, sample(0.3)).unwrap();
        let store = Store::open(&path, &identity()).unwrap();
        assert_eq!(store.runs(&cell(1), 5), [sample(0.1), sample(0.2)]);
        assert_eq!((store.runs(&cell(1), 1), store.runs(&cell(2), 5)), (vec![sample(0.1)], vec![sample(0.3)]));
    }

    #[test]
    fn runs_of_other_programs_or_options_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        drop(Store::open(&path, &identity()).unwrap());
        let refused = |identity: Identity| Store::open(&path, &identity).unwrap_err().to_string();
        let mut other = identity();
        other.programs.insert("triad".to_owned(), "3".to_owned());
        assert!(refused(other).contains("triad has changed"));
        let mut other = identity();
        other.work.seconds = 2.0;
        assert!(refused(other).contains("another --seconds"));
        assert!(refused(Identity { cpus: 4, ..identity() }).contains("on 2 CPUs"));
        assert!(refused(Identity { version: 0, ..identity() }).contains("another version"));
        assert!(Store::open(&path, &identity()).is_ok());
        for text in ["a letter\n", "a letter"] {
            std::fs::write(&path, text).unwrap();
            assert!(refused(identity()).contains("is not a file of cox-bench study"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a foreign file stays as it is");
        }
    }

    #[test]
    fn an_identity_that_was_not_written_completely_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        std::fs::write(&path, "{\"version\":1,\"prog").unwrap();
        let mut store = Store::open(&path, &identity()).unwrap();
        store.add(&cell(1), 0, sample(0.1)).unwrap();
        assert!(Store::open(&path, &identity()).unwrap().has(&cell(1), 0));
    }

    #[test]
    fn a_digest_tells_two_builds_apart() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            let path = folder.path().join("program");
            std::fs::write(&path, text).unwrap();
            digest(&path).unwrap()
        };
        // Test vectors of FNV-1a.
        assert_eq!((of("").as_str(), of("a").as_str()), ("cbf29ce484222325", "af63dc4c8601ec8c"));
        assert_ne!(of("ab"), of("ba"));
    }
}
