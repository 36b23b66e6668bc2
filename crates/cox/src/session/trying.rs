//! The packer on trial, as an engine that also finds out which runtime the program uses.

use std::os::fd::BorrowedFd;

use anyhow::Result;
use machine::Root;
use machine::process::{Backing, Task};
use pack::live::Plan;

use super::Subject;
use super::engine::Engine;
use super::packing::Packing;

/// OpenMP runtimes: GCC's, LLVM's and Intel's. All read OMP_NUM_THREADS and OMP_WAIT_POLICY.
const RUNTIMES: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];

/// Ticks after which a program that has not mapped a runtime is not asked any more.
const ASKED: u32 = 50;

/// The trial.
pub struct Trying {
    /// What tries.
    pub packing: Packing,
    /// Whether the program has mapped an OpenMP runtime.
    pub openmp: bool,
    main: Option<u32>,
    asked: u32,
}

impl Trying {
    /// A trial as planned.
    pub fn new(plan: Plan) -> Trying {
        Trying { packing: Packing::new(plan), openmp: false, main: None, asked: 0 }
    }

    fn look_at_maps(&mut self) {
        let Some(pid) = self.main.filter(|_| !self.openmp && self.asked < ASKED) else { return };
        self.asked += 1;
        // A program that ends meanwhile has none any more.
        let maps = Task::process(&Root::live(), pid).maps().unwrap_or_default();
        let names = maps.iter().filter_map(|mapping| match &mapping.backing {
            Backing::File { path, .. } => path.file_name()?.to_str(),
            _ => None,
        });
        self.openmp = names.into_iter().any(|name| RUNTIMES.iter().any(|runtime| name.starts_with(runtime)));
    }
}

impl Engine for Trying {
    fn apply(&mut self, subject: &Subject) -> Result<()> {
        if let Subject::Launched(pids) = subject {
            self.main = pids.first().copied();
        }
        self.packing.apply(subject)
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        self.packing.readiness()
    }

    fn tick(&mut self) -> Result<()> {
        self.look_at_maps();
        self.packing.tick()
    }

    fn anything_alive(&mut self) -> Result<bool> {
        self.packing.anything_alive()
    }

    fn undo(&mut self) -> Result<()> {
        self.packing.undo()
    }
}
