//! A thread that runs tasks: which team, seat and task it is in. What it does there is in `running`, `waiting`, `helping` and `groups`; how tasks are made
//! is in `making`, what follows their end in `ending`.
//!
//! A thread is in one task at a time, implicit or explicit, and in those that these interrupt: a task that waits has others
//! run on its stack. Which ones is restricted: a task that waits for its children may be interrupted only by tasks below it
//! (OpenMP 5.2, section 12.9, task scheduling constraint 2: all our tasks are tied), because any other could want
//! a lock that the waiting one holds. At a barrier every task may run.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::held::NONE;
use crate::icv::kept::{Aside, OfWorker, do_tasks_differ};
use crate::learned::Learned;
use crate::nesting::Nesting;
use crate::park::{give_back, take_number};
use crate::pool::Pool;
use crate::task::{FINAL, Task};
use crate::team::{Seat, Team};

/// A thread that runs tasks.
pub struct Worker {
    /// Its number among all.
    pub(crate) thread: u32,
    pub(crate) team: Cell<*const Team>,
    pub(crate) seat: Cell<*const Seat>,
    /// What is around the region that it is a thread of.
    nesting: Cell<*const Nesting<Team>>,
    pub(crate) current: Cell<*const Task>,
    /// Tasks on top of it that are done at once; see `frame`.
    pub(crate) frames: Cell<u32>,
    /// The thread number that it holds; see `number`.
    pub(crate) number: Cell<u32>,
    /// The barrier that this member waits at, if it waits at one; see `begun`.
    pub(crate) waits_at: Cell<Option<u32>>,
    pub(crate) random: Cell<u32>,
    pub(crate) learned: Cell<Learned>,
    pub(crate) pool: Pool,
    pub(crate) icvs: OfWorker,
    /// The team of the last region that this thread has begun: the first to be asked for the next.
    pub last_team: Cell<Option<&'static Team>>,
}

/// Where a worker says which team it is in; 0 there: none. For who looks from assembly.
pub const TEAM_AT: usize = offset_of!(Worker, team);

/// Where a thread was before it came to a region.
#[derive(Clone, Copy)]
pub struct Before {
    team: *const Team,
    seat: *const Seat,
    nesting: *const Nesting<Team>,
    current: *const Task,
    frames: u32,
    number: u32,
    waits_at: Option<u32>,
    icvs: Aside,
}

impl Worker {
    /// The calling thread as a worker. `None`: there are too many.
    pub fn new() -> Option<Worker> {
        let thread = take_number()?;
        signal::enlist();
        Some(Worker {
            thread,
            team: Cell::new(ptr::null()),
            seat: Cell::new(ptr::null()),
            nesting: Cell::new(ptr::null()),
            current: Cell::new(ptr::null()),
            frames: Cell::new(0),
            number: Cell::new(NONE),
            waits_at: Cell::new(None),
            random: Cell::new(thread),
            learned: Cell::default(),
            pool: Pool::new(),
            icvs: OfWorker::new(),
            last_team: Cell::new(None),
        })
    }

    /// Begins a member's share of a region: takes its seat.
    ///
    /// # Safety
    /// The team lives as long as the process, and nobody else has this seat until [`come_back`](Worker::come_back), behind the
    /// region's last [`barrier`](Worker::barrier).
    pub unsafe fn enter(&self, team: &Team, number: u32) -> Before {
        let before = self.step_aside();
        let seat = team.seat(number);
        debug_assert!(seat.implicit.own.groups.get().is_null(), "groups end with their region");
        if seat.thread.load(Ordering::Relaxed) != self.thread {
            // Others look there: not to be written without need.
            seat.thread.store(self.thread, Ordering::Relaxed);
        }
        seat.implicit.own.seat.store(self.thread, Ordering::Relaxed);
        self.team.set(team);
        self.seat.set(seat);
        self.current.set(&raw const seat.implicit);
        before
    }

    /// Begins a share of a region in which tasks are not this crate's.
    pub fn step_aside(&self) -> Before {
        let (team, seat, current) = (self.team.get(), self.seat.get(), self.current.get());
        let (frames, number) = (self.frames.replace(0), self.number.replace(NONE));
        let (nesting, waits_at) = (self.nesting.replace(ptr::null()), self.waits_at.take());
        let icvs = self.put_icvs_aside();
        let before = Before { team, seat, nesting, current, frames, number, waits_at, icvs };
        self.team.set(ptr::null());
        self.current.set(ptr::null());
        before
    }

    /// Ends a share of either kind.
    pub fn come_back(&self, before: Before) {
        self.give_number_back(NONE);
        if do_tasks_differ() {
            // Of a member: its implicit task ends.
            self.place().into_iter().for_each(|(_, seat)| seat.implicit.icvs.clear());
        }
        self.take_icvs_back(before.icvs);
        self.number.set(before.number);
        self.team.set(before.team);
        self.seat.set(before.seat);
        self.nesting.set(before.nesting);
        self.current.set(before.current);
        self.frames.set(before.frames);
        self.waits_at.set(before.waits_at);
    }

    /// The team whose region it is in, if that has more than one member.
    #[inline]
    pub fn team(&self) -> Option<&'static Team> {
        // SAFETY: null or a team, which lives as long as the process: whoever calls `enter` and `help` promises it.
        unsafe { self.team.get().as_ref() }
    }

    /// It has [entered](Worker::enter), or [stepped aside](Worker::step_aside) for, a region that has this around it.
    ///
    /// # Safety
    /// It stays until this thread [comes back](Worker::come_back).
    pub unsafe fn is_within(&self, around: Option<&Nesting<Team>>) {
        self.nesting.set(around.map_or(ptr::null(), ptr::from_ref));
    }

    /// What is around the innermost region here. `None`: nothing, or it is in none.
    #[inline]
    pub fn nesting(&self) -> Option<&Nesting<Team>> {
        if self.is_guest() {
            return self.team().and_then(Team::around);
        }
        // SAFETY: `is_within`'s promise.
        unsafe { self.nesting.get().as_ref() }
    }

    /// The present task; frames on top of it are made into tasks.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Task> {
        if self.frames.get() > 0 {
            return self.make_frames();
        }
        // SAFETY: null, or the task that runs on this thread.
        unsafe { self.current.get().as_ref() }
    }

    /// The present task, as a number that no other has; 0: none of ours.
    pub fn present(&self) -> usize {
        self.current().map_or(0, |task| ptr::from_ref(task).addr())
    }

    /// Its seat in the team: a member's is its number.
    pub fn seat(&self) -> Option<u32> {
        self.place().map(|(_, seat)| seat.number())
    }

    /// Its number among the members of the team. `None`: it is no member.
    pub fn member(&self) -> Option<u32> {
        self.place().and_then(|(_, seat)| (!seat.is_guests()).then(|| seat.number()))
    }

    /// Whether it runs tasks of a team whose member it is not.
    pub fn is_guest(&self) -> bool {
        self.place().is_some_and(|(_, seat)| seat.is_guests())
    }

    /// Its team, and its seat there.
    #[inline]
    pub(crate) fn place(&self) -> Option<(&Team, &Seat)> {
        // SAFETY: with a team there is a seat in it, which stays as long as that.
        self.team().map(|team| (team, unsafe { &*self.seat.get() }))
    }

    /// Whether all tasks are done at once here.
    #[inline]
    pub fn is_final(&self) -> bool {
        // SAFETY: null, or the task that runs on this thread. Frames are final if it is.
        unsafe { self.current.get().as_ref() }.is_some_and(|task| task.flags.get() & FINAL != 0)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        signal::discharge();
        give_back(self.thread);
    }
}
