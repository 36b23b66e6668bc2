//! Skips tests that cannot run on this machine.
//!
//! A skipped test writes one line, `skipped: NAME: REASON`, and does not fail. The test harness hides the output of passing tests, so the line goes
//! directly to standard error, and to the end of the file in `COX_TEST_SKIPPED`.
//!
//! A skip is not a pass. `COX_TEST_REQUIRE` lists what this machine has ([`Need::word`], separated by commas): a test that would be skipped because
//! one of these is missing fails instead. `all` requires everything.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// What a test needs that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root privileges.
    Root,
    /// eBPF: a kernel that loads cox's programs.
    Bpf,
    /// perf(1), and the right to record with it.
    Perf,
    /// Two CPUs or more, all of which the test may use.
    Cpus,
    /// Namespaces of mounts, processes and users, and the right to trace processes.
    Namespaces,
    /// Control groups that can be made and limited.
    Cgroup,
    /// A slow disk: device-mapper and loop devices.
    SlowDisk,
    /// File capabilities: setcap(8), and a place that is not mounted nosuid.
    Capabilities,
    /// A machine that is otherwise idle while the test measures.
    Quiet,
    /// The browser Chromium.
    Browser,
    /// An MPI library with its compiler and launcher.
    Mpi,
    /// LLVM's OpenMP runtime and a compiler for it.
    Libomp,
    /// GCC's own tests of libgomp (package gcc-12-source, unpacked by `make suite`).
    LibgompTests,
    /// Python 3, and Perfetto's classes for it (`make python-packages`).
    Python,
    /// QEMU, what the guest's file system is made with, and a kernel for it (`make vm-kernel`).
    Vm,
    /// A program from another Debian package.
    Programs,
    /// A file of this workspace that `make test` builds beforehand.
    Built,
}

impl Need {
    /// All needs.
    pub const ALL: [Need; 17] = [
        Need::Root,
        Need::Bpf,
        Need::Perf,
        Need::Cpus,
        Need::Namespaces,
        Need::Cgroup,
        Need::SlowDisk,
        Need::Capabilities,
        Need::Quiet,
        Need::Browser,
        Need::Mpi,
        Need::Libomp,
        Need::LibgompTests,
        Need::Python,
        Need::Vm,
        Need::Programs,
        Need::Built,
    ];

    /// Returns the word for it in `COX_TEST_REQUIRE`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Bpf => "bpf",
            Need::Perf => "perf",
            Need::Cpus => "cpus",
            Need::Namespaces => "namespaces",
            Need::Cgroup => "cgroup",
            Need::SlowDisk => "slow-disk",
            Need::Capabilities => "capabilities",
            Need::Quiet => "quiet",
            Need::Browser => "browser",
            Need::Mpi => "mpi",
            Need::Libomp => "libomp",
            Need::LibgompTests => "libgomp-tests",
            Need::Python => "python",
            Need::Vm => "vm",
            Need::Programs => "programs",
            Need::Built => "built",
        }
    }
}

/// Prints that `test` is skipped, and why.
///
/// # Panics
/// When `COX_TEST_REQUIRE` requires the need, or contains an unknown word.
pub fn skip(test: &str, need: Need, reason: impl fmt::Display) {
    let line = line(test, need, &reason.to_string(), &std::env::var("COX_TEST_REQUIRE").unwrap_or_default());
    write(&line);
}

/// Returns `has`. If it is false, skips `test`.
#[must_use]
pub fn has(has: bool, test: &str, need: Need, reason: impl fmt::Display) -> bool {
    if !has {
        skip(test, need, reason);
    }
    has
}

/// Returns whether this process is root. If not, skips `test`.
#[must_use]
pub fn is_root(test: &str) -> bool {
    has(rustix::process::geteuid().is_root(), test, Need::Root, "needs root")
}

/// Returns whether `program` is on PATH. If not, skips `test`.
#[must_use]
pub fn installed(test: &str, need: Need, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    has(found, test, need, format_args!("needs {program}"))
}

/// Prints the skip lines of another process's tests again, with `more` appended to each.
pub fn hand_on(stderr: &str, more: &str) {
    stderr.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| write(&format!("{line}{more}\n")));
}

fn line(test: &str, need: Need, reason: &str, required: &str) -> String {
    let known = |word: &str| word == "all" || Need::ALL.iter().any(|need| need.word() == word);
    let words: Vec<&str> = required.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let unknown: Vec<&&str> = words.iter().filter(|word| !known(word)).collect();
    assert!(unknown.is_empty(), "COX_TEST_REQUIRE: unknown: {unknown:?}");
    let is_required = words.iter().any(|word| [need.word(), "all"].contains(word));
    assert!(!is_required, "{test} cannot run: {reason}; COX_TEST_REQUIRE has {}", need.word());
    format!("skipped: {test}: {}\n", reason.trim().replace('\n', " "))
}

fn write(line: &str) {
    // A single write(2) keeps the line together, even if other processes write at the same time.
    let _ = std::io::stderr().write_all(line.as_bytes());
    let Some(file) = std::env::var_os("COX_TEST_SKIPPED") else { return };
    // A test that runs as another user may not be permitted to write the file; standard error must then suffice.
    let opened = OpenOptions::new().append(true).open(Path::new(&file));
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line() {
        assert_eq!(line("a_test", Need::Perf, "perf failed\nbadly\n", ""), "skipped: a_test: perf failed badly\n");
        assert_eq!(line("a_test", Need::Perf, "no perf", "root, bpf"), "skipped: a_test: no perf\n");
    }

    #[test]
    #[should_panic(expected = "a_test cannot run: needs root; COX_TEST_REQUIRE has root")]
    fn what_is_required_is_not_skipped() {
        line("a_test", Need::Root, "needs root", "bpf, root");
    }

    #[test]
    #[should_panic(expected = "a_test cannot run: not quiet; COX_TEST_REQUIRE has quiet")]
    fn everything_can_be_required() {
        line("a_test", Need::Quiet, "not quiet", "all");
    }

    #[test]
    #[should_panic(expected = "COX_TEST_REQUIRE: unknown: [\"bfp\"]")]
    fn a_word_that_is_misspelt_is_a_fault() {
        line("a_test", Need::Root, "needs root", "bfp");
    }

    #[test]
    fn every_need_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<&str> = Need::ALL.iter().map(|need| need.word()).collect();
        assert_eq!(words.len(), Need::ALL.len());
    }
}
