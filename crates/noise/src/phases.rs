//! How long a program computes between two synchronisations, as an engine of a session.
//!
//! The preload library in each process counts the lengths in memory that cox maps: `cox noise forecast` needs them as the works of a phase. Nothing
//! happens in the kernel, and nothing is measured in a program that does not synchronise.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use machine::Root;
use machine::process::Task;
use session::{Ended, Engine, Launch, NoCommand, Pauses, Subject, Target, preload};
use watch::preload_page::{Page, PhaseLengths, is_page};
use wire::preload::{LIBGOMP, LIBOMP, MPI, PHASE_BUCKETS, PTHREAD, phase_middle_ns};

/// Environment variable by which the preload library is asked for the lengths.
const VARIABLE: &str = "COX_PHASES";

/// The engine.
pub struct OfPhases {
    children: bool,
    root: Root,
    /// Why no phases can be seen, if that is known.
    obstacle: Option<&'static str>,
    /// The processes that cox started.
    launched: Vec<u32>,
    /// The memory of each process's library; after an exec, the one before stays.
    pages: BTreeMap<(u32, u64), Page>,
    pauses: Pauses,
}

/// The phases of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Why none are known; `None` if some are.
    pub unknown: Option<&'static str>,
    /// What ends a phase, by name.
    pub between: Vec<&'static str>,
    /// Processes with phases.
    pub processes: u32,
    /// Sum of all lengths, ns.
    pub sum_ns: u64,
    /// The longest one, ns.
    pub longest_ns: u64,
    /// Lengths in ns, ascending, each with the number of phases about as long.
    pub lengths: Vec<(u64, u64)>,
}

impl Phases {
    /// Sums the phases of processes.
    #[must_use]
    pub fn of(processes: &[PhaseLengths]) -> Phases {
        // If one process uses MPI, barriers of threads in others do not count: its ranks are the processes.
        let has_mpi = processes.iter().any(|of| of.seen & MPI != 0);
        let counts = |of: &&PhaseLengths| (of.seen & MPI != 0) == has_mpi && of.counts.iter().any(|count| *count > 0);
        let counted: Vec<&PhaseLengths> = processes.iter().filter(counts).collect();
        let longest_ns = counted.iter().map(|of| of.longest_ns).max().unwrap_or(0);
        let bucket = |at: usize| {
            let count: u64 = counted.iter().filter_map(|of| of.counts.get(at)).sum();
            (phase_middle_ns(at).min(longest_ns), count)
        };
        let seen = counted.iter().fold(0, |seen, of| seen | of.seen);
        let kinds = [(MPI, "MPI"), (LIBGOMP, "OpenMP"), (LIBOMP, "OpenMP"), (PTHREAD, "pthread")];
        let mut between: Vec<&str> = kinds.iter().filter(|(bit, _)| seen & bit != 0).map(|(_, name)| *name).collect();
        between.dedup();
        between.truncate(if has_mpi { 1 } else { between.len() });
        Phases {
            unknown: counted.is_empty().then_some(NONE_SEEN),
            between,
            processes: counted.len() as u32,
            sum_ns: counted.iter().map(|of| of.sum_ns).sum(),
            longest_ns,
            lengths: (0..PHASE_BUCKETS).map(bucket).filter(|(_, count)| *count > 0).collect(),
        }
    }
}

const NONE_SEEN: &str =
    "no two barriers of OpenMP or pthread, or collective operations of MPI, were seen in one process";
const NOT_STARTED: &str = "cox sees them only in programs that it starts";
const NOT_LOADED: &str = "libcox_preload.so is not in the program";

impl OfPhases {
    /// Makes the engine. `children`: whether child processes are observed too.
    #[must_use]
    pub fn new(children: bool) -> OfPhases {
        OfPhases {
            children,
            root: Root::live(),
            obstacle: Some(NOT_STARTED),
            launched: Vec::new(),
            pages: BTreeMap::new(),
            pauses: Pauses::default(),
        }
    }

    /// Maps the memory of libraries that were not there before. A process that ends before cox has looked at it is missed.
    fn look(&mut self) {
        let mut left = self.launched.clone();
        while let Some(pid) = left.pop() {
            let task = Task::process(&self.root, pid);
            if self.children {
                left.extend(task.children());
            }
            let Some(mapping) = task.maps().ok().and_then(|maps| maps.into_iter().find(is_page)) else { continue };
            if !self.pages.contains_key(&(pid, mapping.inode))
                && let Ok(page) = Page::open(&self.root, pid, &mapping)
            {
                self.pages.insert((pid, mapping.inode), page);
            }
        }
    }
}

impl Engine for OfPhases {
    const NAME: &'static str = "phases of the program";
    type Section = Phases;
    type Command = NoCommand;

    fn probe(&mut self, _: &Target) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        let is_loaded = preload::add_to(launch, !self.children);
        self.obstacle = (!is_loaded).then_some(NOT_LOADED);
        if is_loaded {
            launch.variables.push((VARIABLE.into(), "1".into()));
        }
        Ok(())
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        if let Subject::Launched(pids) = subject {
            self.launched.clone_from(pids);
        }
        Ok(())
    }

    fn tick_every(&self) -> Duration {
        self.pauses.length()
    }

    fn tick(&mut self) -> Result<()> {
        if self.obstacle.is_none() {
            self.look();
        }
        self.pauses.ticked(false);
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        self.tick()
    }

    fn section(&mut self, _: &Ended) -> Result<Phases> {
        let processes: Vec<PhaseLengths> = self.pages.values().map(Page::phases).collect();
        let phases = Phases::of(&processes);
        Ok(Phases { unknown: phases.unknown.map(|why| self.obstacle.unwrap_or(why)), ..phases })
    }
}

#[cfg(test)]
mod tests {
    use wire::preload::phase_bucket;

    use super::*;

    fn process(seen: u32, lengths_ns: &[u64]) -> PhaseLengths {
        let mut counts = vec![0; PHASE_BUCKETS];
        lengths_ns.iter().for_each(|ns| counts[phase_bucket(*ns)] += 1);
        let longest_ns = lengths_ns.iter().copied().max().unwrap_or(0);
        PhaseLengths { seen, sum_ns: lengths_ns.iter().sum(), longest_ns, counts }
    }

    #[test]
    fn processes_are_summed() {
        let phases = Phases::of(&[process(PTHREAD, &[1 << 20, 1 << 20]), process(0, &[]), process(LIBGOMP, &[5000])]);
        assert_eq!((phases.unknown, phases.processes, phases.sum_ns), (None, 2, 5000 + (2 << 20)));
        assert_eq!(phases.between, ["OpenMP", "pthread"]);
        let counts: Vec<u64> = phases.lengths.iter().map(|length| length.1).collect();
        assert_eq!(counts, [1, 2]);
        assert!(phases.lengths[1].0 <= phases.longest_ns);
    }

    /// mpirun and the shell may have barriers of their own.
    #[test]
    fn with_mpi_only_its_processes_count() {
        let phases = Phases::of(&[process(MPI | LIBGOMP, &[1000; 3]), process(PTHREAD, &[50; 9])]);
        assert_eq!((phases.between, phases.processes), (vec!["MPI"], 1));
        assert_eq!(phases.lengths.iter().map(|length| length.1).sum::<u64>(), 3);
        assert_eq!(Phases::of(&[process(0, &[])]).unknown, Some(NONE_SEEN));
    }
}
