//! `cargo xtask`: checks of this workspace that no general tool makes (`arrows`, `circles`, `words`, `lines`), and tools for tests.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use xtask::conformance::options::Options;
use xtask::conformance::{self, Ended, rounds};
use xtask::supervise::supervise;
use xtask::{arrows, benchmarks, btf, circles, lines, rooms, sample, vm, walk, words, workspace};

const USAGE: &str = "usage: xtask CHECK...
  arrows   crates depend on each other only as the plan in xtask/src/rooms.rs allows
  circles  the files of a crate have no dependency cycles
  words    no name and no message contains a word that xtask/words.tsv has retired
  lines    no source file has more than 800 lines; files with more than 400 are listed

usage: xtask supervise SECONDS PROGRAM [ARGS]...
  runs a test program with a time limit and default signal actions, and kills processes that it leaves behind

usage: xtask conformance --suite DIR [OPTIONS]
  runs OpenMP tests of other projects without cox and under cox run --overlap, and compares them; see --help

usage: xtask walk [OPTIONS]
  runs README.md's commands, and what newcomers try next, in a fresh Debian; see --help

usage: xtask btf [--newest]
  checks the CO-RE relocations of the BPF programs against the types of Debian's kernels; see --help

usage: xtask vm [--all] [--kernel VERSION | --image PATH] [OPTIONS]
  runs cox on Debian's kernels in virtual machines, and compares what works with kernel/vm/expected.txt; see --help

usage: xtask benchmarks DIR
  builds NPB, LULESH, HPCG and miniFE from source archives in DIR, for cox-bench verdicts --programs DIR; see docs/bench.md

usage: xtask sample [OPTIONS]
  draws comments and messages at random, for a reader who does not know the code; see --help

usage: xtask rounds ORDER RESULT
  runs one test many times; only xtask conformance uses this";

/// Exit code of a conformance run that reached its time limit before all tests were finished.
const UNFINISHED: u8 = 3;

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    if let [verb, seconds, command @ ..] = words.as_slice()
        && verb == "supervise"
    {
        return run_supervised(seconds, command);
    }
    if let [verb, order, result] = words.as_slice()
        && verb == "rounds"
    {
        return told("rounds", rounds::run(Path::new(order), Path::new(result)).map(|()| true));
    }
    if let [verb, folder] = words.as_slice()
        && verb == "benchmarks"
    {
        return told("benchmarks", benchmarks::run(Path::new(folder)));
    }
    if words.first().is_some_and(|verb| verb == "conformance") {
        return match conformance::run(&Options::parse_from(&words)) {
            Ok(Ended::Unfinished) => ExitCode::from(UNFINISHED),
            ended => told("conformance", ended.map(|ended| ended == Ended::Same)),
        };
    }
    if words.first().is_some_and(|verb| verb == "walk") {
        return told("walk", walk::run(&walk::options::Options::parse_from(&words)));
    }
    if words.first().is_some_and(|verb| verb == "btf") {
        return told("btf", btf::run(&btf::Options::parse_from(&words)));
    }
    if words.first().is_some_and(|verb| verb == "vm") {
        return told("vm", vm::run(&vm::options::Options::parse_from(&words)));
    }
    if words.first().is_some_and(|verb| verb == "sample") {
        return told("sample", sample::run(&sample::Options::parse_from(&words)));
    }
    let checks: Vec<String> = env::args().skip(1).collect();
    if checks.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let mut good = true;
    for check in &checks {
        let result = match check.as_str() {
            "arrows" => check_arrows(),
            "circles" => check_circles(),
            "lines" => check_lines(),
            "words" => check_words(),
            "--help" | "-h" => {
                println!("{USAGE}");
                Ok(true)
            }
            _ => {
                eprintln!("xtask: no check '{check}'\n{USAGE}");
                return ExitCode::from(2);
            }
        };
        good &= result.unwrap_or_else(|error| {
            eprintln!("xtask {check}: {error:#}");
            false
        });
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Converts the result of a check to an exit code: 0 if the check passed, 1 if it failed, 2 if it could not be made because of an error.
fn told(verb: &str, answer: Result<bool>) -> ExitCode {
    match answer {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(error) => {
            eprintln!("xtask {verb}: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run_supervised(seconds: &OsString, command: &[OsString]) -> ExitCode {
    let limit = seconds.to_str().and_then(|seconds| seconds.parse().ok()).context("SECONDS must be a whole number");
    match limit.and_then(|seconds| supervise(command, Duration::from_secs(seconds))) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask supervise: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn check_arrows() -> Result<bool> {
    let crates = workspace::crates()?;
    let faults = arrows::faults(&crates, rooms::ROOMS);
    for fault in &faults {
        eprintln!("arrows: {fault}");
    }
    if faults.is_empty() {
        let arrows: usize = crates.iter().map(|c| c.uses.len()).sum();
        println!("arrows: {arrows} dependencies between {} crates, all as planned", crates.len());
    }
    Ok(faults.is_empty())
}

fn check_circles() -> Result<bool> {
    let (found, files) = circles::of_workspace(&workspace::crates()?, &workspace::root())?;
    let (faults, unused) = circles::faults(&found, circles::EXCEPTIONS);
    for circle in &faults {
        eprintln!("circles: {circle}");
    }
    for exception in &unused {
        eprintln!("circles: no cycle below {}: remove its exception in xtask/src/circles/mod.rs", exception.below);
    }
    let good = faults.is_empty() && unused.is_empty();
    if good {
        println!("circles: {files} files, {} dependency cycles, all permitted", found.len());
    }
    Ok(good)
}

fn check_words() -> Result<bool> {
    let table = words::table(include_str!("../words.tsv"))?;
    let (hits, files) = words::of_workspace(&workspace::root(), &table)?;
    for hit in &hits {
        eprintln!("words: {hit}");
    }
    if hits.is_empty() {
        println!("words: none of the {} retired words in {files} files", table.len());
    }
    Ok(hits.is_empty())
}

fn check_lines() -> Result<bool> {
    let long = lines::longer_than(&workspace::root(), lines::SMELL)?;
    for file in &long {
        let mark = if file.lines > lines::FAULT { "FAULT" } else { "long" };
        println!("lines: {mark:5} {:5} {}", file.lines, file.path.display());
    }
    let faults = long.iter().filter(|file| file.lines > lines::FAULT).count();
    println!(
        "lines: {} files with more than {} lines, {faults} with more than {}",
        long.len(),
        lines::SMELL,
        lines::FAULT
    );
    Ok(faults == 0)
}
