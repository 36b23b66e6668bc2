//! `cox pack`: N threads on fewer CPUs, at the speed those CPUs allow.

use anyhow::Result;
use ledger::Provenance;
use outputs::Output;
use outputs::diagnostics::{chain, say};
use pack::engine::{Packing, Repack, repack};
use report::pack::{PackReport, cpus_of};
use session::{Limits, provenance};

use crate::faces::moves::moves;
use crate::faces::print;
use crate::{cli, engines, exit, targets};

const ELSEWHERE: &str = "--policy and --without are options of another command now: cox-bench pack palm --cpus LIST [--without PART] -- PROGRAM";

/// Packs the target, reports, and returns the exit code.
pub fn pack(options: &cli::Pack) -> Result<u8> {
    if options.policy.is_some() || options.without.is_some() {
        say(ELSEWHERE);
        return Ok(exit::WRONG_OPTIONS);
    }
    let engines = engines::of_pack(options)?;
    let target = targets::of(&options.program, &options.pid);
    let (text, json) = options.report.open([("--log-moves", options.log_moves.clone())])?;
    let log = Output::wanted(options.log_moves.as_deref())?;
    let provenance = provenance::here("cox", target.attached_to());
    let limits = Limits { length: options.length, ..Limits::default() };
    let mut outcome = session::run(&target, engines, limits)?;
    // The program has run. From here on, failures are reported, but do not change its exit code.
    let failures = outcome.findings.failures();
    failures.iter().for_each(|(_, error)| say(&chain(error)));
    let code = exit::after(&outcome.ended, !failures.is_empty(), &outcome.findings.unrestored());
    let Some(packed) = outcome.findings.section::<Packing>() else { return Ok(code) };
    let provenance = Provenance { command: packed.report.command.clone(), ..provenance };
    let report = PackReport { provenance: Some(provenance), ..packed.report };
    let written = [
        print(text, false, |style| report.text(style)),
        json.map_or(Ok(()), |output| output.write(&serde_json::to_vec_pretty(&report)?)),
        log.map_or(Ok(()), |output| output.write(moves(&packed.summary).as_bytes())),
    ];
    for error in written.into_iter().filter_map(Result::err) {
        say(&chain(&error));
    }
    Ok(code)
}

/// Makes the session that packs a program move the program to other CPUs.
pub fn set(wanted: &cli::Set) -> Result<u8> {
    let cli::Cpus { cpus, ncpus } = wanted.cpus.clone();
    let cpus = repack(wanted.pid, &Repack { cpus, ncpus })?;
    println!("cox: process {} is packed on {} now", wanted.pid, cpus_of(&cpus.to_string()));
    Ok(0)
}
