//! Other tools that keep a CPU free: how much is stolen there, beside a load on all CPUs, how long they take, and what
//! they leave changed when they have undone their changes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use machine::state::{MachineState, numbers_of};
use quiet::Level;
use report::noise::NoiseReport;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::place::{Place, Under, load};
use crate::noise::field::{CoRunner, Field};
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate, shown};

const LENGTH: &str = "3s";
/// How long tuned may take until its profile is applied, and how often its log is read.
const LONGEST: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// tuned logs this when its profile is applied.
const APPLIED: &str = "profile 'cpu-partitioning' applied";
/// tuned has its settings in /etc, and writes there and to /boot. It gets a copy of /etc, and an empty /boot.
const COPY: &str =
    "cp -a /etc/. \"$1/etc\" && echo \"isolated_cores=$2\" >\"$1/etc/tuned/cpu-partitioning-variables.conf\"";
const TUNED: &str = "mount --bind \"$1/etc\" /etc && mount -t tmpfs none /boot && \
                     exec tuned --no-dbus --no-socket --profile cpu-partitioning --log \"$1/log\" --pid \"$1/pid\"";

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Taskset,
    Tuna,
    Cset,
    Tuned,
    Cox,
}

const PEERS: [Peer; 5] = [Peer::Taskset, Peer::Tuna, Peer::Cset, Peer::Tuned, Peer::Cox];

/// What one round has measured.
struct Measured {
    stolen: f64,
    kernel: f64,
    begin_s: f64,
    end_s: f64,
    /// What differed afterwards, one line each.
    left: Vec<String>,
    /// Why it could not undo its changes.
    end_error: Option<String>,
}

impl Peer {
    fn program(self) -> &'static str {
        match self {
            Peer::Taskset => "taskset",
            Peer::Tuna => "tuna",
            Peer::Cset => "cset",
            Peer::Tuned => "tuned",
            Peer::Cox => "cox quiet",
        }
    }

    /// Does what is not part of the tool's own time.
    fn prepare(self, field: &Field<'_>, cpu: &str) -> Result<()> {
        let folder = tuned_folder(field);
        if self == Peer::Tuned {
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(folder.join("etc"))?;
            field.done(Command::new("sh").args(["-c", COPY, "sh"]).arg(&folder).arg(cpu))?;
        }
        Ok(())
    }

    /// Keeps the CPU free. Returns the process that does so, if one stays.
    fn begin(self, field: &Field<'_>, cpu: &str) -> Result<Option<CoRunner>> {
        match self {
            Peer::Taskset | Peer::Cox => {}
            Peer::Tuna => drop(field.done(Command::new("tuna").args(["--cpus", cpu, "--isolate"]))?),
            Peer::Cset => drop(field.done(Command::new("cset").args(["shield", "--cpu", cpu, "--kthread=on"]))?),
            Peer::Tuned => return tuned(field).map(Some),
        }
        Ok(None)
    }

    /// Undoes what `begin` has done, also if it has failed.
    fn end(self, cpu: &str, stays: Option<CoRunner>) -> Result<()> {
        match self {
            Peer::Tuna => drop(Field::undone(Command::new("tuna").args(["--cpus", cpu, "--include"]))?),
            Peer::Cset => drop(Field::undone(Command::new("cset").args(["shield", "--reset"]))?),
            _ => stays.map_or(Ok(()), CoRunner::end)?,
        }
        Ok(())
    }

    /// The command that runs a program on the CPU, to which the program is to be appended.
    fn command(self, field: &Field<'_>, place: &Place) -> Command {
        match self {
            Peer::Cox => Under::Quiet(Level::Full).command(field, place),
            Peer::Cset => {
                let mut command = Command::new("cset");
                command.args(["shield", "--exec", "--"]);
                command
            }
            _ => Under::Taskset.command(field, place),
        }
    }
}

fn tuned_folder(field: &Field<'_>) -> PathBuf {
    field.file("tuned")
}

/// Starts tuned with the profile cpu-partitioning, and waits until it has applied it.
fn tuned(field: &Field<'_>) -> Result<CoRunner> {
    let folder = tuned_folder(field);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", TUNED, "sh"]).arg(&folder);
    let mut tuned = field.spawn(command.stderr(Stdio::from(File::create(folder.join("errors"))?)))?;
    let start = Instant::now();
    while !read("log").contains(APPLIED) {
        let is_late = start.elapsed() > LONGEST;
        let interrupted = field.check();
        if tuned.has_ended() || is_late || interrupted.is_err() {
            tuned.end()?;
            interrupted?;
            bail!("tuned has not applied its profile: {}{}", read("errors"), read("log"));
        }
        thread::sleep(LOOK);
    }
    Ok(tuned)
}

pub fn peers(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if !found.has("stress-ng") {
        return Ok(found);
    }
    let place = Place::chosen()?;
    let peers: Vec<Peer> = PEERS.into_iter().filter(|peer| *peer == Peer::Cox || found.has(peer.program())).collect();
    let load = load(field)?;
    let before = MachineState::read();
    let all = in_turns(peers.len(), runs.into(), |at| measure(field, &place, &before, peers[at]))?;
    drop(load);
    found.line(format!(
        "CPU {}: stolen %, medians of {runs} rounds (95 %) | of that, by causes in this kernel besides ticks | s to begin | s to end | settings and threads that differ afterwards",
        place.cpu
    ));
    for (peer, rounds) in peers.iter().zip(&all) {
        found.line(row(*peer, rounds));
        let last = rounds.last().into_iter();
        let failed =
            last.clone().filter_map(|round| round.end_error.as_ref()).map(|why| format!("its end fails: {why}"));
        failed.chain(last.flat_map(|round| &round.left).take(2).cloned()).for_each(|line| {
            found.line(format!("      {line}"));
        });
        if *peer == Peer::Cox {
            let left: usize = rounds.iter().map(|round| round.left.len()).sum();
            found.require(left == 0, format!("after cox quiet, {left} settings and threads differ"));
        }
    }
    Ok(found)
}

fn row(peer: Peer, rounds: &[Measured]) -> String {
    let of = |figure: fn(&Measured) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
    // taskset and cox begin and end with the program.
    let seconds = if matches!(peer, Peer::Taskset | Peer::Cox) {
        "- | -".to_owned()
    } else {
        format!("{:.2} | {:.2}", median(&of(|round| round.begin_s)), median(&of(|round| round.end_s)))
    };
    format!(
        "  {:10} {} | {} | {seconds} | {:.0}",
        peer.program(),
        shown(&median_estimate(&of(|round| 100.0 * round.stolen)), 2),
        shown(&median_estimate(&of(|round| 100.0 * round.kernel)), 3),
        median(&of(|round| round.left.len() as f64))
    )
}

/// Measures once with a tool, and restores what it has left changed.
fn measure(field: &Field<'_>, place: &Place, before: &MachineState, peer: Peer) -> Result<Measured> {
    let cpu = place.cpu.to_string();
    let json = field.file("noise.json");
    peer.prepare(field, &cpu)?;
    let start = Instant::now();
    let begun = peer.begin(field, &cpu);
    let begin_s = start.elapsed().as_secs_f64();
    let (stays, begun) = match begun {
        Ok(stays) => (stays, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let mut command = peer.command(field, place);
    command.arg(&field.cox).args(["noise", "--quiet", "--cpus", &cpu, "--for", LENGTH, "--json"]).arg(&json);
    let measured = begun.and_then(|()| field.done(&mut command));
    let start = Instant::now();
    let ended = peer.end(&cpu, stays);
    let end_s = start.elapsed().as_secs_f64();
    let left = before.differences_but_workers(&MachineState::read());
    put_back(before, place);
    let not_restored = before.differences_but_workers(&MachineState::read());
    if let Some(first) = not_restored.first() {
        bail!(
            "after {}, this machine is not as it was: {} differences, the first: {first}",
            peer.program(),
            not_restored.len()
        );
    }
    measured?;
    let end_error = ended.err().map(|error| {
        let text = format!("{error:#}");
        text.trim().lines().last().unwrap_or_default().to_owned()
    });
    let report: NoiseReport = serde_json::from_slice(&fs::read(&json)?).context("cox noise wrote no JSON")?;
    let [stolen, _, kernel, ..] = report.shares();
    Ok(Measured { stolen, kernel, begin_s, end_s, left, end_error })
}

/// Restores settings and the CPUs of threads, and removes new cgroups. A thread that was created meanwhile and may use
/// the housekeeping CPUs only has inherited that, unless there were such threads before.
fn put_back(before: &MachineState, place: &Place) {
    let now = MachineState::read();
    let new = now.settings.iter().filter(|(path, value)| value.is_empty() && !before.settings.contains_key(*path));
    let mut folders: Vec<&PathBuf> = new.map(|(path, _)| path).filter(|path| path.is_dir()).collect();
    folders.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for (path, value) in &before.settings {
        if !value.is_empty() && now.settings.get(path) != Some(value) {
            // The kernel may refuse it; the caller compares.
            let _ = fs::write(path, value);
        }
    }
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
    let housekeeping = place.housekeeping.to_string();
    let was_usual = before.threads.values().any(|thread| !thread.is_bound && thread.cpus == housekeeping);
    for (id, thread) in now.threads.iter().filter(|(_, thread)| !thread.is_bound) {
        let cpus: BTreeSet<u32> = match before.threads.get(id) {
            Some(then) if then.cpus != thread.cpus => numbers_of(&then.cpus),
            None if thread.cpus == housekeeping && !was_usual => place.online().iter().collect(),
            _ => continue,
        };
        let Some(pid) = Pid::from_raw(id.0.cast_signed()) else { continue };
        let mut mask = CpuSet::new();
        cpus.into_iter().for_each(|cpu| mask.set(cpu as usize));
        // It may have ended.
        let _ = sched_setaffinity(Some(pid), &mask);
    }
}
