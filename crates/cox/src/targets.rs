//! Determines the target of a session from the options.

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::{Context, Result, bail};
use ledger::co_run;
use machine::Root;
use machine::cgroup::Hierarchies;
use session::{Attached, Launch, Target};

use crate::cli;

/// Returns the target of `cox run`.
pub fn of_run(options: &cli::Run) -> Result<Target> {
    if let Some(path) = &options.cgroup {
        let root = Root::live();
        let cgroup = Hierarchies::read(&root).and_then(|all| all.resolve(&root, path)).context("--cgroup")?;
        return Ok(Target::Attach(Attached::Cgroup(cgroup)));
    }
    if options.co_run.len() >= co_run::MOST {
        bail!("--co-run: at most {} programs can be co-run", co_run::MOST - 1);
    }
    let mut target = of(&options.program, &options.pid);
    if let Target::Launch(launches) = &mut target {
        for command in &options.co_run {
            launches.push(launch_co_run(command)?);
        }
    }
    Ok(target)
}

/// Returns the target: the processes with the ids `pids`, or the program if there are no ids.
pub fn of(program: &[OsString], pids: &[u32]) -> Target {
    if pids.is_empty() {
        return Target::Launch(vec![Launch { command: program.to_vec(), ..Launch::default() }]);
    }
    // A process that is named twice is observed once; the order stays.
    let mut seen = BTreeSet::new();
    Target::Attach(Attached::Processes(pids.iter().copied().filter(|pid| seen.insert(*pid)).collect()))
}

/// Parses the command of a program to co-run. Whether the program can be executed is checked only when the session starts it.
fn launch_co_run(command: &str) -> Result<Launch> {
    let words = shlex::split(command).with_context(|| format!("--co-run '{command}': unclosed quote"))?;
    if words.is_empty() {
        bail!("--co-run '{command}': the command is empty");
    }
    let command = words.into_iter().map(OsString::from).collect();
    Ok(Launch { command, has_no_input: true, ..Launch::default() })
}
