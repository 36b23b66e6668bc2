//! Other tools that keep a CPU free: how much is stolen there, beside a load on all CPUs, how long they take, and what
//! they leave changed when they have undone their changes.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use machine::state::{MachineState, is_of_worker, numbers_of};
use quiet::Level;
use report::noise::NoiseReport;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::place::{Place, Under, load};
use crate::noise::field::{Beside, Field};
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate};
use crate::tools::in_path;
use crate::verdict::Outcome;

const LENGTH: &str = "3s";
/// How long tuned may take until its profile is applied, and how often its log is read.
const LONGEST: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// tuned logs this when its profile is applied.
const APPLIED: &str = "applied";
/// tuned has its settings in /etc, and writes there and to /boot. It gets copies.
const TUNED: &str = "cp -a /etc/. \"$1/etc\" && mount --bind \"$1/etc\" /etc && mount -t tmpfs none /boot && \
                     echo \"isolated_cores=$2\" >/etc/tuned/cpu-partitioning-variables.conf && \
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

    fn is_there(self) -> bool {
        self == Peer::Cox || in_path(self.program()).is_some()
    }

    /// Keeps the CPU free. Returns the process that does so, if one stays.
    fn begin(self, field: &Field<'_>, cpu: &str) -> Result<Option<Beside>> {
        match self {
            Peer::Taskset | Peer::Cox => {}
            Peer::Tuna => drop(field.done(Command::new("tuna").args(["--cpus", cpu, "--isolate"]))?),
            Peer::Cset => drop(field.done(Command::new("cset").args(["shield", "--cpu", cpu, "--kthread=on"]))?),
            Peer::Tuned => return tuned(field, cpu).map(Some),
        }
        Ok(None)
    }

    /// Undoes what `begin` has done.
    fn end(self, field: &Field<'_>, cpu: &str, stays: Option<Beside>) -> Result<()> {
        match self {
            Peer::Tuna => drop(field.done(Command::new("tuna").args(["--cpus", cpu, "--include"]))?),
            Peer::Cset => drop(field.done(Command::new("cset").args(["shield", "--reset"]))?),
            _ => stays.map_or(Ok(()), Beside::end)?,
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

/// Starts tuned with the profile cpu-partitioning, and waits until it has applied it.
fn tuned(field: &Field<'_>, cpu: &str) -> Result<Beside> {
    let folder = field.file("tuned");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("etc"))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", TUNED, "sh"]).arg(&folder).arg(cpu);
    let tuned = field.spawn(command.stderr(Stdio::from(File::create(folder.join("errors"))?)))?;
    let start = Instant::now();
    let said = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    while !said().contains(APPLIED) {
        if start.elapsed() > LONGEST {
            bail!("tuned has not applied its profile after {LONGEST:?}: {}", said());
        }
        field.check()?;
        thread::sleep(LOOK);
    }
    Ok(tuned)
}

pub fn peers(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if in_path("stress-ng").is_none() {
        found.judge(Outcome::NotMeasured, "stress-ng is not installed");
        return Ok(found);
    }
    let place = Place::chosen()?;
    let (peers, missing): (Vec<Peer>, Vec<Peer>) = PEERS.into_iter().partition(|peer| peer.is_there());
    for peer in missing {
        found.judge(Outcome::NotMeasured, format!("{} is not installed", peer.program()));
    }
    let load = load(field)?;
    let all = in_turns(peers.len(), runs.into(), |at| measure(field, &place, peers[at]))?;
    drop(load);
    found.line(format!(
        "CPU {}: stolen %, medians of {runs} rounds (95 %) | this kernel besides ticks, % | s to begin | s to end | settings and threads that it leaves changed",
        place.cpu
    ));
    for (peer, rounds) in peers.iter().zip(&all) {
        let of = |figure: fn(&Measured) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
        let stolen = median_estimate(&of(|round| 100.0 * round.stolen));
        let ends = stolen.interval.map_or_else(String::new, |(low, high)| format!(" ({low:.2} to {high:.2})"));
        found.line(format!(
            "  {:10} {:.2}{ends} | {:.3} | {} | {:.0}",
            peer.program(),
            stolen.median,
            median(&of(|round| 100.0 * round.kernel)),
            // These two begin and end with the program.
            if matches!(peer, Peer::Taskset | Peer::Cox) {
                "- | -".to_owned()
            } else {
                format!("{:.2} | {:.2}", median(&of(|round| round.begin_s)), median(&of(|round| round.end_s)))
            },
            median(&of(|round| round.left.len() as f64))
        ));
        for line in rounds.last().iter().flat_map(|round| &round.left).take(3) {
            found.line(format!("      {line}"));
        }
        if *peer == Peer::Cox {
            let left: usize = rounds.iter().map(|round| round.left.len()).sum();
            found.require(left == 0, format!("cox quiet leaves {left} settings and threads changed"));
        }
    }
    Ok(found)
}

fn measure(field: &Field<'_>, place: &Place, peer: Peer) -> Result<Measured> {
    let cpu = place.cpu.to_string();
    let before = MachineState::read();
    let json = field.file("noise.json");
    let start = Instant::now();
    let begun = peer.begin(field, &cpu);
    let begin_s = start.elapsed().as_secs_f64();
    let mut command = peer.command(field, place);
    command.arg(&field.cox).args(["noise", "--quiet", "--cpus", &cpu, "--for", LENGTH, "--json"]).arg(&json);
    let measured = begun.and_then(|stays| Ok((stays, field.done(&mut command)?)));
    let start = Instant::now();
    let (measured, ended) = match measured {
        Ok((stays, _)) => (Ok(()), peer.end(field, &cpu, stays)),
        Err(error) => (Err(error), peer.end(field, &cpu, None)),
    };
    let end_s = start.elapsed().as_secs_f64();
    let mut left = before.differences(&MachineState::read());
    left.retain(|line| !is_of_worker(line));
    put_back(&before);
    field.check()?;
    if let Err(error) = ended {
        let text = format!("{error:#}");
        left.insert(0, format!("its end fails: {}", text.trim().lines().last().unwrap_or_default()));
    }
    measured?;
    let report: NoiseReport = serde_json::from_slice(&fs::read(&json)?).context("cox noise wrote no JSON")?;
    let [stolen, _, kernel, ..] = report.shares();
    Ok(Measured { stolen, kernel, begin_s, end_s, left })
}

/// Restores what a tool has left changed: settings, cgroups and the CPUs of threads.
fn put_back(before: &MachineState) {
    let now = MachineState::read();
    let new = now.settings.iter().filter(|(path, value)| value.is_empty() && !before.settings.contains_key(*path));
    let mut folders: Vec<&PathBuf> = new.map(|(path, _)| path).filter(|path| path.is_dir()).collect();
    folders.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for (path, value) in &before.settings {
        if !value.is_empty() && now.settings.get(path) != Some(value) {
            // The kernel may refuse it; the next round says what differs.
            let _ = fs::write(path, value);
        }
    }
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
    for (id, thread) in &before.threads {
        let has_changed = now.threads.get(id).is_some_and(|then| then.cpus != thread.cpus);
        let Some(pid) = Pid::from_raw(id.0.cast_signed()).filter(|_| has_changed && !thread.is_bound) else { continue };
        let mut mask = CpuSet::new();
        numbers_of(&thread.cpus).into_iter().for_each(|cpu| mask.set(cpu as usize));
        let _ = sched_setaffinity(Some(pid), &mask);
    }
}
