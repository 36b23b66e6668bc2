//! `cox ulp`: many copies of a program in one address space.
//!
//! The copies live in the address space of a process of their own, `cox-ulp-host`, which this session starts and supervises like any program.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use machine::CpuSet;
use machine::limits::Who;
use outputs::diagnostics::say;
use pack::engine::Wanted;
use pack::engine::cpu_choice::CpuChoice;
use serde::Deserialize;
use session::{Engines, Launch, Limits, Target};

use crate::mpmd::{self, Copies};
use crate::{cli, exit};

/// File name of the host, and its folder relative to that of cox when it is installed.
const HOST: &str = "cox-ulp-host";
const INSTALLED: &str = "../libexec/coxswain";
/// Exit codes as in env(1) and shells: the program was not found, or it cannot be executed.
const NOT_FOUND: u8 = 127;
pub const CANNOT_EXECUTE: u8 = 126;
/// Maximum number of ULPs that the summary names for one exit code.
const NAMED: usize = 8;

/// Runs the ULPs, prints a summary, and returns the exit code.
pub fn ulp(options: &cli::Ulp) -> Result<u8> {
    let copies = copies(options)?;
    let host = host()?;
    let folder = tempfile::Builder::new().prefix("cox-ulp.").tempdir().context("no temporary folder")?;
    let report = folder.path().join("outcome");
    let rank = options.env_rank.clone().unwrap_or_default();
    let mut command: Vec<OsString> = vec![host.into(), report.clone().into(), rank.into()];
    command.push(if options.coupled { "coupled" } else { "policy" }.into());
    for Copies { count, words } in copies {
        let name = words.first().context("no program")?;
        let Some(program) = session::launch::file_of(name) else { return Ok(refuse(name)) };
        command.push(count.to_string().into());
        command.push((words.len() + 1).to_string().into());
        command.push(program.into());
        command.extend(words);
    }
    let target = Target::Launch(vec![Launch { command, cpus: cpus(options)?, ..Launch::default() }]);
    let outcome = session::run(&target, Engines::new(), Limits::default())?;
    let wall_ns = outcome.ended.launched.first().map_or(0, |one| one.end_ns.saturating_sub(one.start_ns));
    let code = exit::after(&outcome.ended, false);
    // Without the file, the host has not run the ULPs to their end, and has said why.
    if let (Ok(text), false) = (fs::read(&report), options.quiet) {
        let told: Told = serde_json::from_slice(&text).context("the outcome of the ULPs")?;
        say(&summary(&told.ended, Duration::from_nanos(wall_ns)));
        if options.stats {
            say(&told.stats());
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
}

impl Told {
    /// Returns the line on where the ULPs ran.
    fn stats(&self) -> String {
        let coupled = format!("{} yields while coupled", self.coupled_yields);
        match &self.coupled {
            Some(why) => format!("no carriers ({why}) · {coupled}"),
            None => format!(
                "carriers: {} · {} yields on them, {coupled} · stays on them: {}, ended by a system call or a fault: {}",
                self.carriers, self.yields, self.stays, self.trapped
            ),
        }
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
fn host() -> Result<PathBuf> {
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
        let mut told =
            Told { ended: vec![0], carriers: 2, coupled: None, yields: 10, coupled_yields: 4, stays: 3, trapped: 2 };
        let right = "carriers: 2 · 10 yields on them, 4 yields while coupled · stays on them: 3, ended by a system call or a fault: 2";
        assert_eq!(told.stats(), right);
        told.coupled = Some("as requested".to_owned());
        assert_eq!(told.stats(), "no carriers (as requested) · 4 yields while coupled");
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
