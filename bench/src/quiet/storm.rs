//! Many sessions, one after another, beside forks, I/O and work items. Afterwards each thread that was there before has
//! the CPUs and the cpuset that it had, all settings have their values, and the kernel has warned of nothing.

use std::process::Command;

use anyhow::{Context, Result};
use machine::Root;
use quiet::{Facts, Snapshot, choose};

use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::tools::in_path;
use crate::verdict::Outcome;

/// The load: forks, files that are written and removed, threads that come and go.
const LOAD: [&str; 9] = ["--fork", "2", "--hdd", "1", "--pthread", "1", "--quiet", "--timeout", "3600"];

pub fn storm(field: &Field<'_>, sessions: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if in_path("stress-ng").is_none() {
        found.judge(Outcome::NotMeasured, "stress-ng is not installed");
        return Ok(found);
    }
    let root = Root::live();
    let facts = Facts::read(&root).context("cannot examine this machine")?;
    let cpu = choose(&facts, 1)?.cpus.to_string();
    let load = field.beside("stress-ng", &LOAD)?;
    let warnings = || field.done(Command::new("dmesg").args(["--level", "emerg,alert,crit,err,warn"]));
    let (before, said) = (Snapshot::take(&root)?, warnings()?);
    for _ in 0..sessions {
        field.done(Command::new(&field.cox).args(["quiet", "--quiet", "--cpus", &cpu, "--", "true"]))?;
    }
    let after = Snapshot::take(&root)?;
    let (wrong, new) = (before.differences(&after), before.narrowed(&after, &facts.topology.online));
    drop(load);
    let new_warnings: Vec<String> = warnings()?.lines().skip(said.lines().count()).map(str::to_owned).collect();
    wrong.iter().chain(&new).chain(&new_warnings).take(20).for_each(|line| found.line(line.clone()));
    found.require(wrong.is_empty(), format!("{sessions} sessions: {} settings and threads differ", wrong.len()));
    found.require(new.is_empty(), format!("{} new threads have fewer CPUs than the machine", new.len()));
    found.require(new_warnings.is_empty(), format!("{} new warnings of the kernel", new_warnings.len()));
    Ok(found)
}
