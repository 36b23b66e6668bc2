//! The packer as an engine.

use std::os::fd::BorrowedFd;

use anyhow::{Result, bail};
use pack::live::{Packer, Plan, Summary};

use super::Subject;
use super::engine::Engine;

/// The packing engine.
pub struct Packing {
    plan: Plan,
    packer: Option<Packer>,
    /// What it did, once it was undone.
    pub summary: Option<Summary>,
}

impl Packing {
    /// Packs as planned; the plan's processes are those of the subject.
    pub fn new(plan: Plan) -> Packing {
        Packing { plan, packer: None, summary: None }
    }
}

impl Engine for Packing {
    fn apply(&mut self, subject: &Subject) -> Result<()> {
        self.plan.pids = match subject {
            Subject::Launched(pid) => vec![*pid],
            Subject::Processes(pids) => pids.clone(),
            Subject::Cgroup(_) => bail!("control groups cannot be packed yet; name the processes with --pid"),
        };
        self.packer = Some(Packer::start(self.plan.clone())?);
        Ok(())
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn tick(&mut self) -> Result<()> {
        if self.packer.as_ref().is_some_and(Packer::has_failed) {
            self.undo()?;
            let why = self.summary.as_ref().and_then(|summary| summary.complaints.first().cloned());
            bail!("packing has ended: {}", why.unwrap_or_else(|| "a controlling thread has failed".to_owned()));
        }
        Ok(())
    }

    fn anything_alive(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn undo(&mut self) -> Result<()> {
        if let Some(packer) = self.packer.take() {
            self.summary = Some(packer.finish());
        }
        Ok(())
    }
}
