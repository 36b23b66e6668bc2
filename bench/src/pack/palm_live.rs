//! `cox-bench pack palm`: runs a program, packed by the rules of the PALM paper, for comparison with `cox pack`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use machine::CpuSet;
use outputs::Output;
use pack::engine::{How, Packing, Wanted};
use pack::live::Summary;
use session::{Engines, Launch, LaunchError, Limits, Target, launch_error};

use super::output::PackFigures;
use super::palm::Parts;

/// A part of the PALM paper's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Threads that received the least CPU time are placed first; without this part, threads take turns
    Progress,
    /// Threads with neighbouring numbers share a CPU; without this part, threads with similar progress do
    Locality,
    /// The scheduling period is adapted by doubling and halving it; without this part, it is always 0.25 ms
    Period,
}

/// Pack a program by the rules of the PALM paper (Park et al. 2021), for comparison; threads are rotated all the time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench pack palm --cpus 0-1 --without locality -- ./app input")]
pub struct Options {
    /// CPUs for the program
    #[arg(long, value_name = "LIST")]
    cpus: CpuSet,
    /// Leave out parts of the rules
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    without: Vec<Part>,
    /// Write what packing did as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required = true)]
    program: Vec<OsString>,
}

/// Runs and packs the program. Returns its exit code.
///
/// # Errors
/// When the program cannot be packed; it is then not started.
pub fn palm(options: &Options) -> Result<u8> {
    let json = Output::wanted(options.json.as_deref())?;
    let without = |part| options.without.contains(&part);
    let parts = Parts {
        progress: !without(Part::Progress),
        locality: !without(Part::Locality),
        period: !without(Part::Period),
    };
    let wanted = Wanted::Named { option: "--cpus", cpus: options.cpus.clone() };
    let packing = Packing::new(wanted, &How { settings: parts.settings(), ..How::default() });
    let target = Target::Launch(vec![Launch { command: options.program.clone(), ..Launch::default() }]);
    let mut outcome = match session::run(&target, Engines::new().with(packing), Limits::default()) {
        Ok(outcome) => outcome,
        Err(error) => {
            let code = launch_error(&error).map(LaunchError::exit_code);
            let Some(code) = code else { return Err(error) };
            eprintln!("cox-bench: {error:#}");
            return Ok(code as u8);
        }
    };
    let failures = outcome.findings.failures();
    failures.iter().for_each(|(_, error)| eprintln!("cox-bench: {error:#}"));
    if let (Some(json), Some(packed)) = (json, outcome.findings.section::<Packing>()) {
        json.write(&serde_json::to_vec_pretty(&told(&packed.summary))?)?;
    }
    let exit = outcome.ended.exit.context("the program was not started")?;
    Ok(exit.shell_code() as u8)
}

fn told(summary: &Summary) -> PackFigures {
    PackFigures {
        wall_ns: summary.wall_ns,
        own_ns: summary.own_ns,
        rotating_ns: summary.totals.rotating_ns,
        moves: summary.totals.seen.moves,
        diagnostics: summary.diagnostics.iter().cloned().collect(),
    }
}
