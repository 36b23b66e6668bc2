//! The packing engine.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use broker::ebpf;
use machine::busy::busy_ns;
use machine::limits::Who;
use machine::{CpuSet, Root};
use outputs::diagnostics::chain;
use report::pack::{PackReport, Repacked};
use serde::{Deserialize, Serialize};
use session::control::{self, Found};
use session::{Attached, Ended, Engine, Launch, Subject, Target, preload};

use super::cpu_choice::{CpuChoice, Wanted};
use super::section;
use crate::live::{self, Began, How, Packer, Plan, Summary, is_packed};

/// The packing engine of one session.
pub struct Packing {
    wanted: Wanted,
    plan: Plan,
    /// The packed program or processes, as text for the report.
    what: Vec<String>,
    packer: Option<Packer>,
    /// The CPUs to choose from; set once the target is probed.
    cpu_choice: Option<CpuChoice>,
    /// Why packing has ended early.
    ended: Option<String>,
    /// The result of packing until now.
    summary: Option<Summary>,
    /// Changes of the pack's CPUs, in order of time.
    repacked: Vec<Repacked>,
    /// The busy time of each CPU of the machine when packing on the present CPUs began.
    busy_ns: Option<BTreeMap<u32, u64>>,
}

/// The result of packing.
pub struct Packed {
    /// The report.
    pub report: PackReport,
    /// The complete summary.
    pub summary: Summary,
}

/// The command to change a pack's CPUs: either a list of CPUs or a number of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repack {
    /// The CPUs.
    pub cpus: Option<CpuSet>,
    /// Number of CPUs. cox chooses them from those that the program may use.
    pub ncpus: Option<usize>,
}

/// Asks the session that packs `pid` to change to other CPUs. Returns the new CPUs.
///
/// # Errors
/// Fails if the process is not packed, or the session refuses.
pub fn repack(pid: u32, wanted: &Repack) -> Result<CpuSet> {
    let whom = "the session that packs the process";
    match control::session_of(Packing::NAME, pid)? {
        Found::Session(asks) => {
            let cpus = asks.ask(wanted, whom)?;
            cpus.parse().with_context(|| format!("invalid answer from {whom}"))
        }
        Found::Stranger => bail!("process {pid} is packed by another user"),
        Found::Nobody if is_packed(pid)? => bail!("the session that packs process {pid} cannot be reached"),
        Found::Nobody => {
            bail!("process {pid} is not packed; if it is a child of a packed program, name the program's first process")
        }
    }
}

impl Packing {
    /// Makes an engine that packs on the requested CPUs, until [`repack`] changes them.
    #[must_use]
    pub fn new(wanted: Wanted, how: &How) -> Packing {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let command = words.collect::<Vec<_>>().join(" ");
        let plan = Plan { how: how.clone(), helping: ebpf::helping(), command, ..Plan::default() };
        Packing {
            wanted,
            plan,
            what: Vec::new(),
            packer: None,
            cpu_choice: None,
            ended: None,
            summary: None,
            repacked: Vec::new(),
            busy_ns: None,
        }
    }

    /// Returns the CPUs of the pack.
    pub(super) fn cpus(&self) -> CpuSet {
        self.plan.cpus.iter().copied().collect()
    }

    /// Packs the same processes on other CPUs. For some tens of milliseconds in between, the processes have their
    /// original masks.
    fn repack(&mut self, wanted: &Wanted) -> Result<CpuSet> {
        let cpu_choice = self.cpu_choice.as_ref().context("the CPUs of this session cannot be changed")?;
        let cpus = cpu_choice.choose(wanted)?;
        let capacities = cpu_choice.capacities(&cpus);
        if cpus == self.cpus() {
            return Ok(cpus);
        }
        let first_cpus = self.plan.cpus.len();
        self.finish();
        let summary = self.summary.get_or_insert_default();
        let after_ns = summary.wall_ns;
        self.plan.pids = summary.living.keys().copied().collect();
        if self.plan.pids.is_empty() {
            bail!("the program has ended");
        }
        if self.plan.began == Began::Here {
            self.plan.began = Began::Packed(first_cpus);
        }
        let plan = Plan { cpus: cpus.iter().collect(), capacities, ..self.plan.clone() };
        self.busy_ns = busy_ns(&Root::live()).ok();
        match Packer::start(plan.clone()) {
            Ok(packer) => {
                (self.packer, self.plan) = (Some(packer), plan);
                self.repacked.push(Repacked { after_ns, cpus: cpus.to_string() });
                Ok(cpus)
            }
            Err(error) => {
                self.packer = Some(Packer::start(self.plan.clone()).context("cannot pack on the previous CPUs again")?);
                Err(error.into())
            }
        }
    }

    /// Ends the present packing, and adds its result to the summary. Returns the first diagnostic of this result.
    fn finish(&mut self) -> Option<String> {
        let mut summary = self.packer.take()?.finish();
        let diagnostic = summary.diagnostics.first().cloned();
        summary.others_ns = self.busy_ns.take().and_then(|before_ns| others_ns(&before_ns, &self.cpus(), &summary));
        self.summary = Some(match self.summary.take() {
            Some(before) => before.then(summary),
            None => summary,
        });
        diagnostic
    }
}

/// Returns for how long other programs used `cpus`, ns: the growth of the CPUs' busy time since `before_ns`, less the
/// CPU time of the packed program and of cox. Returns `None` if the busy time cannot be read.
fn others_ns(before_ns: &BTreeMap<u32, u64>, cpus: &CpuSet, summary: &Summary) -> Option<u64> {
    let now_ns = busy_ns(&Root::live()).ok()?;
    let since_ns = cpus.iter().filter_map(|cpu| Some(now_ns.get(&cpu)?.saturating_sub(*before_ns.get(&cpu)?)));
    Some(since_ns.sum::<u64>().saturating_sub(summary.totals.run_ns + summary.own_ns))
}

impl Engine for Packing {
    const NAME: &'static str = "pack";
    type Section = Packed;
    type Command = Repack;

    fn probe(&mut self, target: &Target) -> Result<()> {
        let pids: &[u32] = match target {
            Target::Launch(_) => &[],
            Target::Attach(Attached::Processes(pids)) => pids,
            Target::Attach(Attached::Cgroup(_)) => {
                bail!("control groups cannot be packed yet; name the processes with --pid")
            }
            Target::Machine => bail!("cox can pack only a program or a process"),
        };
        // First refuse processes that are packed already. The mask of such a process does not show which CPUs it may
        // use.
        for &pid in pids {
            if is_packed(pid)? {
                return Err(live::Error::PackedAlready(pid).into());
            }
        }
        // Of several processes, the first one decides which CPUs may be used. A program that cox launches inherits
        // cox's own CPUs.
        let cpu_choice = CpuChoice::of(pids.first().map_or(Who::Own, |pid| Who::Task(*pid)))?;
        let cpus = cpu_choice.choose(&self.wanted)?;
        self.plan.began = if pids.is_empty() { Began::Here } else { Began::Outside };
        self.plan.capacities = cpu_choice.capacities(&cpus);
        self.plan.cpus = cpus.iter().collect();
        self.cpu_choice = Some(cpu_choice);
        self.what = match target {
            Target::Launch(_) => target.words(),
            _ => pids.iter().map(|pid| format!("process {pid}")).collect(),
        };
        Ok(())
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        if self.plan.how.preload {
            preload::add_to(launch, !self.plan.how.children);
        }
        Ok(())
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        self.plan.pids = subject.pids();
        self.busy_ns = busy_ns(&Root::live()).ok();
        let packer = Packer::start(self.plan.clone()).map_err(|error| match error {
            live::Error::Watch(error) => ebpf::explained(error).into(),
            other => other,
        });
        self.packer = Some(packer?);
        Ok(())
    }

    fn tick_every(&self) -> Duration {
        // A tick only notes that a controlling thread has failed.
        Duration::from_secs(1)
    }

    fn tick(&mut self) -> Result<()> {
        if self.packer.as_ref().is_some_and(Packer::has_failed) {
            let why = self.finish().unwrap_or_else(|| "a controlling thread has failed".to_owned());
            bail!("packing has ended: {why}");
        }
        self.ended.take().map_or(Ok(()), |why| bail!(why))
    }

    fn command(&mut self, command: Repack) -> Result<String> {
        let done = Wanted::of(command.cpus, command.ncpus).and_then(|wanted| self.repack(&wanted));
        if let Err(error) = &done
            && self.packer.is_none()
        {
            self.ended = Some(chain(error));
        }
        done.map(|cpus| cpus.to_string())
    }

    fn undo(&mut self) -> Result<()> {
        self.finish();
        Ok(())
    }

    fn unrestored(&self) -> Vec<String> {
        self.summary.as_ref().map(|summary| summary.unrestored.clone()).unwrap_or_default()
    }

    fn section(&mut self, ended: &Ended) -> Result<Packed> {
        let mut summary = self.summary.take().context("nothing was packed")?;
        if summary.only_watched && self.plan.how.children {
            // The kernel's sum also has threads that lived for a short time only. What is missing in the other sum was
            // taken for time of other programs.
            let cpu_ns: u64 = ended.launched.iter().map(|one| one.cpu_ns).sum();
            let missing_ns = cpu_ns.saturating_sub(summary.totals.run_ns);
            summary.totals.run_ns += missing_ns;
            summary.others_ns = summary.others_ns.map(|ns| ns.saturating_sub(missing_ns));
        }
        let (what, repacked) = (std::mem::take(&mut self.what), std::mem::take(&mut self.repacked));
        Ok(Packed { report: section::report(what, &self.cpus(), repacked, &summary, ended.exit), summary })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_understood_as_it_was_meant() {
        let cpus: CpuSet = "0-3,8".parse().unwrap();
        for (asked, line, wanted) in [
            (
                Repack { cpus: Some(cpus.clone()), ncpus: None },
                r#"{"cpus":"0-3,8","ncpus":null}"#,
                Wanted::Named { option: "--cpus", cpus },
            ),
            (Repack { cpus: None, ncpus: Some(3) }, r#"{"cpus":null,"ncpus":3}"#, Wanted::Count(3)),
        ] {
            assert_eq!(serde_json::to_string(&asked).unwrap(), line);
            let heard: Repack = serde_json::from_str(line).unwrap();
            assert_eq!(Wanted::of(heard.cpus, heard.ncpus).unwrap(), wanted, "{line}");
        }
        assert!(serde_json::from_str::<Repack>("{\"cpus\": \"x\", \"ncpus\": null}").is_err());
        let nothing: Repack = serde_json::from_str("{\"cpus\": null, \"ncpus\": null}").unwrap();
        assert!(Wanted::of(nothing.cpus, nothing.ncpus).unwrap_err().to_string().contains("give --cpus or --ncpus"));
    }

    #[test]
    fn a_process_that_nobody_packs_has_no_session_to_ask() {
        let error = repack(u32::MAX - 7, &Repack { cpus: None, ncpus: Some(1) }).unwrap_err();
        assert!(error.to_string().contains("is not packed"), "{error}");
    }
}
