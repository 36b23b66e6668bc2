//! What `cargo xtask conformance` is told.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;

/// How cox notices blocked threads, as `cox run --overlap` has it.
const BACKENDS: [&str; 5] = ["bpf", "perf", "standby-idle", "leader", "off"];

/// Runs a folder's OpenMP tests plain and under `cox run --overlap`, and compares.
///
/// Every source with a main is a test: of gcc's testsuites with their dg- directives, of LLVM's with their RUN lines, and any other one
/// (gcc, g++ or gfortran, -O2 -fopenmp). Programs that have been built are tests too. Each runs plain twice; one that fails or does not
/// end the same way twice is set aside and listed. Then it runs under each backend, and has to end in the same way, with the same
/// lines in any order. Exit code: 0 all the same, 1 differences or hangs, 2 nothing could be compared, 3 not finished (--for).
#[derive(Debug, Parser)]
#[command(name = "xtask conformance", bin_name = "cargo xtask conformance")]
pub struct Options {
    /// The folder of tests
    #[arg(long, value_name = "DIR")]
    pub suite: PathBuf,
    /// Backends; those that cannot work here are an error, without this option they are skipped
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = BACKENDS)]
    pub backends: Vec<String>,
    /// Numbers of threads (OMP_NUM_THREADS)
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values_t = [1, 2, 4, 8], value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Vec<u32>,
    /// Only tests whose names hold one of these words
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub filter: Vec<String>,
    /// Only tests that this file names, one a line; # begins a remark
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Runs of each test that makes tasks, with each backend and number of threads: what goes wrong when a program's first region
    /// begins goes wrong rarely. Other tests run once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Tests at a time; default: CPUs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Seconds until a run that has not ended is a hang
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// Keep in FILE what is finished, and do only what is not. What FILE says of another cox, suite or limit is put aside. The table is of all
    /// that FILE has for these numbers of threads and backends; what could not be tried is tried again
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Begin no test under a backend after so many seconds; 0: print what FILE has
    #[arg(long = "for", value_name = "SECONDS", requires = "resume")]
    pub time: Option<u64>,
    /// The program cox; default: target/release/cox
    #[arg(long, value_name = "FILE")]
    pub cox: Option<PathBuf>,
    /// Where programs are built; default: target/conformance/built/NAME
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
}

impl Options {
    /// The backends that are wanted; all when none are named.
    #[must_use]
    pub fn backends(&self) -> Vec<String> {
        if self.backends.is_empty() { BACKENDS.map(str::to_owned).into() } else { self.backends.clone() }
    }

    /// Tests at a time.
    #[must_use]
    pub fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cpus, usize::from)
    }

    /// What decides which tests are run.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn choice(&self) -> Result<Choice> {
        let names = self.list.as_deref().map(names_in).transpose()?;
        Ok(Choice { words: self.filter.clone(), names })
    }
}

/// Which tests are run.
#[derive(Debug)]
pub struct Choice {
    words: Vec<String>,
    names: Option<BTreeSet<String>>,
}

impl Choice {
    /// Whether a test is.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        let is_named = self.names.as_ref().is_none_or(|names| names.contains(name));
        is_named && (self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str())))
    }

    /// Names of the list that none of the tests has.
    ///
    /// # Errors
    /// When there are some: a list that names nothing would be passed by everything.
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
