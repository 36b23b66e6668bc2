//! Measures ping-pong in slices of one run.
//!
//! Two runs of a ping-pong differ by a few per cent, because their memory and pipes have different addresses; slices of one run differ by a few per
//! mille. Therefore one run lasts for the whole case, and treatments are switched on and off:
//!
//! 1. Switch the treatment on.
//! 2. Let it settle: attaching rewrites kernel text and interrupts every CPU.
//! 3. Read the run's counter and the clock, wait for one slice, read both again.
//! 4. Switch the treatment off. Plain slices settle as in step 2, too.
//!
//! cox-bench itself, and perf with it, runs on the other CPUs if there are any.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use machine::Root;
use machine::process::Task;

use super::case::{Bench, COX, PERF, TRACE, noise, progress};
use super::counter::Counter;
use super::cpus::{Elsewhere, last_allowed_cpu};
use super::slices::{Active, Part, Treatment};
use crate::results::{Case, Column, Figure, Shown};
use crate::rounds::interleave;
use crate::stats::quotient_of_additions;
use crate::table;
use crate::verdict::{Outcome, Verdict, at_most, either};

const ROUNDS: usize = 60;
const SETTLE: Duration = Duration::from_millis(20);
/// Upper bound for the duration of one slice (section of the run), including the time to switch its treatment on and off, s. The workload gets the
/// sum over all slices as its time limit, so it ends by itself if cox-bench is killed.
pub(super) const SLICE_LIMIT_S: usize = 10;

const RATIO_LIMIT: f64 = 1.10;
const ADDED_LIMIT_NS: f64 = 250.0;
const SHARE_OF_PERF_LIMIT: f64 = 0.25;
const TRACE_SHARE_OF_PERF_LIMIT: f64 = 0.5;

/// Measures the case `pingpong`. If `parts` is set, also measures each part of cox's observer alone, and empty BPF programs.
pub fn measure(bench: &Bench<'_>, parts: bool) -> Result<Case> {
    let mut treatments = vec![Treatment::Control, Treatment::Cox(Part::Whole), Treatment::Perf];
    if parts {
        treatments.extend([Part::Programs, Part::Sampling, Part::Strangers].map(Treatment::Cox));
        treatments.extend([false, true].map(|reads_clock| Treatment::Floor { reads_clock }));
    }
    measure_with(bench, &treatments, |wall| vec![cost(wall), beside_perf(wall, COX, SHARE_OF_PERF_LIMIT)])
}

/// Measures the case `pingpong` with tracing: cox that writes a trace, compared with `perf sched record`.
pub fn measure_tracing(bench: &Bench<'_>) -> Result<Case> {
    let treatments = [Treatment::Control, Treatment::Cox(Part::Whole), Treatment::Cox(Part::Trace), Treatment::Perf];
    measure_with(bench, &treatments, |wall| vec![beside_perf(wall, TRACE, TRACE_SHARE_OF_PERF_LIMIT)])
}

fn measure_with(
    bench: &Bench<'_>,
    treatments: &[Treatment],
    judge: impl FnOnce(&Figure) -> Vec<Verdict>,
) -> Result<Case> {
    let slice = Duration::from_millis(if bench.options.quick { 50 } else { 150 });
    let rounds = bench.rounds(ROUNDS);
    let cpu = last_allowed_cpu()?;
    let limit_s = (rounds + 2) * 2 * treatments.len() * SLICE_LIMIT_S;
    let mut game = Game::start(bench, cpu, limit_s)?;
    // Change this thread's affinity mask only now, because the workload inherited the old one at its start.
    let elsewhere = Elsewhere::than(cpu)?;
    let mut columns = Vec::new();
    let mut possible = Vec::new();
    for &treatment in treatments {
        let tried = game.slice(bench, Some(treatment), slice);
        bench.interrupt.check()?;
        let impossible = tried.err().map(|error| format!("{error:#}"));
        if impossible.is_none() {
            possible.push(treatment);
        }
        columns.push(Column { name: treatment.name(), impossible });
    }
    progress(&format!("pingpong: {rounds} rounds of {} slices", 2 * possible.len()));
    let all = interleave(possible.len(), rounds, |treatment| {
        bench.interrupt.check()?;
        game.slice(bench, treatment.map(|index| possible[index]), slice)
    })?;
    drop((game, elsewhere));

    let wall = Figure::new("round trip", Shown::Ns, &columns, all.figure(|s| s.wall_ns));
    let cpu_time = Figure::new("round-trip CPU", Shown::Ns, &columns, all.figure(|s| s.cpu_ns));
    Ok(Case {
        name: "pingpong",
        about: format!(
            "two processes on CPU {cpu}, {rounds} rounds of slices of {} ms, all in one run",
            slice.as_millis()
        ),
        notes: noise(&wall, RATIO_LIMIT).into_iter().collect(),
        verdicts: judge(&wall),
        figures: vec![wall, cpu_time],
    })
}

fn cost(figure: &Figure) -> Verdict {
    let criterion = format!(
        "with cox, a round trip takes at most {RATIO_LIMIT:.2} times as long as plain, or {ADDED_LIMIT_NS:.0} ns longer"
    );
    let measured = figure.with(COX).and_then(|cox| Some((cox.ratio?, cox.added_ns?)));
    let Some((ratio, added)) = measured else {
        return Verdict { outcome: Outcome::NotMeasured, text: criterion };
    };
    Verdict {
        outcome: either(at_most(&ratio, RATIO_LIMIT), at_most(&added, ADDED_LIMIT_NS)),
        text: format!("{criterion}: {} times, {} ns", table::ratio(&ratio), table::addition(&added, Shown::Ns)),
    }
}

fn beside_perf(figure: &Figure, ours: &str, limit: f64) -> Verdict {
    let criterion = format!("{ours} adds at most {limit} times as much time as perf sched record");
    let (Some(cox), Some(perf)) = (figure.brackets(ours), figure.brackets(PERF)) else {
        return Verdict { outcome: Outcome::NotMeasured, text: criterion };
    };
    match quotient_of_additions(cox, perf) {
        Some(quotient) => {
            Verdict { outcome: at_most(&quotient, limit), text: format!("{criterion}: {}", table::ratio(&quotient)) }
        }
        None => Verdict {
            outcome: Outcome::Undecided,
            text: format!("{criterion}: undecided, because perf added no significant time in this run"),
        },
    }
}

/// The figures of one slice (a short section of the run), per round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) wall_ns: f64,
    /// CPU time of the two ping-pong processes, without the time that other programs use on the same CPU.
    cpu_ns: f64,
}

/// One reading of the clock, the counter and the CPU time.
struct Reading {
    time_ns: u64,
    round_trips: u64,
    cpu_ns: u64,
}

/// The ping-pong that runs during the whole case. Dropping the value ends it.
pub(super) struct Game {
    workload: Child,
    counter: Counter,
    pub(super) players: Vec<u32>,
}

impl Game {
    pub(super) fn start(bench: &Bench<'_>, cpu: usize, limit_s: usize) -> Result<Game> {
        let path = bench.scratch.path().join("round-trips");
        std::fs::write(&path, 0u64.to_ne_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        let counter = Counter::map(&File::open(&path)?).context("cannot map the counter")?;
        let workload = Command::new(bench.tools.workload("pingpong")?)
            .args(["--seconds", &limit_s.to_string(), "--cpu", &cpu.to_string(), "--counter"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start pingpong")?;
        let mut game = Game { workload, counter, players: Vec::new() };
        // The first round trip proves that both processes run.
        while game.counter.get() == 0 {
            game.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = game.workload.id();
        game.players = Task::thread(&Root::live(), pid, pid).children_of_thread()?;
        game.players.push(pid);
        Ok(game)
    }

    fn check(&mut self) -> Result<()> {
        match self.workload.try_wait().context("cannot wait for pingpong")? {
            Some(status) => bail!("pingpong ended too early: {}", crate::process::ending(status)),
            None => Ok(()),
        }
    }

    fn slice(&mut self, bench: &Bench<'_>, treatment: Option<Treatment>, length: Duration) -> Result<Slice> {
        let active = match treatment {
            Some(treatment) => treatment.begin(bench, &self.players)?,
            None => Active::Nothing,
        };
        self.slice_under(active, length)
    }

    /// Measures a slice of this length under the treatment that is active, then ends the treatment.
    pub(super) fn slice_under(&mut self, mut active: Active, length: Duration) -> Result<Slice> {
        active.hold(SETTLE)?;
        let begin = self.read()?;
        active.hold(length)?;
        let end = self.read()?;
        let round_trips = end.round_trips - begin.round_trips;
        active.end(&self.players, round_trips)?;
        self.check()?;
        if round_trips == 0 {
            bail!("pingpong made no round trip");
        }
        let per_trip = |begin: u64, end: u64| (end - begin) as f64 / round_trips as f64;
        Ok(Slice { wall_ns: per_trip(begin.time_ns, end.time_ns), cpu_ns: per_trip(begin.cpu_ns, end.cpu_ns) })
    }

    fn read(&self) -> Result<Reading> {
        // The counter and the clock match only if this thread is not preempted between the two reads. Therefore, use the quickest of five tries.
        let tries = (0..5).map(|_| {
            let before_ns = arch::monotonic_ns();
            let round_trips = self.counter.get();
            let after_ns = arch::monotonic_ns();
            (after_ns - before_ns, before_ns, round_trips)
        });
        let (_, time_ns, round_trips) = tries.min().context("no reading")?;
        let mut cpu_ns = 0;
        for &pid in &self.players {
            cpu_ns += Task::process(&Root::live(), pid).schedstat()?.run_ns;
        }
        Ok(Reading { time_ns, round_trips, cpu_ns })
    }
}

impl Drop for Game {
    fn drop(&mut self) {
        // The other process ends when its pipe closes.
        let _ = self.workload.kill();
        let _ = self.workload.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Rounds;
    use crate::stats::Bracket;

    fn figure(cox_ns: f64, perf_ns: f64) -> Figure {
        let column = |name| Column { name, impossible: None };
        let bracket = |treated| vec![Bracket { before: 2000.0, treated, after: 2000.0 }; 9];
        let rounds = Rounds { plain: vec![2000.0; 19], treated: vec![bracket(cox_ns), bracket(perf_ns)] };
        Figure::new("round trip", Shown::Ns, &[column(COX), column(PERF)], rounds)
    }

    #[test]
    fn verdicts_follow_the_limits() {
        assert_eq!(cost(&figure(2190.0, 3000.0)).outcome, Outcome::Pass, "1.095 x");
        assert_eq!(cost(&figure(2240.0, 3000.0)).outcome, Outcome::Pass, "240 ns");
        assert_eq!(cost(&figure(2260.0, 3000.0)).outcome, Outcome::Fail);
        assert_eq!(beside_perf(&figure(2250.0, 3000.0), COX, SHARE_OF_PERF_LIMIT).outcome, Outcome::Pass);
        assert_eq!(beside_perf(&figure(2260.0, 3000.0), COX, SHARE_OF_PERF_LIMIT).outcome, Outcome::Fail);
        assert_eq!(beside_perf(&figure(2260.0, 2000.0), COX, SHARE_OF_PERF_LIMIT).outcome, Outcome::Undecided);
    }

    #[test]
    fn what_was_not_possible_is_not_judged() {
        let columns = [COX, PERF].map(|name| Column { name, impossible: Some("no".into()) });
        let none = Figure::new("round trip", Shown::Ns, &columns, Rounds { plain: vec![2000.0], treated: Vec::new() });
        assert_eq!(cost(&none).outcome, Outcome::NotMeasured);
        assert_eq!(beside_perf(&none, COX, SHARE_OF_PERF_LIMIT).outcome, Outcome::NotMeasured);
    }
}
