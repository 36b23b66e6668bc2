//! The command line of `cargo xtask conformance`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;

/// The backends of `cox run --overlap`.
const BACKENDS: [&str; 5] = ["bpf", "perf", "standby-idle", "leader", "off"];

/// Runs a folder's OpenMP tests without cox and under `cox run --overlap`, and compares the runs.
///
/// Every source with a main function is a test. Tests of gcc's testsuites are built as their dg- directives say, tests of LLVM as their RUN lines
/// say, and all others with gcc, g++ or gfortran and -O2 -fopenmp. Programs that are already built are tests, too. Each test first runs twice without
/// cox; a test that fails, or ends in two different ways, is set aside and listed. Then the test runs with each backend, and must end in the same
/// way, with the same lines in any order. Exit code: 0 all the same, 1 differences or hangs, 2 nothing could be compared, 3 not finished (--for).
#[derive(Debug, Parser)]
#[command(name = "xtask conformance", bin_name = "cargo xtask conformance")]
pub struct Options {
    /// The folder of tests
    #[arg(long, value_name = "DIR")]
    pub suite: PathBuf,
    /// Backends; default: all that work here. A backend that is named but does not work is an error
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = BACKENDS)]
    pub backends: Vec<String>,
    /// Numbers of threads (OMP_NUM_THREADS)
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values_t = [1, 2, 4, 8], value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Vec<u32>,
    /// Only tests whose names contain one of these words
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub filter: Vec<String>,
    /// Only tests that this file names, one per line; # begins a comment
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Number of runs of each test that makes tasks, with each backend and number of threads, to find rare faults at the start of a program's first
    /// parallel region; other tests run once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Number of tests that run at the same time; default: number of CPUs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Seconds after which a run that has not ended counts as a hang
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// Store results in FILE, and run only tests that have no result there. If FILE is from another build of cox, another suite or another limit, it
    /// is renamed and not used. The table contains all results in FILE for the chosen backends and numbers of threads. Tests that could not be run
    /// are tried again
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// After this many seconds, start no further test or backend; 0: only print the results in FILE
    #[arg(long = "for", value_name = "SECONDS", requires = "resume")]
    pub time: Option<u64>,
    /// The program cox; default: target/release/cox
    #[arg(long, value_name = "FILE")]
    pub cox: Option<PathBuf>,
    /// Folder in which programs are built; default: target/conformance/built/NAME
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
}

impl Options {
    /// Returns the backends to use: the named ones, or all.
    #[must_use]
    pub fn backends(&self) -> Vec<String> {
        if self.backends.is_empty() { BACKENDS.map(str::to_owned).into() } else { self.backends.clone() }
    }

    /// Returns the number of tests that run at the same time.
    #[must_use]
    pub fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cpus, usize::from)
    }

    /// Returns the choice of tests.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn choice(&self) -> Result<Choice> {
        let names = self.list.as_deref().map(names_in).transpose()?;
        Ok(Choice { words: self.filter.clone(), names })
    }
}

/// The choice of tests to run.
#[derive(Debug)]
pub struct Choice {
    words: Vec<String>,
    names: Option<BTreeSet<String>>,
}

impl Choice {
    /// Returns whether a test is chosen.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        let is_named = self.names.as_ref().is_none_or(|names| names.contains(name));
        is_named && (self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str())))
    }

    /// Checks that the list names only tests of the suite.
    ///
    /// # Errors
    /// When the list contains unknown names. They must not be ignored: if all names were unknown, no test would run, and none could fail.
    pub fn check<'a>(&self, tests: impl Iterator<Item = &'a String>) -> Result<()> {
        let tests: BTreeSet<&str> = tests.map(String::as_str).collect();
        let unknown: Vec<_> =
            self.names.iter().flatten().filter(|name| !tests.contains(name.as_str())).cloned().collect();
        ensure!(unknown.is_empty(), "the list names tests that the suite does not have: {}", unknown.join(", "));
        Ok(())
    }
}

fn names_in(list: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(list).with_context(|| format!("the list '{}'", list.display()))?;
    let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
