//! How a thread runs a team's tasks without being a member. Standbys do this: additional threads, which run tasks while others are blocked.

use std::sync::atomic::Ordering;

use crate::begun::Taker;
use crate::blocking::BLOCKING;
use crate::team::Team;
use crate::worker::Worker;

/// The caller's functions for a thread that [helps](Worker::help) a team: they decide whether a task begins, and are called when it begins
/// and ends.
pub trait Helper {
    /// Returns whether to begin the next task. `blocks`: whether it probably blocks. If this returns false, the thread leaves the team.
    fn may_begin(&mut self, blocks: bool) -> bool;

    /// Called when a task begins.
    fn begins(&mut self);

    /// Called when the task has ended. Returns whether the task has blocked.
    fn has_run(&mut self) -> bool;
}

impl Worker {
    /// Runs a team's tasks without being a member, as long as there are tasks and [`Helper::may_begin`] returns true. Returns how many
    /// tasks were run.
    pub fn help(&self, team: &'static Team, helper: &mut impl Helper) -> u64 {
        let Some(slot) = team.take_helper_slot() else { return 0 };
        let before = self.step_aside();
        slot.thread.store(self.thread, Ordering::Relaxed);
        self.team.set(team);
        self.slot.set(slot);
        self.swap_icvs_of_helper();
        let mut ran = 0;
        let mut next = self.find(None);
        while let Some(task) = next {
            // SAFETY: this thread took the task from a queue, so it owns the task.
            let this = unsafe { task.as_ref() };
            if self.leaves_to_members(this.work.get()) || !Worker::has_begun(team, this, Taker::Helper) {
                team.put_for_members(task);
                next = self.find(None);
                continue;
            }
            let work = this.work.get();
            if !helper.may_begin(BLOCKING.has(work)) {
                team.put_first(slot, task);
                team.leave_behind(slot);
                break;
            }
            helper.begins();
            self.match_icvs_of_region(team);
            let ready = self.run(task);
            ran += 1;
            let has_blocked = helper.has_run();
            BLOCKING.note(work, has_blocked);
            next = match ready {
                // If the task that has just ended had blocked, this thread does not run its successor next. It queues the successor behind
                // the tasks that have been ready for longer. Otherwise each standby would run one chain of dependent tasks to its end, and
                // while no CPU is idle, no other chain would begin before that.
                Some(ready) if has_blocked => {
                    team.put_first(slot, ready);
                    self.find(None)
                }
                ready => ready.or_else(|| self.find(None)),
            };
        }
        if ran > 0 {
            // This thread may have run the team's last task while all members sleep at the barrier. So it has to check whether they can pass.
            team.try_to_pass(team.generation());
        }
        self.swap_icvs_of_helper();
        self.come_back(before);
        // The slot is given back last, because `come_back` still writes to it. From here on another helper may take the slot.
        team.give_helper_slot_back(slot);
        ran
    }
}
