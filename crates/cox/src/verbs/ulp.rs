//! `cox ulp`: many copies of a program in one address space.
//!
//! The copies live in the address space of a process of their own, `cox-ulp-host`, which this session starts and supervises like any program.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use advise::numbers::{counted, duration, memory};
use anyhow::{Context, Result, bail};
use machine::CpuSet;
use machine::limits::Who;
use outputs::diagnostics::{chain, say};
use pack::engine::Wanted;
use pack::engine::cpu_choice::CpuChoice;
use serde::Deserialize;
use session::{Engines, Launch, Limits, Target};
use syscalls::Sysno;

use crate::mpmd::{self, Copies};
use crate::prefixed::Prefixed;
use crate::{cli, exit, python};

/// File name of the host, and its folder relative to that of cox when it is installed.
pub const HOST: &str = "cox-ulp-host";
const INSTALLED: &str = "../libexec/coxswain";
/// Exit codes as in env(1) and shells: the program was not found, or it cannot be executed.
const NOT_FOUND: u8 = 127;
pub const CANNOT_EXECUTE: u8 = 126;
/// Maximum number of ULPs that the summary names for one exit code.
const NAMED: usize = 8;
/// Maximum number of system calls that `--stats` names.
const NAMED_CALLS: usize = 4;

/// Runs the ULPs, prints a summary, and returns the exit code.
pub fn ulp(options: &cli::Ulp) -> Result<u8> {
    let copies = copies(options)?;
    let count = copies.iter().map(|copies| copies.count as usize).sum();
    let host = host()?;
    let folder = tempfile::Builder::new().prefix("cox-ulp.").tempdir().context("no temporary folder")?;
    let report = folder.path().join("outcome");
    let rank = options.env_rank.clone().unwrap_or_default();
    let mut command: Vec<OsString> = vec![host.clone().into(), report.clone().into(), rank.into()];
    let flags = [(options.coupled, "coupled"), (options.strace, "strace")];
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
    let code = exit::after(&outcome.ended, false);
    // Without the file, the host has not run the ULPs to their end, and has said why.
    if let (Ok(text), false) = (fs::read(&report), options.quiet) {
        let told: Told = serde_json::from_slice(&text).context("the outcome of the ULPs")?;
        let further = if told.spawned > 0 { format!(" · {} more by ULPs", told.spawned) } else { String::new() };
        say(&(summary(&told.ended, Duration::from_nanos(wall_ns)) + &further));
        if options.stats {
            told.stats().iter().for_each(|line| say(line));
        }
    }
    Ok(code)
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

/// What the host tells when all ULPs have ended.
#[derive(Debug, Deserialize)]
struct Told {
    /// The exit code of each, or minus the number of the signal that ended it.
    ended: Vec<i32>,
    carriers: usize,
    coupled: Option<String>,
    yields: u64,
    coupled_yields: u64,
    stays: u64,
    trapped: u64,
    /// Which system calls have ended stays, by their numbers, and how often.
    calls: Vec<(usize, u64)>,
    /// CPU time of the carriers, and their page faults: all, and those that waited for storage.
    carrier_cpu_ns: u64,
    faults: u64,
    major_faults: u64,
    /// The most memory that the address space has had, and the most ULPs that ran at once.
    peak_bytes: Option<u64>,
    at_once: u64,
    /// How long it took to load and start so many.
    starting_ns: u64,
    started: u64,
    /// How many further ones ULPs have started.
    spawned: u64,
}

impl Told {
    /// Returns the lines on where the ULPs ran, and on what they needed.
    fn stats(&self) -> Vec<String> {
        let coupled = format!("{} yields while coupled", self.coupled_yields);
        let mut lines = match &self.coupled {
            Some(why) => vec![format!("no carriers ({why}) · {coupled}")],
            None => {
                let (carriers, yields) = (self.carriers, self.yields);
                let on_them = format!("carriers: {carriers} · {yields} yields on them, {coupled}");
                let cpu = duration(self.carrier_cpu_ns);
                let (faults, major) = (counted(self.faults, "page fault"), self.major_faults);
                vec![
                    format!("{on_them} · stays on them: {}{}", self.stays, self.ends_of_stays()),
                    format!("CPU time of the carriers: {cpu} · {faults} on them, {major} of which waited for storage"),
                ]
            }
        };
        let peak =
            |bytes| format!("memory: at most {}, with {} at once · ", memory(bytes), counted(self.at_once, "ULP"));
        let (all, each) = (duration(self.starting_ns), duration(self.starting_ns / self.started.max(1)));
        let starting = format!("{} loaded and started in {all}, {each} each", self.started);
        lines.push(self.peak_bytes.map(peak).unwrap_or_default() + &starting);
        lines
    }

    /// Returns what ended stays on carriers, the most frequent system calls first.
    fn ends_of_stays(&self) -> String {
        let mut calls = self.calls.clone();
        calls.sort_by_key(|(number, times)| (Reverse(*times), *number));
        let in_calls: u64 = calls.iter().map(|(_, times)| times).sum();
        let named = calls.iter().take(NAMED_CALLS).map(|(number, times)| match Sysno::new(*number) {
            Some(call) => format!("{} {times}", call.name()),
            None => format!("call {number} {times}"),
        });
        let mut parts: Vec<String> = named.collect();
        let others: u64 = calls.iter().skip(NAMED_CALLS).map(|(_, times)| times).sum();
        let rest = [("other calls", others), ("faults", self.trapped.saturating_sub(in_calls))];
        parts.extend(rest.iter().filter(|(_, times)| *times > 0).map(|(what, times)| format!("{what} {times}")));
        if parts.is_empty() { String::new() } else { format!(", ended by {}", parts.join(", ")) }
    }
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

/// Returns the line on how the ULPs ended. `ends`: the exit code of each, or minus the number of the signal that ended it.
fn summary(ends: &[i32], wall: Duration) -> String {
    let mut by_end: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (number, end) in ends.iter().enumerate() {
        by_end.entry(*end).or_default().push(number);
    }
    let ended = match by_end.iter().next() {
        Some((0, _)) if by_end.len() == 1 => "all exit 0".to_owned(),
        _ => by_end.iter().map(|(end, who)| of_one_kind(*end, who)).collect::<Vec<_>>().join(", "),
    };
    format!("{} {} · {:.2} s · {ended}", ends.len(), if ends.len() == 1 { "ULP" } else { "ULPs" }, wall.as_secs_f64())
}

/// Returns who ended in the same way.
fn of_one_kind(end: i32, who: &[usize]) -> String {
    let how = if end < 0 { format!("signal {}", -end) } else { format!("exit {end}") };
    let mut names: Vec<String> = who.iter().take(NAMED).map(usize::to_string).collect();
    if who.len() > NAMED {
        names.push(format!("and {} more", who.len() - NAMED));
    }
    format!("{how}: {}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stats_say_where_ulps_ran_or_why_not_on_carriers() {
        let mut told = Told {
            ended: vec![0; 4],
            carriers: 2,
            coupled: None,
            yields: 10,
            coupled_yields: 4,
            stays: 30,
            trapped: 29,
            calls: vec![(0, 3), (1, 9), (35, 3), (39, 2), (202, 4), (400, 1)],
            carrier_cpu_ns: 15_000_000,
            faults: 7,
            major_faults: 1,
            peak_bytes: Some(8 << 20),
            at_once: 3,
            starting_ns: 2_000_000,
            started: 4,
            spawned: 0,
        };
        let right = [
            "carriers: 2 · 10 yields on them, 4 yields while coupled · stays on them: 30, ended by write 9, futex 4, read 3, nanosleep 3, other calls 3, faults 7",
            "CPU time of the carriers: 15 ms · 7 page faults on them, 1 of which waited for storage",
            "memory: at most 8.0 MiB, with 3 ULPs at once · 4 loaded and started in 2.0 ms, 500 µs each",
        ];
        assert_eq!(told.stats(), right);
        (told.coupled, told.ended, told.peak_bytes) = (Some("as requested".to_owned()), vec![0], None);
        assert_eq!(
            told.stats(),
            ["no carriers (as requested) · 4 yields while coupled", "4 loaded and started in 2.0 ms, 500 µs each"]
        );
    }

    #[test]
    fn the_summary_names_who_did_not_end_well() {
        let of = |ends: &[i32]| summary(ends, Duration::from_millis(840));
        assert_eq!(of(&[0; 64]), "64 ULPs · 0.84 s · all exit 0");
        assert_eq!(of(&[3]), "1 ULP · 0.84 s · exit 3: 0");
        assert_eq!(of(&[0, -11, 3, 0]), "4 ULPs · 0.84 s · signal 11: 1, exit 0: 0 3, exit 3: 2");
        assert!(of(&[1; 20]).ends_with("exit 1: 0 1 2 3 4 5 6 7 and 12 more"));
    }
}
