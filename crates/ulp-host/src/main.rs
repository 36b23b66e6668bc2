//! `cox-ulp-host`: the process in whose address space the ULPs of `cox ulp` live. Users do not call it.
//!
//! It has no threads beside its carriers and their sentinels, has no files open while ULPs start (they would inherit them), and uses no memory allocator
//! beside that of its libc, whose break stays where it is. Its exit code is that of the first ULP, by number, that did not exit with 0.

mod backtrace;
mod crash_text;
mod sigpipe;

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use backtrace::Backtracer;
use serde_json::json;
use syscalls::Sysno;
use ulp::carriers::Wish;
use ulp::host::{self, Copies, Ended, OnCrash, Outcome, Wanted};
use ulp::program::image::{LoadError, Loader};

/// Exit codes: ULPs could not be started; the program cannot be executed as a ULP.
const FAILED: u8 = 125;
const CANNOT_EXECUTE: u8 = 126;

/// The command line: `cox-ulp-host REPORT RANK FLAGS READER {COUNT WORDS PROGRAM ARG…}…`. REPORT is a file for the outcome, RANK an environment variable or
/// empty, FLAGS are options of `cox ulp` with commas between them (`coupled`, `strace`, `backtrace`), READER is the socket of what reads the outputs of all, or
/// empty. For each program, WORDS is the number of words from PROGRAM to its last argument; the first one is its name.
struct Options {
    report: PathBuf,
    rank_variable: Option<String>,
    wish: Wish,
    shows_calls: bool,
    backtrace: bool,
    reader: Option<PathBuf>,
    programs: Vec<Program>,
}

/// Copies of a program.
struct Program {
    count: usize,
    file: PathBuf,
    arguments: Vec<OsString>,
}

impl Options {
    fn parse(words: impl Iterator<Item = OsString>) -> Result<Options> {
        let usage =
            || "usage: cox-ulp-host REPORT RANK FLAGS READER {COUNT WORDS PROGRAM ARG…}…; it is started by cox ulp";
        let words: Vec<OsString> = words.collect();
        let [report, rank, flags, reader, rest @ ..] = &words[..] else { bail!(usage()) };
        let (mut wish, mut shows_calls, mut backtrace) = (Wish::Policy, false, false);
        for flag in flags.to_str().context("FLAGS are no UTF-8")?.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "coupled" => wish = Wish::Coupled,
                "strace" => shows_calls = true,
                "backtrace" => backtrace = true,
                _ => bail!("{flag} is none of the FLAGS"),
            }
        }
        let rank = rank.to_str().context("the name of the variable is no UTF-8")?;
        let rank_variable = (!rank.is_empty()).then(|| rank.to_owned());
        let number = |word: &OsString| {
            word.to_str().and_then(|word| word.parse().ok()).context("COUNT and WORDS must be numbers")
        };
        let (mut programs, mut rest) = (Vec::new(), rest);
        while let [count, length, behind @ ..] = rest {
            let (own, others) = behind.split_at_checked(number(length)?).with_context(usage)?;
            let [file, arguments @ ..] = own else { bail!(usage()) };
            programs.push(Program { count: number(count)?, file: file.into(), arguments: arguments.to_vec() });
            rest = others;
        }
        if programs.is_empty() || !rest.is_empty() {
            bail!(usage());
        }
        let reader = (!reader.is_empty()).then(|| reader.into());
        Ok(Options { report: report.into(), rank_variable, wish, shows_calls, backtrace, reader, programs })
    }
}

fn main() -> ExitCode {
    if let Err(why) = arch::supported() {
        eprintln!("cox: {why}");
        return ExitCode::from(FAILED);
    }
    match Options::parse(std::env::args_os().skip(1)).and_then(|options| run(&options)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("cox: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<LoadError>() {
        Some(LoadError::Unfit { .. } | LoadError::Read { .. } | LoadError::Script { .. }) => CANNOT_EXECUTE,
        _ => FAILED,
    }
}

fn run(options: &Options) -> Result<u8> {
    sigpipe::restore();
    let text = |word: &OsString| CString::new(word.as_bytes()).context("a word contains a zero byte");
    let variable = |(name, value): (OsString, OsString)| {
        let mut bytes = name.into_vec();
        bytes.push(b'=');
        bytes.extend(value.as_bytes());
        CString::new(bytes).context("a variable contains a zero byte")
    };
    let copies = |program: &Program| {
        anyhow::Ok(Copies {
            count: program.count,
            loader: Loader::of(&program.file)?,
            arguments: program.arguments.iter().map(text).collect::<Result<_>>()?,
            name: program.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        })
    };
    let wanted = Wanted {
        copies: options.programs.iter().map(copies).collect::<Result<_>>()?,
        environment: std::env::vars_os().map(variable).collect::<Result<_>>()?,
        rank_variable: options.rank_variable.clone(),
        wish: options.wish,
        shows_calls: options.shows_calls,
        reader: options.reader.clone(),
        on_crash: options.backtrace.then(print_crashes),
    };
    let outcome = host::run(wanted)?;
    if let Some(limit) = outcome.full_of_mappings {
        eprintln!(
            "cox: the address space of the ULPs has reached its limit of {limit} mappings, and programs fail then; raise it: sysctl vm.max_map_count={}",
            10 * limit
        );
    }
    write(&options.report, &outcome)?;
    Ok(outcome.ended.iter().map(|ended| ended.shell_code()).find(|code| *code != 0).unwrap_or(0) as u8)
}

/// Returns the name of a system call.
fn call_name(number: usize) -> String {
    Sysno::new(number).map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}

/// Returns what prints where a ULP has crashed.
fn print_crashes() -> OnCrash {
    let mut backtracer = Backtracer::default();
    Box::new(move |crash| {
        // In one piece, beside what ULPs write. Where the standard error cannot be written, the report is lost.
        let report = backtracer.report(crash);
        let _ = sigpipe::without(|| std::io::stderr().write_all(report.as_bytes()));
    })
}

/// Writes what became of the ULPs, as `HostReport` of the crate `report`.
fn write(report: &Path, outcome: &Outcome) -> Result<()> {
    let code = |ended: &Ended| match ended {
        Ended::Exit(code) => *code,
        Ended::Signal(number) => -number,
    };
    let counts = &outcome.counts;
    let calls = outcome.calls.iter().map(|(number, times)| (call_name(*number), *times));
    let in_calls: u64 = outcome.calls.iter().map(|(_, times)| times).sum();
    let text = json!({
        "ends": outcome.ended.iter().map(code).collect::<Vec<i32>>(),
        "spawned": outcome.spawned,
        "carriers": outcome.carriers,
        "no_carriers": outcome.coupled,
        "yields": counts.yields,
        "coupled_yields": counts.coupled_yields,
        "stays": counts.stays,
        "stays_ended_by_calls": calls.collect::<BTreeMap<String, u64>>(),
        "stays_ended_by_faults": counts.trapped.saturating_sub(in_calls),
        "carrier_cpu_ns": outcome.used.cpu_ns,
        "coupled_cpu_ns": outcome.coupled_cpu_ns,
        "carrier_page_faults": outcome.used.faults,
        "carrier_major_page_faults": outcome.used.major_faults,
        "relieved": outcome.used.relieved,
        "peak_bytes": outcome.peak_bytes,
        "at_once": outcome.at_once,
        "started": outcome.started,
        "starting_ns": outcome.starting.as_nanos() as u64,
    });
    std::fs::write(report, text.to_string()).with_context(|| format!("cannot write {}", report.display()))
}
