//! The packer as an engine.

use anyhow::{Context, Result, bail};
use machine::steal::{CpuTime, CpuTimes};
use machine::{CpuSet, Root};
use pack::live::{Began, Packer, Plan, Summary};
use report::pack::Repacked;

use super::Subject;
use super::control::Control;
use super::engine::Engine;
use crate::choice::Choice;
use crate::cli::Cpus;
use crate::ebpf;

/// The packing engine.
pub struct Packing {
    plan: Plan,
    packer: Option<Packer>,
    /// What other CPUs there are to choose from, where they may be changed.
    choice: Option<Choice>,
    control: Option<Control>,
    /// What it did, once it was undone.
    pub summary: Option<Summary>,
    /// The CPUs it was changed to, in order.
    pub repacked: Vec<Repacked>,
    /// CPU time that other programs had on the pack's CPUs; `None` where it was not measured.
    pub others_ns: Option<u64>,
    /// What the CPUs had run when the packing in force began.
    times: Option<CpuTimes>,
}

impl Packing {
    /// Packs as planned; the plan's processes are those of the subject.
    pub fn new(plan: Plan) -> Packing {
        Packing {
            plan,
            packer: None,
            choice: None,
            control: None,
            summary: None,
            repacked: Vec::new(),
            others_ns: None,
            times: None,
        }
    }

    /// Packs as planned, until `cox pack set` wants other CPUs of the choice.
    pub fn adjustable(plan: Plan, choice: Choice) -> Packing {
        Packing { choice: Some(choice), ..Packing::new(plan) }
    }

    /// The CPUs of the pack.
    pub fn cpus(&self) -> CpuSet {
        self.plan.cpus.iter().copied().collect()
    }

    fn hear(&mut self) -> Result<()> {
        let asked = self.control.as_mut().map_or_else(Vec::new, Control::asked);
        for asked in asked {
            let done = self.repack(&asked.wanted);
            asked.answer(&done);
            if self.packer.is_none() {
                done?;
            }
        }
        Ok(())
    }

    /// Packs the same processes on other CPUs. Meanwhile, for some ten milliseconds, they have their own masks.
    fn repack(&mut self, wanted: &Cpus) -> Result<CpuSet> {
        let choice = self.choice.as_ref().context("the CPUs of this session cannot be changed")?;
        let cpus = choice.choose(wanted)?;
        let capacities = choice.capacities(&cpus);
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
        self.times = CpuTimes::read(&Root::live()).ok();
        match Packer::start(plan.clone()) {
            Ok(packer) => {
                (self.packer, self.plan) = (Some(packer), plan);
                self.repacked.push(Repacked { after_ns, cpus: cpus.to_string() });
                Ok(cpus)
            }
            Err(error) => {
                self.packer = Some(Packer::start(self.plan.clone()).context("packing on the CPUs as before")?);
                Err(error.into())
            }
        }
    }

    /// Ends the packing that is in force. Returns the first of its complaints.
    fn finish(&mut self) -> Option<String> {
        let summary = self.packer.take()?.finish();
        let complaint = summary.complaints.first().cloned();
        if let Some(others_ns) = self.times.take().and_then(|before| others_ns(&before, &self.cpus(), &summary)) {
            self.others_ns = Some(self.others_ns.unwrap_or(0) + others_ns);
        }
        self.summary = Some(match self.summary.take() {
            Some(before) => before.then(summary),
            None => summary,
        });
        complaint
    }
}

/// CPU time since `before` that neither the packed program nor cox had on `cpus`, and that was not idle. `None` where
/// it cannot be read.
pub fn others_ns(before: &CpuTimes, cpus: &CpuSet, summary: &Summary) -> Option<u64> {
    let since = CpuTimes::read(&Root::live()).ok()?.since(before);
    let busy_ns: u64 = since.iter().filter(|times| cpus.contains(times.cpu)).map(CpuTime::busy_ns).sum();
    Some(busy_ns.saturating_sub(summary.totals.run_ns + summary.own_ns))
}

impl Engine for Packing {
    fn apply(&mut self, subject: &Subject) -> Result<()> {
        self.plan.pids = match subject {
            Subject::Launched(pids) | Subject::Processes(pids) => pids.clone(),
            Subject::Cgroup(_) => bail!("control groups cannot be packed yet; name the processes with --pid"),
        };
        if self.choice.is_some() {
            // Without it the program is packed all the same; whoever wants other CPUs is told. Before threads are
            // taken, so that whoever sees them packed may ask.
            self.control = Control::open(&self.plan.pids).ok();
        }
        self.times = CpuTimes::read(&Root::live()).ok();
        let packer = Packer::start(self.plan.clone()).map_err(|error| match error {
            pack::live::Error::Watch(error) => ebpf::explained(error).into(),
            other => other,
        });
        self.packer = Some(packer?);
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        if self.packer.as_ref().is_some_and(Packer::has_failed) {
            let why = self.finish().unwrap_or_else(|| "a controlling thread has failed".to_owned());
            bail!("packing has ended: {why}");
        }
        self.hear()
    }

    fn undo(&mut self) -> Result<()> {
        self.control = None;
        self.finish();
        Ok(())
    }
}
