//! Many sessions, one after another, beside forks, I/O and work items. Afterwards each thread that was there before has
//! the CPUs and the cpuset that it had, all settings have their values, and the kernel has warned of nothing.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use machine::CpuSet;
use machine::state::{MachineState, numbers_of};

use super::place::Place;
use crate::noise::field::Field;
use crate::noise::findings::Findings;

/// The load: forks, files that are written and removed, threads that come and go.
const LOAD: [&str; 9] = ["--fork", "2", "--hdd", "1", "--pthread", "1", "--quiet", "--timeout", "3600"];

/// How long the machine is left alone under the load. A setting that changes meanwhile changes by itself.
const CONTROL: Duration = Duration::from_secs(30);

pub fn storm(field: &Field<'_>, sessions: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if !found.has("stress-ng") {
        return Ok(found);
    }
    let place = Place::chosen()?;
    let load = field.beside("stress-ng", &LOAD)?;
    let warnings = || field.done(Command::new("dmesg").args(["--level", "emerg,alert,crit,err,warn"]));
    let alone = MachineState::read_all();
    thread::sleep(CONTROL);
    let (mut before, said) = (MachineState::read_all(), warnings()?);
    for _ in 0..sessions {
        field.done(Command::new(&field.cox).args([
            "quiet",
            "--quiet",
            "--cpus",
            &place.cpu.to_string(),
            "--",
            "true",
        ]))?;
    }
    let mut after = MachineState::read_all();
    let (all, then) = (before.settings.len(), before.clone());
    [&mut before, &mut after].into_iter().for_each(|state| state.leave_out_changed(&alone, &then));
    found.line(format!(
        "{} settings are compared; {} others change without cox",
        before.settings.len(),
        all - before.settings.len()
    ));
    let wrong = before.differences_but_workers(&after);
    let new = narrowed(&before, &after, &place.online());
    drop(load);
    let new_warnings: Vec<String> = warnings()?.lines().skip(said.lines().count()).map(str::to_owned).collect();
    wrong.iter().chain(&new).chain(&new_warnings).take(20).for_each(|line| found.line(line.clone()));
    found.require(wrong.is_empty(), format!("{sessions} sessions: {} settings and threads differ", wrong.len()));
    found.require(new.is_empty(), format!("{} new threads have fewer CPUs than the machine", new.len()));
    found.require(new_warnings.is_empty(), format!("{} new warnings of the kernel", new_warnings.len()));
    Ok(found)
}

/// Returns the threads that began after `before`, can be moved, and have not all of the `online` CPUs, one line each: what they inherited was not
/// restored, or their creator had it already.
fn narrowed(before: &MachineState, after: &MachineState, online: &CpuSet) -> Vec<String> {
    let online: BTreeSet<u32> = online.iter().collect();
    let new = after.threads.iter().filter(|(id, thread)| !before.threads.contains_key(id) && !thread.is_bound);
    let narrow = new.filter(|(_, thread)| !online.is_subset(&numbers_of(&thread.cpus)));
    narrow.map(|((tid, _), thread)| format!("new thread {tid} ({}): CPUs {}", thread.name, thread.cpus)).collect()
}
