//! A thread that runs tasks: its team, its slot and its current task. What the thread does is in `running`, `waiting`, `helping` and
//! `groups`; how tasks are made is in `making`, and what follows their end in `ending`.
//!
//! A thread runs one task at a time, implicit or explicit. Below it on the stack are the tasks that it interrupts: a task that waits lets
//! others run on its stack. A task that waits for its children may be interrupted only by its descendants (OpenMP 5.2, section 12.9, task
//! scheduling constraint 2: all our tasks are tied), because any other task could want a lock that the waiting task holds. At a barrier
//! every task may run.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::biased_lock::NONE;
use crate::icv::kept::{OfWorker, Values, do_tasks_differ};
use crate::nesting::Nesting;
use crate::pool::Pool;
use crate::task::{FINAL, Task};
use crate::team::{Slot, Team};
use crate::threads::{give_back, take_number};

/// A thread that runs tasks.
pub struct Worker {
    /// The thread's number among all threads that run tasks.
    pub(crate) thread: u32,
    pub(crate) team: Cell<*const Team>,
    pub(crate) slot: Cell<*const Slot>,
    /// The regions that enclose the region in which this thread is.
    nesting: Cell<*const Nesting<Team>>,
    pub(crate) current: Cell<*const Task>,
    /// Number of frames on top of the current task. A frame is a task that its creator runs immediately, without making a `Task`; see
    /// `frame`.
    pub(crate) frames: Cell<u32>,
    /// The thread number that the current task holds; see `number`.
    pub(crate) number: Cell<u32>,
    /// Number of the barrier at which this member waits, if it waits at one; see `begun`.
    pub(crate) waits_at: Cell<Option<u32>>,
    pub(crate) random: Cell<u32>,
    pub(crate) learned: Cell<Learned>,
    pub(crate) pool: Pool,
    pub(crate) icvs: OfWorker,
    /// The team of the last region that this thread began: the first candidate for the next region.
    pub last_team: Cell<Option<&'static Team>>,
}

/// What a thread has learned about the last loop of which it ran parts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Learned {
    /// The loop's sequence number, assigned by the module `parts`.
    pub of: u64,
    /// A range with at most this many parts is not split further; see `parts`.
    pub few: u64,
}

/// Offset of the field that holds a worker's team, for assembly code. The field is null if the thread is in no team.
pub const TEAM_AT: usize = offset_of!(Worker, team);

/// The state of a thread before it entered a region.
#[derive(Clone, Copy)]
pub struct Before {
    team: *const Team,
    slot: *const Slot,
    nesting: *const Nesting<Team>,
    current: *const Task,
    frames: u32,
    number: u32,
    waits_at: Option<u32>,
    icvs: *const Values,
}

impl Worker {
    /// Makes the calling thread a worker. `None`: there are too many workers.
    pub fn new() -> Option<Worker> {
        let thread = take_number()?;
        umt_client::enlist();
        Some(Worker {
            thread,
            team: Cell::new(ptr::null()),
            slot: Cell::new(ptr::null()),
            nesting: Cell::new(ptr::null()),
            current: Cell::new(ptr::null()),
            frames: Cell::new(0),
            number: Cell::new(NONE),
            waits_at: Cell::new(None),
            random: Cell::new(thread),
            learned: Cell::default(),
            pool: Pool::new(),
            icvs: OfWorker::default(),
            last_team: Cell::new(None),
        })
    }

    /// Makes this thread a member of a region: takes the slot `number`. Returns the thread's state before that, for
    /// [`come_back`](Worker::come_back).
    ///
    /// # Safety
    /// The team lives as long as the process. No other thread has this slot until this thread has called [`come_back`](Worker::come_back),
    /// after the region's last [`barrier`](Worker::barrier).
    pub unsafe fn enter(&self, team: &Team, number: u32) -> Before {
        let before = self.step_aside();
        let slot = team.slot(number);
        debug_assert!(slot.implicit.own.groups.get().is_null(), "a taskgroup of the previous region has not ended");
        if slot.thread.load(Ordering::Relaxed) != self.thread {
            // Other threads read this word, so it is written only if it changes.
            slot.thread.store(self.thread, Ordering::Relaxed);
        }
        slot.implicit.own.slot.store(self.thread, Ordering::Relaxed);
        self.team.set(team);
        self.slot.set(slot);
        self.current.set(&raw const slot.implicit);
        before
    }

    /// Makes this thread leave its team for a region whose tasks this crate does not run. Returns the thread's state before that, for
    /// [`come_back`](Worker::come_back).
    pub fn step_aside(&self) -> Before {
        let (team, slot, current) = (self.team.get(), self.slot.get(), self.current.get());
        let (frames, number) = (self.frames.replace(0), self.number.replace(NONE));
        let (nesting, waits_at) = (self.nesting.replace(ptr::null()), self.waits_at.take());
        let icvs = self.put_icvs_aside();
        let before = Before { team, slot, nesting, current, frames, number, waits_at, icvs };
        self.team.set(ptr::null());
        self.current.set(ptr::null());
        before
    }

    /// Ends this thread's part in a region that it [entered](Worker::enter) or for which it [stepped aside](Worker::step_aside): restores
    /// its state from before.
    pub fn come_back(&self, before: Before) {
        self.give_number_back(NONE);
        if do_tasks_differ() {
            // A member's implicit task ends here.
            self.place().into_iter().for_each(|(_, slot)| slot.implicit.icvs.clear());
        }
        self.take_icvs_back(before.icvs);
        self.number.set(before.number);
        self.team.set(before.team);
        self.slot.set(before.slot);
        self.nesting.set(before.nesting);
        self.current.set(before.current);
        self.frames.set(before.frames);
        self.waits_at.set(before.waits_at);
    }

    /// Returns the team whose region this thread is in, if the region has more than one member.
    #[inline]
    pub fn team(&self) -> Option<&'static Team> {
        // SAFETY: the pointer is null, or points to a team that lives as long as the process: the callers of `enter` and `help` guarantee it.
        unsafe { self.team.get().as_ref() }
    }

    /// Sets the regions that enclose the region in which this thread is now. The thread has [entered](Worker::enter) that region; or, if
    /// this crate does not run the region's tasks, it has [left its team](Worker::step_aside) for the region.
    ///
    /// # Safety
    /// `around` stays valid until this thread has left the region with [`come_back`](Worker::come_back).
    pub unsafe fn is_within(&self, around: Option<&Nesting<Team>>) {
        self.nesting.set(around.map_or(ptr::null(), ptr::from_ref));
    }

    /// Returns the regions that enclose the innermost region of this thread. `None`: that region is the outermost one, or the thread is in
    /// no region.
    #[inline]
    pub fn nesting(&self) -> Option<&Nesting<Team>> {
        if self.is_helper() {
            return self.team().and_then(Team::around);
        }
        // SAFETY: the pointer is null or valid: the caller of `is_within` guarantees it.
        unsafe { self.nesting.get().as_ref() }
    }

    /// Returns the current task. If tasks run on top of it that have no `Task` yet (frames), first makes `Task`s for them.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Task> {
        if self.frames.get() > 0 {
            return self.make_frames();
        }
        // SAFETY: `current` is null, or points to the task that runs on this thread.
        unsafe { self.current.get().as_ref() }
    }

    /// Returns a number that identifies the current task: no other unfinished task has it. 0 if this thread runs no task of this crate.
    pub fn present(&self) -> usize {
        self.current().map_or(0, |task| ptr::from_ref(task).addr())
    }

    /// Returns this thread's number among the members of the team. `None`: it is no member.
    pub fn member(&self) -> Option<u32> {
        self.place().and_then(|(_, slot)| (!slot.is_for_helper).then_some(slot.number))
    }

    /// Returns whether this thread is a helper: it runs tasks of a team of which it is no member.
    pub fn is_helper(&self) -> bool {
        self.place().is_some_and(|(_, slot)| slot.is_for_helper)
    }

    /// Returns this thread's team and its slot there.
    #[inline]
    pub(crate) fn place(&self) -> Option<(&Team, &Slot)> {
        // SAFETY: a thread with a team has a slot in it, which lives as long as the team.
        self.team().map(|team| (team, unsafe { &*self.slot.get() }))
    }

    /// Returns whether the current task is final, so that this thread runs all new tasks immediately.
    #[inline]
    pub fn is_final(&self) -> bool {
        // A task that runs immediately inside the current task may have no `Task` of its own (a frame). It is final if the current task is.
        // SAFETY: `current` is null, or points to the task that runs on this thread.
        unsafe { self.current.get().as_ref() }.is_some_and(|task| task.flags.get() & FINAL != 0)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        umt_client::discharge();
        give_back(self.thread);
    }
}
