//! The log of finished boots: `make vm-all` takes hours, so a run that was interrupted continues where it stopped.
//!
//! The first line describes what was tested. If that was another build of cox or another guest, the log begins anew. Each other line is a boot that ran
//! to its end. Its facts are compared again with the present table.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::facts::Fact;

/// A boot that ran to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The kernel's release.
    pub release: String,
    /// The words of the boot line.
    pub boot_line: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// What it has shown.
    pub facts: BTreeMap<String, Fact>,
}

/// The log.
#[derive(Debug, Default)]
pub struct Log {
    file: Option<PathBuf>,
    all: Vec<Finished>,
}

/// Describes what is tested: the size and the time of the last change of each program, and a checksum of the jobs.
#[must_use]
pub fn tested(programs: &[PathBuf], init: &str, jobs: &[String]) -> String {
    let stamp = |file: &PathBuf| {
        let status = file.metadata().ok()?;
        Some(format!("{} {} {}.{:09}", file.display(), status.len(), status.mtime(), status.mtime_nsec()))
    };
    // FNV-1a: it only has to differ when the text does.
    let sum =
        init.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut words: Vec<String> = programs.iter().filter_map(stamp).collect();
    words.push(format!("init {sum:016x} jobs {}", jobs.join(",")));
    words.join("; ")
}

impl Log {
    /// Continues the log in a file, if it is of the same test.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(file: &Path, tested: &str) -> Result<Log> {
        let named = || format!("the log of finished boots '{}'", file.display());
        let text = match fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            bytes => String::from_utf8_lossy(&bytes.with_context(named)?).into_owned(),
        };
        let head = serde_json::to_string(tested)?;
        let mut lines = text.lines();
        let all: Vec<Finished> = match lines.next() {
            // A killed run may leave an incomplete last line.
            Some(first) if first == head => lines.filter_map(|line| serde_json::from_str(line).ok()).collect(),
            _ => Vec::new(),
        };
        let mut kept = format!("{head}\n");
        for one in &all {
            kept.push_str(&serde_json::to_string(one)?);
            kept.push('\n');
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(named)?;
        }
        fs::write(file, kept).with_context(named)?;
        Ok(Log { file: Some(file.to_owned()), all })
    }

    /// Returns a finished boot.
    #[must_use]
    pub fn get(&self, release: &str, boot_line: &str) -> Option<&Finished> {
        self.all.iter().find(|one| one.release == release && one.boot_line == boot_line)
    }

    /// Appends a boot that has just finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn enter(&mut self, finished: Finished) -> Result<()> {
        if let Some(file) = &self.file {
            let mut file = OpenOptions::new().append(true).open(file).with_context(|| file.display().to_string())?;
            writeln!(file, "{}", serde_json::to_string(&finished)?)?;
        }
        self.all.push(finished);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_continued_unless_another_cox_is_tested() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/log");
        let one = Finished { release: "6.1".to_owned(), seconds: 1.5, ..Finished::default() };
        Log::open(&file, "cox 1").unwrap().enter(one.clone()).unwrap();
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"release\":\"6.\xc3").unwrap();
        let log = Log::open(&file, "cox 1").unwrap();
        assert_eq!(log.get("6.1", ""), Some(&one));
        assert_eq!((log.get("6.1", "nohz_full=1"), log.get("6.", "")), (None, None));
        Log::open(&file, "cox 1").unwrap().enter(Finished { release: "6.12".to_owned(), ..one }).unwrap();
        assert!(Log::open(&file, "cox 1").unwrap().get("6.12", "").is_some());
        assert!(Log::open(&file, "cox 2").unwrap().get("6.1", "").is_none());
    }

    #[test]
    fn another_build_or_another_guest_is_another_test() {
        let folder = tempfile::tempdir().unwrap();
        let cox = folder.path().join("cox");
        fs::write(&cox, "1").unwrap();
        let of = |init| tested(std::slice::from_ref(&cox), init, &[]);
        let before = of("job a");
        assert_eq!(before, of("job a"));
        assert_ne!(before, of("job b"));
        assert_ne!(before, tested(std::slice::from_ref(&cox), "job a", &["run".to_owned()]));
        fs::write(&cox, "12").unwrap();
        assert_ne!(before, of("job a"));
    }
}
