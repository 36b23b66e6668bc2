//! What one run tells: the programs about themselves, cox about the threads and CPUs, and perf's recording.

use anyhow::{Context, Result};
use ledger::co_run::CoRun;
use ledger::summary::{self, Sums, share, threads_of};
use report::Document;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::percentages::Percentages;

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// By program, in the order of the cell.
    pub programs: Vec<Program>,
    /// Where the CPUs were idle; only from cox, and only with a backend that sees CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// The study's percentages; only from perf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentages: Option<Percentages>,
}

/// The results of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Time of the program's loops, by its own clock: without its start.
    pub elapsed_s: f64,
    /// Checksum of its results, if it has one. It does not depend on the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Floating-point operations, counted by the program from its source code.
    pub operations: f64,
    /// Bytes that its loops move at least: each array that a loop uses, once per instance of the loop.
    pub bytes: f64,
    /// What cox saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// Figures of cox for the threads of a program. Shares are of thread time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// From the program's start to its end.
    pub wall_s: f64,
    /// Ran, and did not spin.
    pub work: f64,
    pub waiting_for_threads: f64,
    /// Wake delay and preempt wait: what the scheduler cost.
    pub waiting_for_cpu: f64,
    pub switches_per_s: f64,
    pub migrations_per_s: f64,
    /// Waited while the other program had the CPU; absent if there is only one program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_the_other: Option<f64>,
}

/// Idle time as shares of the time of all CPUs, from the first program's start to the last one's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    pub all: f64,
    /// How the idle time divides between the two programs of a co-run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divided: Option<Divided>,
}

/// To which program the idle time of a co-run belongs: those that were running and could have used the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Divided {
    /// Only the first program could have used the CPU.
    pub first: f64,
    /// Only the second one.
    pub second: f64,
    /// Both: while both ran.
    pub both: f64,
    /// Neither of them.
    pub neither: f64,
}

/// Reads what a program says about itself (its truth).
///
/// # Errors
/// When it does not say how long it took.
pub fn of_truth(truth: &Value) -> Result<Program> {
    Ok(Program {
        elapsed_s: truth["elapsed_ns"].as_f64().context("the program has not measured its time")? / 1e9,
        checksum: truth["checksum"].as_str().map(str::to_owned),
        operations: truth["operations"].as_f64().context("the program has not counted its operations")?,
        bytes: truth["bytes"].as_f64().context("the program has not counted its bytes")?,
        observed: None,
    })
}

impl Sample {
    /// Adds what cox observed.
    ///
    /// # Errors
    /// When the account lacks a program.
    pub fn observe(&mut self, document: &Document) -> Result<()> {
        let account = &document.account;
        for (at, program) in self.programs.iter_mut().enumerate() {
            let observed = account.programs.get(at).context("cox's account lacks a program")?;
            let sums = Sums::over(threads_of(observed));
            let wall_s = observed.wall_ns as f64 / 1e9;
            let waited = account.co_run.as_ref().and_then(|co_run| co_run.waited.get(at));
            let behind = waited.map(|waited| {
                let others = waited.behind_ns.iter().enumerate().filter(|(other, _)| *other != at);
                sums.share(others.map(|(_, ns)| ns).sum())
            });
            program.observed = Some(Observed {
                wall_s,
                work: sums.share(sums.work_ns()),
                waiting_for_threads: sums.share(sums.waiting_for_threads_ns()),
                waiting_for_cpu: sums.share(sums.waiting_for_cpu_ns()),
                switches_per_s: (sums.switches_voluntary + sums.switches_involuntary) as f64 / wall_s,
                migrations_per_s: sums.migrations.total() as f64 / wall_s,
                behind_the_other: behind,
            });
        }
        let cpus = summary::cpus(account);
        self.idle = match &account.co_run {
            Some(co_run) => Idle::of_co_run(co_run, account.cpus.len() as u64),
            None => (cpus.known_ns() > 0).then(|| Idle { all: share(cpus.idle_ns, cpus.known_ns()), divided: None }),
        };
        Ok(())
    }
}

impl Idle {
    /// Divides the idle time of a co-run. `None` if no CPU was seen.
    fn of_co_run(co_run: &CoRun, cpus: u64) -> Option<Idle> {
        let seen: u64 =
            co_run.phases.iter().map(|phase| (phase.length_ns * cpus).saturating_sub(phase.unseen_ns)).sum();
        let of = |usable_by: &[usize]| {
            let idle = co_run.phases.iter().flat_map(|phase| &phase.idle).filter(|idle| idle.usable_by == usable_by);
            share(idle.map(|idle| idle.idle_ns).sum(), seen)
        };
        let divided = Divided { first: of(&[0]), second: of(&[1]), both: of(&[0, 1]), neither: of(&[]) };
        let all = divided.first + divided.second + divided.both + divided.neither;
        (seen > 0).then_some(Idle { all, divided: Some(divided) })
    }
}

#[cfg(test)]
mod tests {
    use ledger::co_run;
    use serde_json::json;

    use super::*;

    #[test]
    fn idle_time_of_a_co_run_belongs_to_who_could_have_used_the_cpu() {
        let idle = |usable_by: &[usize], idle_ns| co_run::Idle { usable_by: usable_by.to_vec(), idle_ns };
        let phase = |running: &[usize], length_ns, unseen_ns, idle| co_run::Phase {
            running: running.to_vec(),
            length_ns,
            unseen_ns,
            idle,
            ..co_run::Phase::default()
        };
        let phases = vec![
            phase(&[0, 1], 60, 20, vec![idle(&[0, 1], 10), idle(&[1], 5)]),
            phase(&[0], 40, 0, vec![idle(&[0], 30), idle(&[], 5)]),
        ];
        let co_run = CoRun { phases, ..CoRun::default() };
        // Two CPUs for 100 ns, of which 20 ns were not seen: 180 ns.
        let idle = Idle::of_co_run(&co_run, 2).unwrap();
        let divided = idle.divided.unwrap();
        let shares = [divided.first, divided.second, divided.both, divided.neither, idle.all].map(|part| part * 180.0);
        let wanted = [30.0, 5.0, 10.0, 5.0, 50.0];
        assert!(shares.iter().zip(wanted).all(|(share, wanted)| (share - wanted).abs() < 1e-9), "{shares:?}");
        assert_eq!(Idle::of_co_run(&co_run, 0), None, "a backend that does not see CPUs");
    }

    #[test]
    fn programs_tell_their_time_and_what_they_did() {
        let mut truth = json!({"elapsed_ns": 1_500_000_000u64, "checksum": "0x1", "operations": 8e9, "bytes": 0});
        let program = of_truth(&truth).unwrap();
        assert_eq!((program.elapsed_s, program.operations, program.bytes), (1.5, 8e9, 0.0));
        assert_eq!(program.checksum.as_deref(), Some("0x1"));
        truth["operations"] = Value::Null;
        assert!(of_truth(&truth).unwrap_err().to_string().contains("operations"));
    }
}
