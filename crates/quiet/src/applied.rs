//! A plan that is applied: the changes are made in an order in which the kernel accepts them and nothing is lost, and
//! threads that are created later are kept away, too.
//!
//! 1. The masks of all threads are journaled, before any cpuset changes: the kernel changes masks then.
//! 2. The cpusets are made, and the threads of the root cpuset leave it: those that the partition has not taken the quiet CPUs
//!    from. Threads that were created there meanwhile are found by listing it again, until it has no new one.
//! 3. The program goes to its cpuset. It waits before its exec.
//! 4. All other settings.
//! 5. Threads of the kernel that may still use the quiet CPUs lose them.
//!
//! Later sweeps look for threads that have come to the root cpuset, and for cpusets of version 1 that were made since.

use std::collections::{BTreeMap, BTreeSet};

use changes::undo::Undone;
use changes::{ChangeRequest, Error, Name, Session, Thread};

use crate::cpusets::{Loss, is_quiet_folder};
use crate::level::Level;
use crate::new_cpusets::NewCpusets;
use crate::plan::Plan;
use crate::requests::{away, cpusets, kernel_threads, masks, new_cpuset, program, settings, stay};
use crate::tasks::{Task, TaskList};

/// How often the root cpuset is listed for threads that were created meanwhile.
const LOOKS: usize = 50;

/// A plan that is applied. Dropping it restores everything.
pub struct Applied<'s> {
    session: Session<'s>,
    plan: Plan,
    tasks: Box<dyn TaskList + 's>,
    /// Ids of the threads in the root cpuset, when it was listed last.
    listed: BTreeSet<u32>,
    /// Ids of threads that were moved away, or lost CPUs of their masks.
    moved: BTreeSet<u32>,
    /// Cpusets of version 1 that were made since the plan was applied.
    new_cpusets: NewCpusets,
}

impl<'s> Applied<'s> {
    /// Applies a plan. The processes `of_program` go to the quiet cpuset; all other threads leave the quiet CPUs.
    ///
    /// # Errors
    /// The first change that was not possible, and what became of the changes before it: they are restored.
    pub fn make(
        session: Session<'s>,
        plan: Plan,
        tasks: Box<dyn TaskList + 's>,
        of_program: &[u32],
    ) -> Result<Applied<'s>, Box<(Error, Undone)>> {
        let mut applied = Applied {
            session,
            plan,
            tasks,
            listed: BTreeSet::new(),
            moved: BTreeSet::new(),
            new_cpusets: NewCpusets::default(),
        };
        match applied.change_all(of_program) {
            Ok(()) => Ok(applied),
            Err(error) => Err(Box::new((error, applied.session.end()))),
        }
    }

    fn change_all(&mut self, of_program: &[u32]) -> Result<(), Error> {
        if let Some(own) = self.plan.cpusets.clone() {
            let is_of_program = |task: &Task| of_program.contains(&task.process);
            let (of_program, others): (Vec<Task>, Vec<Task>) = self.tasks.all()?.into_iter().partition(is_of_program);
            let planned = cpusets(&self.plan);
            self.new_cpusets = NewCpusets::since(&self.tasks.cpusets()?, planned, &self.plan.chosen.cpus);
            self.listed.extend(of_program.iter().chain(&others).map(|task| task.thread.tid));
            // What other sessions' programs have does not change.
            let is_quiet = |task: &Task| task.cgroup.as_ref().is_some_and(|its| is_quiet_folder(its, &own.hierarchy));
            let others = others.into_iter().filter(|task| !is_quiet(task));
            // Another session may have moved threads to the system's cpuset. When it ends first, they stay for this one.
            // Those that were created there go with the last of them.
            let is_there = |task: &Task| own.system.is_some() && task.cgroup == own.system;
            let (there, elsewhere): (Vec<Task>, Vec<Task>) = others.partition(is_there);
            self.session.take(self.masks(&elsewhere))?;
            self.session.take(self.session.shared(self.masks(&there))?)?;
            self.session.take(settings(&self.plan, |level| level <= Level::Cgroup))?;
            self.session.take(self.session.shared(stay(&self.plan, &there))?)?;
            let elsewhere = self.after_the_kernel(elsewhere)?;
            self.keep_away(&elsewhere)?;
            self.sweep()?;
            self.session.take(program(&self.plan, &of_program))?;
        }
        self.session.take(settings(&self.plan, |level| level > Level::Cgroup))?;
        // Read again: most threads of the kernel have left with the others.
        let now = self.tasks.all()?;
        self.keep_kernel_away(&now)
    }

    fn masks(&self, tasks: &[Task]) -> Vec<ChangeRequest> {
        masks(&self.plan, tasks, |thread| self.session.creators_of(thread))
    }

    /// Returns the same threads with the masks that they have now. Counts those that have lost quiet CPUs.
    fn after_the_kernel(&mut self, before: Vec<Task>) -> Result<Vec<Task>, Error> {
        let now: BTreeMap<Thread, Task> = self.tasks.all()?.into_iter().map(|task| (task.thread, task)).collect();
        let quiet = &self.plan.chosen.cpus;
        let has_lost = |before: &Task, now: &Task| now.mask.intersection(quiet) != before.mask.intersection(quiet);
        let both = || before.iter().filter_map(|task| Some((task, now.get(&task.thread)?)));
        self.moved.extend(both().filter(|(before, now)| has_lost(before, now)).map(|(task, _)| task.thread.tid));
        Ok(both().map(|(_, now)| now.clone()).collect())
    }

    fn keep_away(&mut self, tasks: &[Task]) -> Result<(), Error> {
        self.take(away(&self.plan, tasks))
    }

    fn keep_kernel_away(&mut self, tasks: &[Task]) -> Result<(), Error> {
        self.take(kernel_threads(&self.plan, tasks))
    }

    fn take(&mut self, requests: Vec<ChangeRequest>) -> Result<(), Error> {
        self.moved.extend(requests.iter().filter_map(|request| request.knob.thread()).map(|thread| thread.tid));
        self.session.take(requests)
    }

    /// Takes the quiet CPUs from cpusets of version 1 that were made since the last time. What one of them refuses is noted:
    /// it may be gone, or have another one in it by now.
    fn shrink_new_cpusets(&mut self) -> Result<(), Error> {
        let Some(own) = self.plan.cpusets.as_ref().filter(|own| own.system.is_some()) else { return Ok(()) };
        let now = self.tasks.cpusets()?;
        for Loss { folder, cpus } in self.new_cpusets.losses(&now, &own.hierarchy, &self.plan.chosen.cpus) {
            let inside: Vec<Task> =
                self.tasks.ids_in(&folder).into_iter().filter_map(|tid| self.tasks.one(tid)).collect();
            self.session.take(self.masks(&inside))?;
            match self.session.take([new_cpuset(&self.plan, &folder, &cpus)]) {
                Ok(()) => self.moved.extend(inside.iter().map(|task| task.thread.tid)),
                Err(Error::Gone(_)) => {}
                Err(error) => self.new_cpusets.keep(&folder, error.to_string()),
            }
        }
        Ok(())
    }

    /// Keeps threads away that have come to the root cpuset since the last time: the kernel's, and those that another program
    /// has put there.
    ///
    /// # Errors
    /// If the threads cannot be listed, or the kernel refuses a change.
    pub fn sweep(&mut self) -> Result<(), Error> {
        if self.plan.cpusets.is_none() {
            return Ok(());
        }
        if self.new_cpusets.is_due() {
            self.shrink_new_cpusets()?;
        }
        for _ in 0..LOOKS {
            let ids: BTreeSet<u32> = self.tasks.ids_in_root()?.into_iter().collect();
            let new: Vec<u32> = ids.difference(&self.listed).copied().collect();
            // Ids that are gone may come back with another thread.
            self.listed = ids;
            let read = |applied: &Self| new.iter().filter_map(|tid| applied.tasks.one(*tid)).collect::<Vec<Task>>();
            let mut tasks = read(self);
            // In version 2, the partition has taken the quiet CPUs from nearly all of them.
            if self.plan.cpusets.as_ref().is_some_and(|own| own.system.is_none()) {
                tasks.retain(|task| !task.mask.intersection(&self.plan.chosen.cpus).is_empty());
            }
            if tasks.is_empty() {
                break;
            }
            self.session.take(self.masks(&tasks))?;
            self.keep_away(&tasks)?;
            let tasks = read(self);
            self.keep_kernel_away(&tasks)?;
        }
        Ok(())
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns how many threads were moved away, or lost CPUs of their masks.
    #[must_use]
    pub fn moved(&self) -> usize {
        self.moved.len()
    }

    /// Returns the names of interrupts that the kernel did not let cox move: their affinity was known only when it was written.
    #[must_use]
    pub fn unmoved_interrupts(&self) -> Vec<String> {
        let unmoved = self.session.unmoved().iter().filter(|knob| knob.thread().is_none());
        unmoved.map(ToString::to_string).collect()
    }

    /// Returns a line for each cpuset that was made meanwhile and could not lose the quiet CPUs.
    #[must_use]
    pub fn unshrunk_cpusets(&self) -> Vec<String> {
        self.new_cpusets.keeping().collect()
    }

    /// Restores everything.
    pub fn end(mut self) -> Undone {
        // Threads that were created in the root cgroup since the last time may have inherited a mask. If they cannot be
        // listed, everything else is restored.
        let _ = self.sweep();
        self.session.end()
    }

    /// Leaves the changes to the machine, until `cox quiet undo` restores them or the machine is booted.
    ///
    /// # Errors
    /// If the journal cannot be written; everything is restored then.
    pub fn keep(self) -> Result<Name, Error> {
        self.session.keep()
    }
}
