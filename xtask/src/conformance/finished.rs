//! The log of finished tests: a full run takes hours, so a run that was interrupted continues where it stopped.
//!
//! The log file has one line per [`Finished`], written as soon as the test is finished. An interrupted run loses only the tests that are running. The
//! first line describes what was tested. If that was another build of cox, another suite or another time limit, the file is renamed, and a new log
//! begins.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::judge::Verdict;
use super::session::Overlap;

/// Number of runs per verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Runs that ended in the same way as without cox, with the same output.
    pub same: u64,
    /// Runs that ended in the same way as without cox, but printed their lines in another order. If the test does not prescribe its output, runs that
    /// printed other lines count here, too.
    pub other_output: u64,
    /// Runs that ended in another way than without cox, or printed other lines.
    pub differ: u64,
    /// Runs that did not end within the limit.
    pub hang: u64,
}

impl Counts {
    /// Counts `times` runs with this verdict.
    pub fn count(&mut self, verdict: Verdict, times: u32) {
        *match verdict {
            Verdict::Same => &mut self.same,
            Verdict::OtherOutput => &mut self.other_output,
            Verdict::Differs => &mut self.differ,
            Verdict::Hangs => &mut self.hang,
        } += u64::from(times);
    }

    /// Adds other counts.
    pub fn add(&mut self, other: Counts) {
        self.same += other.same;
        self.other_output += other.other_output;
        self.differ += other.differ;
        self.hang += other.hang;
    }
}

/// The results of a test with one backend, or why it could not be judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Name of the test.
    pub test: String,
    /// The backend; `None` if the results in `aside` apply to all backends.
    pub backend: Option<String>,
    /// Requested number of runs with each number of threads.
    pub times: u32,
    /// Number of runs per verdict, by number of threads. If cox failed with a number of threads, the counts of this number are all 0.
    pub counts: BTreeMap<u32, Counts>,
    /// Why the test could not be judged, by number of threads (0: any number).
    pub aside: BTreeMap<u32, String>,
    /// What cox's OpenMP runtime did while the test ran.
    pub overlap: Overlap,
    /// Descriptions of differences and hangs, by number of threads (0: any number).
    pub findings: Vec<(u32, String)>,
}

impl Finished {
    /// Returns whether the test could not be tried at all: it did not build, it could not run without cox, or cox failed.
    fn has_failed(&self) -> bool {
        let cox_failed = !self.counts.is_empty() && self.counts.values().all(|counts| *counts == Counts::default());
        self.aside.contains_key(&0) || cox_failed
    }

    /// Returns whether nothing is left to run for this test, backend and number of threads. This is so if the results include `times` such runs, or
    /// the reason why the test could not be judged.
    fn covers(&self, test: &str, backend: &str, threads: u32, times: u32) -> bool {
        let is_aside = self.aside.contains_key(&threads) || self.aside.contains_key(&0);
        let has_run = self.times >= times && self.counts.contains_key(&threads);
        self.test == test && self.backend.as_ref().is_none_or(|ours| ours == backend) && (is_aside || has_run)
    }
}

/// The log of all finished tests, of this run and of the interrupted runs that it continues.
#[derive(Debug)]
pub struct Log {
    all: BTreeMap<String, Vec<Finished>>,
    file: Option<(PathBuf, File)>,
}

/// What is tested: the first line of the log file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tested {
    suite: PathBuf,
    limit_s: u64,
    files: Vec<Stamped>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamped {
    file: PathBuf,
    bytes: u64,
    /// Modification time of the file, seconds and nanoseconds.
    changed: (i64, i64),
}

impl Tested {
    fn new(suite: &Path, cox: &Path, limit_s: u64) -> Tested {
        let stamp = |file: PathBuf| {
            let status = file.metadata().ok()?;
            Some(Stamped { file, bytes: status.len(), changed: (status.mtime(), status.mtime_nsec()) })
        };
        let files = [cox.to_owned(), cox.with_file_name("libcox_preload.so")];
        Tested { suite: suite.to_owned(), limit_s, files: files.into_iter().filter_map(stamp).collect() }
    }
}

/// Returns an unused file name to which an old log can be renamed.
fn free_name(path: &Path) -> PathBuf {
    let named = |number: u32| PathBuf::from(format!("{}.before.{number}", path.display()));
    (1..).map(named).find(|name| !name.exists()).unwrap_or_else(|| named(0))
}

impl Log {
    /// Makes a log without a file.
    #[must_use]
    pub fn unwritten() -> Log {
        Log { all: BTreeMap::new(), file: None }
    }

    /// Continues the log in a file. If the file is from another suite, another build of cox or another limit, it is renamed, and a new log begins.
    /// Tests that could not be tried, for example because a compiler was missing, are tried again.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path, suite: &Path, cox: &Path, limit_s: u64) -> Result<Log> {
        let named = || format!("the log of finished tests '{}'", path.display());
        let tested = Tested::new(suite, cox, limit_s);
        // If a run was killed, the last line may be incomplete, and may end within a UTF-8 character.
        let text = match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            bytes => String::from_utf8_lossy(&bytes.with_context(named)?).into_owned(),
        };
        let mut lines = text.lines();
        let is_ours = lines.next().and_then(|line| serde_json::from_str(line).ok()).as_ref() == Some(&tested);
        let mut all: BTreeMap<String, Vec<Finished>> = BTreeMap::new();
        if is_ours {
            let read = lines.filter_map(|line| serde_json::from_str::<Finished>(line).ok());
            for one in read.filter(|one| !one.has_failed()) {
                all.entry(one.test.clone()).or_default().push(one);
            }
        } else if !text.is_empty() {
            let before = free_name(path);
            eprintln!(
                "conformance: {} is from another build of cox, another suite or another limit; renamed to {}",
                path.display(),
                before.display()
            );
            fs::rename(path, before).with_context(named)?;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(named)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).with_context(named)?;
        let mut log = Log { all, file: Some((path.to_owned(), file)) };
        if !is_ours {
            log.write(&serde_json::to_string(&tested)?)?;
        } else if !text.ends_with('\n') {
            log.write("")?;
        }
        Ok(log)
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        file.write_all(format!("{line}\n").as_bytes()).with_context(|| path.display().to_string())
    }

    /// Appends the results of a test that has just finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn enter(&mut self, finished: Finished) -> Result<()> {
        self.write(&serde_json::to_string(&finished)?)?;
        self.all.entry(finished.test.clone()).or_default().push(finished);
        Ok(())
    }

    /// Returns the numbers of threads, among `threads`, with which a test still has to be run `times` times.
    #[must_use]
    pub fn left(&self, test: &str, backend: &str, threads: &[u32], times: u32) -> Vec<u32> {
        let all = self.all.get(test).map_or(&[][..], Vec::as_slice);
        let is_covered = |threads: u32| all.iter().any(|one| one.covers(test, backend, threads, times));
        threads.iter().copied().filter(|threads| !is_covered(*threads)).collect()
    }

    /// Returns all results, sorted by test.
    pub fn all(&self) -> impl Iterator<Item = &Finished> {
        self.all.values().flatten()
    }

    /// Returns the counts of one test.
    #[must_use]
    pub fn of(&self, test: &str) -> Counts {
        let mut sum = Counts::default();
        let all = self.all.get(test).into_iter().flatten();
        all.flat_map(|one| one.counts.values()).for_each(|counts| sum.add(*counts));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(test: &str, backend: Option<&str>, threads: &[u32], times: u32) -> Finished {
        let one = |threads: &u32| (*threads, Counts { same: u64::from(times), ..Counts::default() });
        let counts = threads.iter().map(one).collect();
        Finished { test: test.into(), backend: backend.map(str::to_owned), times, counts, ..Finished::default() }
    }

    #[test]
    fn what_is_left_is_what_has_not_run_so_often() {
        let mut log = Log::unwritten();
        log.enter(finished("a", Some("bpf"), &[1, 4], 2)).unwrap();
        assert_eq!(log.left("a", "bpf", &[1, 2, 4], 1), [2]);
        assert_eq!(log.left("a", "bpf", &[1, 2, 4], 3), [1, 2, 4]);
        assert_eq!(log.left("a", "perf", &[1], 1), [1]);
        assert_eq!(log.left("b", "bpf", &[1], 1), [1]);
        let aside = Finished { aside: [(2, "fails".to_owned())].into(), ..finished("a", None, &[], 1) };
        log.enter(aside).unwrap();
        assert_eq!(log.left("a", "bpf", &[1, 2, 4], 3), [1, 4]);
        let broken = Finished { aside: [(0, "broken".to_owned())].into(), ..finished("b", None, &[], 1) };
        log.enter(broken).unwrap();
        assert!(log.left("b", "perf", &[1, 8], 200).is_empty());
        assert_eq!(log.of("a").same, 4);
    }

    #[test]
    fn a_file_is_gone_on_with_unless_another_cox_was_tested() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let open = || Log::open(&at("new/log"), &at("suite"), &at("cox"), 30).unwrap();
        fs::write(at("cox"), "1").unwrap();
        open().enter(finished("a", Some("bpf"), &[1], 1)).unwrap();
        // Killed in the middle of a line.
        OpenOptions::new().append(true).open(at("new/log")).unwrap().write_all(b"{\"test\":\"\xc3").unwrap();
        open().enter(finished("c", Some("bpf"), &[1], 1)).unwrap();
        // Without a compiler, and without cox.
        let unbuilt = Finished { aside: [(0, "no compiler".to_owned())].into(), ..finished("d", None, &[], 1) };
        open().enter(unbuilt).unwrap();
        open().enter(finished("e", Some("bpf"), &[1], 0)).unwrap();
        let names: Vec<_> = open().all().map(|one| one.test.clone()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(Log::open(&at("new/log"), &at("suite"), &at("cox"), 60).unwrap().all().count(), 0);
        fs::write(at("cox"), "12").unwrap();
        assert_eq!(open().all().count(), 0);
        assert_eq!(Log::open(&at("new/log"), &at("other"), &at("cox"), 30).unwrap().all().count(), 0);
        assert!(String::from_utf8_lossy(&fs::read(at("new/log.before.1")).unwrap()).contains("\"c\""));
        assert!(at("new/log.before.3").exists());
    }
}
