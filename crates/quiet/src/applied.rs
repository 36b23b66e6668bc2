//! A plan that is applied: the changes are made in an order in which the kernel accepts them and nothing is lost, and
//! threads that are created later are kept away, too.
//!
//! 1. The masks of all threads are journaled, before any cpuset changes: the kernel changes masks then.
//! 2. The cpusets are made, and the threads of the root cpuset leave it: those that the partition has not taken the quiet CPUs
//!    from. Threads that were created there meanwhile are found by listing it again, until it has no new one.
//! 3. The program goes to its cpuset. It waits before its exec.
//! 4. All other settings.
//! 5. Threads of the kernel that may still use the quiet CPUs lose them.
//! 6. The root cpuset is listed once more.
//!
//! Later sweeps look for threads that have come to the root cpuset, and for cpusets of version 1 that were made since.

use std::collections::BTreeSet;
use std::slice;

use changes::undo::Undone;
use changes::{ChangeRequest, Error, Knob, Name, Session, Why};

use crate::cpusets::{Loss, is_quiet_folder};
use crate::level::Level;
use crate::new_cpusets::NewCpusets;
use crate::plan::{Plan, Step, What};
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
    /// What may keep a tick, and why it could not be changed.
    ticking: Vec<String>,
    /// Why a sweep has failed first.
    refused: Option<Error>,
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
            ticking: Vec::new(),
            refused: None,
        };
        match applied.change_all(of_program) {
            Ok(()) => Ok(applied),
            Err(error) => Err(Box::new((error, applied.session.end()))),
        }
    }

    fn change_all(&mut self, of_program: &[u32]) -> Result<(), Error> {
        // Read once, because that takes several files of each thread. Threads that are created from now on are found by the
        // sweeps.
        let all = self.tasks.all()?;
        if let Some(own) = self.plan.cpusets.clone() {
            self.listed.extend(all.iter().map(|task| task.thread.tid));
            let is_of_program = |task: &Task| of_program.contains(&task.process);
            let (of_program, others): (Vec<Task>, Vec<Task>) = all.iter().cloned().partition(is_of_program);
            let planned = cpusets(&self.plan);
            self.new_cpusets = NewCpusets::since(&self.tasks.cpusets()?, planned, &self.plan.chosen.cpus);
            // A program that another session keeps quiet stays in that session's cpuset, with its mask.
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
            let elsewhere = self.after_the_kernel(&elsewhere);
            self.keep_away(&elsewhere)?;
            self.sweep()?;
            self.session.take(program(&self.plan, &of_program))?;
        }
        self.session.take(settings(&self.plan, |level| level > Level::Cgroup && level < Level::Tickless))?;
        self.stop_ticks()?;
        // Most threads of the kernel have left with the others.
        let of_kernel =
            all.iter().filter(|task| task.is_of_kernel).filter_map(|task| self.now(task)).collect::<Vec<Task>>();
        self.keep_kernel_away(&of_kernel)?;
        self.sweep()
    }

    /// Changes what may keep a tick. The kernel may refuse it while it accounts for other threads in SCHED_DEADLINE: the CPUs are no less quiet
    /// otherwise.
    fn stop_ticks(&mut self) -> Result<(), Error> {
        for request in settings(&self.plan, |level| level == Level::Tickless) {
            match self.session.take([request]) {
                Err(error @ Error::Journal { .. }) => return Err(error),
                Err(error) => self.ticking.push(format!("what may keep a tick: {error}")),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn masks(&self, tasks: &[Task]) -> Vec<ChangeRequest> {
        masks(&self.plan, tasks, |thread| self.session.creators_of(thread))
    }

    /// Returns a thread with the mask that it has now; `None` if it has ended.
    fn now(&self, task: &Task) -> Option<Task> {
        Some(Task { mask: self.tasks.mask(task.thread.tid)?, ..task.clone() })
    }

    /// Returns the same threads with the masks that they have now. Counts those that have lost quiet CPUs.
    fn after_the_kernel(&mut self, before: &[Task]) -> Vec<Task> {
        let quiet = &self.plan.chosen.cpus;
        let both = before.iter().filter_map(|task| Some((task, self.now(task)?)));
        let (lost, now): (Vec<bool>, Vec<Task>) =
            both.map(|(before, now)| (now.mask.intersection(quiet) != before.mask.intersection(quiet), now)).unzip();
        self.moved.extend(now.iter().zip(lost).filter(|(_, has_lost)| *has_lost).map(|(task, _)| task.thread.tid));
        now
    }

    fn keep_away(&mut self, tasks: &[Task]) -> Result<(), Error> {
        self.take(away(&self.plan, tasks))
    }

    fn keep_kernel_away(&mut self, tasks: &[Task]) -> Result<(), Error> {
        self.take(kernel_threads(&self.plan, tasks))
    }

    fn take(&mut self, requests: Vec<ChangeRequest>) -> Result<(), Error> {
        let knobs: Vec<Knob> = requests.iter().map(|request| request.knob.clone()).collect();
        let taken = self.session.take(requests);
        // Only now the kernel has answered: it refuses to move some threads of its own, and others have ended.
        let changed = knobs.iter().filter(|knob| self.session.has_changed(knob));
        self.moved.extend(changed.filter_map(Knob::thread).map(|thread| thread.tid));
        taken
    }

    /// Sweeps. The first failure is kept ([`Applied::take_refused`]); it does not end the sweeps, which keep later threads
    /// away.
    pub fn tick(&mut self) {
        if let Err(error) = self.sweep() {
            self.refused.get_or_insert(error);
        }
    }

    /// Returns what may keep a tick and could not be changed, with the reasons.
    pub fn ticking(&self) -> &[String] {
        &self.ticking
    }

    /// Returns why a sweep has failed first, once; `None` if none has.
    pub fn take_refused(&mut self) -> Option<Error> {
        self.refused.take()
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
    /// has put there. A thread that cannot be kept away does not hold up the others, and is not tried again.
    ///
    /// # Errors
    /// If the threads cannot be listed, or nothing can be journaled; the next sweep tries again. Also, after all others were
    /// kept away, the reason why one could not be.
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
            let mut tasks = self.read(new);
            // In version 2, the partition has taken the quiet CPUs from nearly all of them.
            if self.plan.cpusets.as_ref().is_some_and(|own| own.system.is_none()) {
                tasks.retain(|task| !task.mask.intersection(&self.plan.chosen.cpus).is_empty());
            }
            if tasks.is_empty() {
                break;
            }
            self.keep_each_away(&tasks)?;
        }
        Ok(())
    }

    /// Keeps these threads away.
    ///
    /// # Errors
    /// The first reason why one could not be, after all others were kept away.
    fn keep_each_away(&mut self, tasks: &[Task]) -> Result<(), Error> {
        let Err(error) = self.keep_new_away(tasks) else { return Ok(()) };
        // The refusal of one may have kept others from being changed, so each is tried alone. If nothing can be journaled,
        // the next sweep tries again.
        let is_of_journal = |error: Error| matches!(error, Error::Journal { .. });
        if tasks.iter().any(|task| self.keep_new_away(slice::from_ref(task)).is_err_and(is_of_journal)) {
            tasks.iter().for_each(|task| _ = self.listed.remove(&task.thread.tid));
        }
        Err(error)
    }

    fn keep_new_away(&mut self, tasks: &[Task]) -> Result<(), Error> {
        self.session.take(self.masks(tasks))?;
        self.keep_away(tasks)?;
        // In version 1, threads of the kernel have left with the others, unless the kernel does not let them.
        let now = self.read(tasks.iter().map(|task| task.thread.tid));
        self.keep_kernel_away(&now)
    }

    fn read(&self, tids: impl IntoIterator<Item = u32>) -> Vec<Task> {
        tids.into_iter().filter_map(|tid| self.tasks.one(tid)).collect()
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

    /// Returns the interrupts that the kernel itself places: only the attempt to move them has told.
    pub fn fixed_interrupts(&self) -> impl Iterator<Item = &Knob> {
        self.session.unmoved().iter().filter(|unmoved| unmoved.why == Why::Managed).map(|unmoved| &unmoved.knob)
    }

    /// Returns what else the kernel did not let cox move, and why, one sentence each. Threads that it has bound to a CPU
    /// are left out, because they come only if something gives them work.
    #[must_use]
    pub fn unmoved(&self) -> Vec<String> {
        let others = self.session.unmoved().iter();
        others.filter(|unmoved| !matches!(unmoved.why, Why::Managed | Why::Bound)).map(ToString::to_string).collect()
    }

    /// Returns the steps of the plan that have given a setting another value.
    pub fn changed(&self) -> impl Iterator<Item = &Step> {
        let is_changed = |step: &&Step| {
            let What::Settings(settings) = &step.what else { return false };
            step.is_change() && settings.iter().any(|(knob, _)| self.session.has_changed(knob))
        };
        self.plan.steps.iter().filter(is_changed)
    }

    /// Returns what could not be restored of the changes of sessions that were killed, one sentence each.
    #[must_use]
    pub fn inherited(&self) -> &[String] {
        self.session.inherited()
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
