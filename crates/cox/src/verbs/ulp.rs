//! `cox ulp`: many copies of a program in one address space.
//!
//! The copies live in the address space of a process of their own, `cox-ulp-host`, which this session starts and supervises like any program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ledger::Provenance;
use machine::CpuSet;
use machine::limits::Who;
use outputs::diagnostics::{chain, say};
use outputs::{Output, has_no_reader};
use pack::engine::Wanted;
use pack::engine::cpu_choice::CpuChoice;
use report::ulp::{HostReport, SCHEMA_VERSION, UlpReport};
use session::{Engines, Launch, Limits, Target, provenance};

use crate::mpmd::{self, Copies};
use crate::prefixed::Prefixed;
use crate::{cli, exit, python};

/// File name of the host, and its folder relative to that of cox when it is installed.
pub const HOST: &str = "cox-ulp-host";
const INSTALLED: &str = "../libexec/coxswain";
/// Exit codes as in env(1) and shells: the program was not found, or it cannot be executed.
const NOT_FOUND: u8 = 127;
pub const CANNOT_EXECUTE: u8 = 126;

/// Runs the ULPs, prints a summary, and returns the exit code.
pub fn ulp(options: &cli::Ulp) -> Result<u8> {
    let json = Output::wanted(options.json.as_deref())?;
    let copies = copies(options)?;
    let count = copies.iter().map(|copies| copies.count as usize).sum();
    let host = host()?;
    let folder = tempfile::Builder::new().prefix("cox-ulp.").tempdir().context("no temporary folder")?;
    let report = folder.path().join("outcome");
    let rank = options.env_rank.clone().unwrap_or_default();
    let mut command: Vec<OsString> = vec![host.clone().into(), report.clone().into(), rank.into()];
    let flags = [(options.coupled, "coupled"), (options.strace, "strace"), (options.backtrace, "backtrace")];
    let flags: Vec<&str> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
    command.push(flags.join(",").into());
    let prefixed = options.prefix_output.then(|| Prefixed::listen(folder.path(), count)).transpose();
    let prefixed = prefixed.context("cannot read the outputs of the ULPs")?;
    command.push(prefixed.as_ref().map(|prefixed| prefixed.path.clone()).unwrap_or_default().into());
    for Copies { count, words } in copies {
        let name = words.first().context("no program")?;
        let Some(program) = session::launch::file_of(name) else { return Ok(refuse(name)) };
        let program = python::instead_of(&program, &host).unwrap_or(program);
        command.push(count.to_string().into());
        command.push((words.len() + 1).to_string().into());
        command.push(program.into());
        command.extend(words);
    }
    let target = Target::Launch(vec![Launch { command, cpus: cpus(options)?, ..Launch::default() }]);
    let outcome = session::run(&target, Engines::new(), Limits::default());
    // Also after an error: what ULPs have printed must not be lost. An error here must not hide how they ended.
    if let Some(Err(error)) = prefixed.map(Prefixed::finish) {
        say(&chain(&error));
    }
    let outcome = outcome?;
    let wall_ns = outcome.ended.launched.first().map_or(0, |one| one.end_ns.saturating_sub(one.start_ns));
    let code = exit::after(&outcome.ended, false, &outcome.findings.unrestored());
    // Without the file, the host has not run the ULPs to their end, and has said why.
    if let Ok(text) = fs::read(&report) {
        let host: HostReport = serde_json::from_slice(&text).context("the outcome of the ULPs")?;
        if !options.quiet {
            say(&host.summary(wall_ns));
        }
        if options.stats {
            host.stats().iter().for_each(|line| say(line));
        }
        // The ULPs have run: a failure does not change the exit code.
        let written = json.map_or(Ok(()), |output| write(output, options, wall_ns, host));
        if let Err(error) = written
            && !has_no_reader(&error)
        {
            say(&chain(&error));
        }
    } else if json.is_some() {
        say("no JSON is written: the host of the ULPs has not come to its end");
    }
    Ok(code)
}

/// Writes what became of the ULPs as JSON.
fn write(output: Output, options: &cli::Ulp, wall_ns: u64, host: HostReport) -> Result<()> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let command = match &options.mpmd {
        Some(file) => vec!["--mpmd".to_owned(), file.display().to_string()],
        None => options.program.iter().map(text).collect(),
    };
    let provenance = Provenance { command, ..provenance::here("cox", None) };
    let cox_version = env!("CARGO_PKG_VERSION").to_owned();
    let report = UlpReport { schema_version: SCHEMA_VERSION, cox_version, provenance, wall_ns, host };
    output.write(&serde_json::to_vec_pretty(&report)?)
}

/// Returns what is to run.
fn copies(options: &cli::Ulp) -> Result<Vec<Copies>> {
    match (&options.mpmd, options.count) {
        (Some(file), _) => mpmd::read(file),
        (None, Some(count)) => Ok(vec![Copies { count, words: options.program.clone() }]),
        (None, None) => bail!("give -n or --mpmd"),
    }
}

/// Returns the CPUs on which the host, its carriers and all ULPs run; `None`: those of cox.
fn cpus(options: &cli::Ulp) -> Result<Option<CpuSet>> {
    if options.cpus.is_none() && options.ncpus.is_none() {
        return Ok(None);
    }
    let wanted = Wanted::of(options.cpus.clone(), options.ncpus)?;
    CpuChoice::of(Who::Own)?.choose(&wanted).map(Some)
}

/// Says why a program cannot be executed. Returns the exit code, as shells have it.
pub fn refuse(name: &OsStr) -> u8 {
    let (code, why) = match Path::new(name) {
        path if !name.as_bytes().contains(&b'/') => (NOT_FOUND, format!("{}: not found on PATH", path.display())),
        path if path.exists() => (CANNOT_EXECUTE, format!("{}: not executable", path.display())),
        path => (NOT_FOUND, format!("{}: no such file", path.display())),
    };
    say(&format!("cannot run {why}"));
    code
}

/// Returns the path of the host: next to this executable, or where `make install` puts it.
pub fn host() -> Result<PathBuf> {
    let own = env::current_exe().context("cox does not find itself")?;
    let folder = own.parent().context("cox has no folder")?;
    let places = [folder.join(HOST), folder.join(INSTALLED).join(HOST)];
    let found = places.into_iter().find_map(|place| place.canonicalize().ok());
    found.with_context(|| format!("{HOST} is not installed beside cox"))
}
