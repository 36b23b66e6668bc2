//! `cox-bench pack palm`: a program packed by the rules of the PALM paper, beside `cox pack`.
//!
//! The program is started by a shell that stops itself, is packed while it stands still, and goes on when all its threads are held.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use machine::{CpuSet, Root};
use outputs::Output;
use pack::live::{Began, Packer, Plan, Summary};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use watch::Sight;

use super::output::Told;
use super::palm::Parts;
use crate::interrupt::Interrupt;

/// `$0`: the preload library, or nothing.
const STANDS_STILL: &str = r#"kill -STOP $$; [ -z "$0" ] || export LD_PRELOAD="$0"; exec "$@""#;
/// Between two looks whether the program has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A part of the PALM paper's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Least served first; without it threads take turns
    Progress,
    /// Neighbours by number share a CPU; without it neighbours by progress
    Locality,
    /// The period is doubled and halved; without it 0.25 ms
    Period,
}

/// Pack a program by the rules of the PALM paper (Park et al. 2021), always in force; for comparison.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench pack palm --cpus 0-1 --without locality -- ./app input")]
pub struct Options {
    /// CPUs of the pack
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
/// When it cannot be packed; it has not begun then.
pub fn palm(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    ensure!(!options.cpus.is_empty(), "--cpus: no CPU");
    let allowed = allowed_cpus(&Root::live(), Who::Own).context("reading which CPUs are allowed")?;
    let forbidden = options.cpus.difference(&allowed);
    ensure!(forbidden.is_empty(), "--cpus {}: CPU {forbidden} may not be used (allowed: {allowed})", options.cpus);
    let json = Output::wanted(options.json.as_deref())?;
    let library = std::env::current_exe().ok().map(|own| own.with_file_name("libcox_preload.so"));
    let library = library.filter(|library| library.is_file()).unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", STANDS_STILL]).arg(library).args(&options.program);
    let mut child = shell.spawn().context("cannot start sh")?;
    let pid = Pid::from_child(&child);
    let packed = stopped(pid).and_then(|()| Ok(Packer::start(plan(options, child.id())?)?));
    let packer = match packed {
        Ok(packer) => packer,
        Err(error) => {
            child.kill().context("cannot end the program, which has not begun")?;
            child.wait()?;
            return Err(error);
        }
    };
    kill_process(pid, Signal::CONT).context("cannot let the program go")?;
    let (mut asked, mut ended) = (false, None);
    while ended.is_none() {
        if interrupt.is_set() && !asked {
            asked = true;
            // It may have had the signal too, and have ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        thread::sleep(LOOK);
        ended = child.try_wait()?;
    }
    let summary = packer.finish();
    if let Some(json) = json {
        json.write(&serde_json::to_vec_pretty(&told(&summary))?)?;
    }
    let code = ended.and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal)));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Waits until the shell has stopped itself.
fn stopped(pid: Pid) -> Result<()> {
    match waitpid(Some(pid), WaitOptions::UNTRACED)? {
        Some((_, status)) if status.stopped() => Ok(()),
        _ => bail!("the shell that starts the program has ended"),
    }
}

fn plan(options: &Options, pid: u32) -> Result<Plan> {
    let without = |part| options.without.contains(&part);
    let parts = Parts {
        progress: !without(Part::Progress),
        locality: !without(Part::Locality),
        period: !without(Part::Period),
    };
    let topology = Topology::read(&Root::live()).context("reading the machine's topology")?;
    Ok(Plan {
        pids: vec![pid],
        began: Began::Here,
        children: true,
        capacities: pack::cpus::capacities(&topology, &options.cpus),
        cpus: options.cpus.iter().collect(),
        settings: parts.settings(),
        sight: Sight::Best,
        helping: None,
        trial: false,
        log: false,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "),
    })
}

fn told(summary: &Summary) -> Told {
    Told {
        wall_ns: summary.wall_ns,
        own_ns: summary.own_ns,
        rotating_ns: summary.totals.rotating_ns,
        moves: summary.totals.seen.moves,
        complaints: summary.complaints.iter().cloned().collect(),
    }
}
