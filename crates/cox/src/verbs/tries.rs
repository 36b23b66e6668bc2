//! `cox advise --runs N`: runs the program several times in each way, and compares the times.
//!
//! Each run is a session of its own, as in `cox run --repeat`: it has cox's input and output, and receives the signals that cox receives.
//!
//! 1. One run is observed. It shows how many threads work, and which runtime they use; from that follow the ways.
//! 2. If a way sets OMP_NUM_THREADS, one run in this way is observed, too: if it has as many threads as the first, the program ignores the variable.
//! 3. Rounds: every way once, in another order each time. These runs are not observed. If they do not decide, further rounds have the ways that may be
//!    fastest.
//!
//! A run that fails ends the series, because ways that do different work cannot be compared.

use std::collections::BTreeMap;

use advise::forecast::tried::order::{ROUNDS_BEFORE_GIVING_UP, far_slower, order};
use advise::forecast::tried::{LEAST_NS, MORE_ROUNDS, Program, Start, Timed, Ways, contenders, ways};
use advise::forecast::{Refusal, Way};
use anyhow::{Context, Error, Result, anyhow};
use machine::busy::busy_ns;
use machine::limits::Who;
use machine::process::Task;
use machine::{CpuSet, Root};
use observe::{Choice, Observed, Observing};
use outputs::diagnostics::chain;
use pack::engine::cpu_choice::CpuChoice;
use pack::engine::{How, Packing, Wanted};
use report::advice::Advice;
use session::{Ended, Engines, Exit, Launch, Limits, Outcome, Target, provenance};
use wire::latency::Scope;

use crate::forecasts::tried::{self, First, Shown};
use crate::run_context::RunContext;
use crate::{cli, exit};

/// The end of a series of runs.
pub struct Series {
    /// The advice, or why there is none.
    pub advice: Result<Advice>,
    /// The exit code to end with: that of the last run.
    pub code: u8,
}

/// Why a series ended before all runs.
enum Stop {
    /// A run ended the series: it failed, a signal ended it, or it shows that there is nothing to compare. Holds the exit code.
    Run(Error, u8),
    /// cox could not start a run.
    Cox(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Cox(error)
    }
}

/// Runs the program `rounds` times in each way.
///
/// # Errors
/// If cox cannot start a run.
pub fn tries(options: &cli::Advise, rounds: u32) -> Result<Series> {
    let wanted = Wanted::of(options.cpus.cpus.clone(), options.cpus.ncpus)?;
    let cpus = CpuChoice::of(Who::Own)?.choose(&wanted)?;
    let tries = Tries { options, cpus, run_context: RunContext::read(None) };
    match tries.all(rounds) {
        Ok(advice) => Ok(Series { advice: Ok(advice), code: 0 }),
        Err(Stop::Run(why, code)) => Ok(Series { advice: Err(why), code }),
        Err(Stop::Cox(error)) => Err(error),
    }
}

/// What is the same for all runs.
struct Tries<'o> {
    options: &'o cli::Advise,
    cpus: CpuSet,
    run_context: RunContext,
}

impl Tries<'_> {
    fn all(&self, rounds: u32) -> Result<Advice, Stop> {
        let provenance = provenance::here("cox", None);
        let before = CpuTime::now();
        let plain = self.launch(self.options.program.clone(), &[]);
        let command = plain.words();
        let (first, ended) = self.observe(&plain, "as it is")?;
        let elapsed_ns = ended.end_ns - ended.start_ns;
        if elapsed_ns < LEAST_NS {
            return Err(stop(Refusal::TooBrief { elapsed_ns }, &ended));
        }
        let facts = self.run_context.facts(&command, None, None, first.openmp_runtime.clone());
        let program = Program {
            command: &self.options.program,
            cpus: self.cpus.len() as u64,
            workers: first.workers,
            is_serial: first.is_serial,
            facts: &facts,
        };
        let mut ways = ways(&program).map_err(|refusal| stop(refusal, &ended))?;
        if let Some(start) = ways.to_check() {
            let (shown, ended) = self.observe(&self.launch_of(start), &name(start))?;
            ways = ways.after_check(shown.workers).map_err(|refusal| stop(refusal, &ended))?;
        }
        let (timed, notes) = self.rounds(ways, rounds as usize)?;
        let others = before.zip(CpuTime::now()).and_then(|(before, now)| now.others_since(&before, &self.cpus));
        let first = First { command: command.clone(), ended: &ended, shown: &first, cpus: &self.cpus, others };
        let advice = tried::advice(first, timed, notes).map_err(|refusal| stop(refusal, &ended))?;
        Ok(Advice { provenance: Some(ledger::Provenance { command, ..provenance }), ..advice })
    }

    /// Runs every way once in each round. Ways that are far slower than others get fewer runs, and those that may be fastest get more.
    fn rounds(&self, ways: Ways, rounds: usize) -> Result<(Vec<Timed>, Vec<String>), Stop> {
        let mut notes: Vec<String> = ways.notes.into_iter().map(str::to_owned).collect();
        let mut timed: Vec<Timed> =
            ways.starts.into_iter().map(|start| Timed { start, times_ns: Vec::new() }).collect();
        let mut given_up = vec![false; timed.len()];
        for round in 0..rounds * MORE_ROUNDS[MORE_ROUNDS.len() - 1] {
            if MORE_ROUNDS.iter().any(|times| round == rounds * times) {
                let times_ns: Vec<&[u64]> = timed.iter().map(|way| &way.times_ns[..]).collect();
                given_up.iter_mut().zip(contenders(&times_ns)).for_each(|(given_up, contends)| *given_up |= !contends);
            }
            if given_up.iter().all(|given_up| *given_up) {
                break;
            }
            for at in order(timed.len(), round) {
                if given_up[at] {
                    continue;
                }
                let Timed { start, times_ns } = &mut timed[at];
                let of = format!("round {}, {}", round + 1, name(start));
                match self.time(start, &of) {
                    Ok(time_ns) => times_ns.push(time_ns),
                    // Nothing has been started. The other ways do not need the packer.
                    Err(Stop::Cox(error)) if start.way == Way::Packing => {
                        notes.push(format!("packing is not possible here: {}", chain(&error)));
                        given_up[at] = true;
                    }
                    Err(stop) => return Err(stop),
                }
            }
            if round + 1 == ROUNDS_BEFORE_GIVING_UP {
                let far_slower = far_slower(timed.iter().map(|way| &way.times_ns[..]));
                given_up.iter_mut().zip(far_slower).for_each(|(given_up, far_slower)| *given_up |= far_slower);
            }
        }
        timed.retain(|way| !way.times_ns.is_empty());
        Ok((timed, notes))
    }

    /// Runs the program and observes it.
    fn observe(&self, launch: &Launch, of: &str) -> Result<(Shown, Ended), Stop> {
        let children = !self.options.no_children;
        let engine = Observing::new(Choice::Auto, children, None, Scope::default());
        let mut outcome = self.run(launch, Engines::new().with(engine), of)?;
        let observed: Result<Observed> = match outcome.findings.failure::<Observing>() {
            Some(error) => Err(error),
            None => outcome.findings.section::<Observing>().context("nothing was observed"),
        };
        let facts = self.run_context.facts(&launch.words(), None, None, None);
        match observed {
            Ok(observed) => Ok((tried::shown(&observed, &outcome.ended, launch, &facts), outcome.ended)),
            Err(error) => Err(stop(error.context("no advice: the program cannot be observed"), &outcome.ended)),
        }
    }

    /// Runs the program in one way. Returns its wall time in ns.
    fn time(&self, start: &Start, of: &str) -> Result<u64, Stop> {
        if start.way != Way::Packing {
            return Ok(length_ns(&self.run(&self.launch_of(start), Engines::new(), of)?.ended));
        }
        let how = How { children: !self.options.no_children, ..How::default() };
        let wanted = Wanted::Named { option: "--cpus", cpus: self.cpus.clone() };
        // The packer sets the masks itself.
        let launch = Launch { cpus: None, ..self.launch_of(start) };
        let mut outcome = self.run(&launch, Engines::new().with(Packing::new(wanted, &how)), of)?;
        let failed = outcome.findings.failure::<Packing>();
        let code = exit::after(&outcome.ended, failed.is_some(), &outcome.findings.unrestored());
        match failed {
            Some(error) => Err(Stop::Run(error.context(format!("no advice: {of}")), code)),
            None if code != 0 => Err(Stop::Run(anyhow!("no advice: {of}: not everything was restored"), code)),
            None => Ok(length_ns(&outcome.ended)),
        }
    }

    /// Runs the program to its end. A run that fails, or that a signal ends, ends the series.
    fn run(&self, launch: &Launch, engines: Engines, of: &str) -> Result<Outcome, Stop> {
        let outcome = session::run(&Target::Launch(vec![launch.clone()]), engines, Limits::default())?;
        let ended = &outcome.ended;
        let stop = |why: Error| Stop::Run(why, exit::after(ended, false, &outcome.findings.unrestored()));
        if ended.interrupted {
            return Err(stop(anyhow!("no advice: interrupted ({of})")));
        }
        match ended.exit {
            Some(Exit::Code(0)) => Ok(outcome),
            Some(Exit::Code(code)) => Err(stop(anyhow!("no advice: a run failed with exit code {code} ({of})"))),
            Some(Exit::Signal(signal)) => Err(stop(anyhow!("no advice: signal {signal} ended a run ({of})"))),
            None => Err(Stop::Cox(anyhow!("the exit code of a run is not known"))),
        }
    }

    fn launch(&self, command: Vec<std::ffi::OsString>, variables: &[(&'static str, String)]) -> Launch {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Launch { command, variables, cpus: Some(self.cpus.clone()), ..Launch::default() }
    }

    fn launch_of(&self, start: &Start) -> Launch {
        self.launch(start.command.clone(), &start.variables)
    }
}

/// How much CPU time has been used, to tell how much other programs use.
struct CpuTime {
    at_ns: u64,
    /// Busy time of each CPU.
    busy_ns: BTreeMap<u32, u64>,
    /// CPU time of cox and of the programs that it has run.
    ours_ns: u64,
}

impl CpuTime {
    fn now() -> Option<CpuTime> {
        let root = Root::live();
        let children_ns = Task::process(&root, std::process::id()).stat().ok()?.children_ns;
        let ours_ns = children_ns + arch::clock::process_cpu_ns();
        Some(CpuTime { at_ns: arch::monotonic_ns(), busy_ns: busy_ns(&root).ok()?, ours_ns })
    }

    /// Returns the part of the time of `cpus` that other programs have used since `before`.
    fn others_since(&self, before: &CpuTime, cpus: &CpuSet) -> Option<f64> {
        let busy = |cpu: u32| Some(self.busy_ns.get(&cpu)?.saturating_sub(*before.busy_ns.get(&cpu)?));
        let busy_ns: u64 = cpus.iter().map(busy).sum::<Option<u64>>()?;
        let others_ns = busy_ns.saturating_sub(self.ours_ns.saturating_sub(before.ours_ns));
        let all_ns = self.at_ns.saturating_sub(before.at_ns).max(1) * cpus.len() as u64;
        Some(others_ns as f64 / all_ns as f64)
    }
}

/// Ends the series after a run that has changed nothing.
fn stop(why: impl Into<Error>, ended: &Ended) -> Stop {
    Stop::Run(why.into(), exit::after(ended, false, &[]))
}

fn length_ns(ended: &Ended) -> u64 {
    // The session's end includes the end of its engines.
    ended.launched.first().map_or(0, |launched| launched.end_ns.saturating_sub(launched.start_ns))
}

/// Returns the name of a way for messages.
fn name(start: &Start) -> String {
    match (start.way, start.variables.first()) {
        (Way::Packing, _) => "packed".to_owned(),
        (Way::Ranks, _) => format!("with {} ranks", start.threads),
        (_, Some((name, value))) => format!("{name}={value}"),
        (_, None) => "as it is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_cox_nor_its_programs_used_is_of_others() {
        let time =
            |at_ns, busy_ns: [u64; 3], ours_ns| CpuTime { at_ns, busy_ns: (0..).zip(busy_ns).collect(), ours_ns };
        let (before, now) = (time(100, [10, 20, 30], 5), time(200, [90, 110, 40], 155));
        // 80 and 90 of 200, less 150.
        let others = |list: &str| now.others_since(&before, &list.parse().unwrap());
        assert_eq!(others("0-1"), Some(0.1));
        assert_eq!(others("2"), Some(0.0), "ours was elsewhere");
        assert_eq!(others("0,7"), None);
    }
}
