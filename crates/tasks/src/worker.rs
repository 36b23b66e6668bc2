//! What a thread does with tasks: runs them, waits for them. How they are made is in `making`, what follows their end in `ending`.
//!
//! A thread is in one task at a time, implicit or explicit, and in those that these interrupt: a task that waits has others
//! run on its stack. Which ones is restricted: a task that waits for its children may be interrupted only by tasks below it
//! (OpenMP 5.2, section 12.9, task scheduling constraint 2: all our tasks are tied), because any other could want
//! a lock that the waiting one holds. At a barrier every task may run.

use std::cell::Cell;
use std::hint::spin_loop;
use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::begun::Taker;
use crate::blocking::BLOCKING;
use crate::group::Group;
use crate::icv::{self, do_tasks_differ};
use crate::nesting::Nesting;
use crate::number::NONE;
use crate::park::{bed, give_back, take_number};
use crate::parts::Learned;
use crate::pool::Pool;
use crate::task::{COPIED, DETACHED, FINAL, NOBODY, RANGE, Task};
use crate::team::{Seat, Team};

/// Looks for something to do before a thread sleeps. Waking it takes some microseconds; a look is a few dozen
/// nanoseconds.
const LOOKS: u32 = 200;
/// Pauses between two looks.
const SPINS: u32 = 16;

/// A thread that runs tasks.
pub struct Worker {
    /// Its number among all.
    pub(crate) thread: u32,
    team: Cell<*const Team>,
    seat: Cell<*const Seat>,
    /// What is around the region that it is a thread of.
    nesting: Cell<*const Nesting>,
    pub(crate) current: Cell<*const Task>,
    /// Tasks on top of it that are done at once; see `frame`.
    pub(crate) frames: Cell<u32>,
    /// The thread number that it holds; see `number`.
    pub(crate) number: Cell<u32>,
    /// The barrier that this member waits at, if it waits at one; see `begun`.
    waits_at: Cell<Option<u32>>,
    random: Cell<u32>,
    pub(crate) learned: Cell<Learned>,
    pub(crate) pool: Pool,
    pub(crate) icvs: icv::OfWorker,
    /// The team of the last region that this thread has begun: the first to be asked for the next.
    pub last_team: Cell<Option<&'static Team>>,
}

/// Where a worker says which team it is in; 0 there: none. For who looks from assembly.
pub const TEAM_AT: usize = offset_of!(Worker, team);

/// What a thread that [helps](Worker::help) a team is asked and told.
pub trait Helper {
    /// Whether to begin a task, of which is known whether it probably `blocks`; else it leaves the team.
    fn may_begin(&mut self, blocks: bool) -> bool;

    /// A task begins.
    fn begins(&mut self);

    /// The task has ended. Returns whether it has blocked.
    fn has_run(&mut self) -> bool;
}

/// Where a thread was before it came to a region.
#[derive(Clone, Copy)]
pub struct Before {
    team: *const Team,
    seat: *const Seat,
    nesting: *const Nesting,
    current: *const Task,
    frames: u32,
    number: u32,
    waits_at: Option<u32>,
    icvs: icv::Aside,
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
            icvs: icv::OfWorker::new(),
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

    /// Runs a team's tasks without being a member, while there are any and the `helper` may begin them. Returns how many there were.
    pub fn help(&self, team: &'static Team, helper: &mut impl Helper) -> u64 {
        let Some(seat) = team.take_guests_seat() else { return 0 };
        let before = self.step_aside();
        seat.thread.store(self.thread, Ordering::Relaxed);
        self.team.set(team);
        self.seat.set(seat);
        self.swap_icvs_of_guest();
        let mut ran = 0;
        let mut next = self.find(None);
        while let Some(task) = next {
            // SAFETY: taken from a queue: this thread has it alone.
            let this = unsafe { task.as_ref() };
            if self.leaves_to_members(this.work.get()) || !Worker::has_begun(team, this, Taker::Guest) {
                team.put_for_members(task);
                next = self.find(None);
                continue;
            }
            let work = this.work.get();
            if !helper.may_begin(BLOCKING.has(work)) {
                team.put_first(seat, task);
                team.leave_behind(seat);
                break;
            }
            helper.begins();
            self.match_icvs_of_region(team);
            let ready = self.run(task);
            ran += 1;
            let has_blocked = helper.has_run();
            BLOCKING.note(work, has_blocked);
            next = match ready {
                // Tasks that have been ready for longer come first. Else each standby goes through one chain of tasks, and when the CPUs
                // are never idle, the other chains are begun when these are at their end.
                Some(ready) if has_blocked => {
                    team.put_first(seat, ready);
                    self.find(None)
                }
                ready => ready.or_else(|| self.find(None)),
            };
        }
        if ran > 0 {
            // All members may be asleep at the barrier, and this have been the last task.
            team.try_to_pass(team.generation());
        }
        team.give_guests_seat_back(seat);
        self.swap_icvs_of_guest();
        self.come_back(before);
        ran
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
    pub unsafe fn is_within(&self, around: Option<&Nesting>) {
        self.nesting.set(around.map_or(ptr::null(), ptr::from_ref));
    }

    /// What is around the innermost region here. `None`: nothing, or it is in none.
    #[inline]
    pub fn nesting(&self) -> Option<&Nesting> {
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

    /// Waits for the children of the present task.
    pub fn wait_for_children(&self) {
        if self.frames.get() > 0 {
            // A frame has no children, or it would be none.
            return;
        }
        let Some(task) = self.current() else { return };
        let own = &task.own;
        if own.missing() != task.others.tally.ended_elsewhere() {
            let number = self.lend_number();
            // As long as there is something to do, children that end here count without an atomic operation.
            let all = || own.missing() == task.others.tally.ended_elsewhere();
            self.run_while(|| !all(), Some(task));
            own.seat.store(NOBODY, Ordering::Relaxed);
            if task.others.tally.ask(own.missing(), self.thread) {
                self.wait(|| task.others.tally.is_enough(), Some(task));
            }
            own.seat.store(self.thread, Ordering::Relaxed);
            self.take_number_back(number);
        }
        self.has_no_children(task);
    }

    /// All children of the present task have ended: it begins to count anew.
    fn has_no_children(&self, task: &Task) {
        task.others.tally.reset();
        task.own.made.set(0);
        task.own.ended_here.set(0);
        self.forget_children(task);
    }

    /// Runs another task, if there is one that may interrupt the present one.
    pub fn give_way(&self) {
        if self.frames.get() > 0 {
            // Only tasks below it could interrupt it.
            return;
        }
        let number = self.lend_number();
        self.run_one(self.current());
        self.take_number_back(number);
    }

    /// Begins a taskgroup of the present task's.
    ///
    /// # Safety
    /// The group lives until [`end_group`](Worker::end_group) has come back.
    pub unsafe fn begin_group(&self, group: &Group) {
        if let Some(task) = self.current() {
            task.own.groups.set(group);
        }
    }

    /// The innermost taskgroup around this place.
    #[inline]
    pub fn group(&self) -> *const Group {
        // SAFETY: null, or the task that runs on this thread. Frames are in the same group.
        unsafe { self.current.get().as_ref() }.map_or(ptr::null(), |task| task.own.groups.get())
    }

    /// Waits for all tasks of the innermost group, and leaves it.
    pub fn end_group(&self) {
        let Some(task) = self.current() else { return };
        // SAFETY: not over before this.
        let Some(group) = (unsafe { task.own.groups.get().as_ref() }) else { return };
        if group.tally.ask(0, self.thread) {
            self.wait(|| group.tally.is_enough(), Some(task));
        }
        task.own.groups.set(group.around);
    }

    /// Leaves the innermost group, whose tasks have ended: behind a barrier.
    pub fn leave_group(&self) {
        let Some(task) = self.current() else { return };
        // SAFETY: not over before this.
        let around = unsafe { task.own.groups.get().as_ref() }.map_or(ptr::null(), |group| group.around);
        task.own.groups.set(around);
    }

    /// Waits until all members of the team have come here, and all tasks have ended; runs them.
    pub fn barrier(&self) {
        self.meet(false);
    }

    /// The end of a region. Where [probably](Team::begin) no member makes tasks it is no barrier, and the caller has one behind it: nobody waits there
    /// but, if a task was made after all, who has made it, and who comes later. Those who have come before sleep in the caller's barrier, and
    /// standbys are there for threads that sleep.
    pub fn end_region(&self) {
        let Some((team, _)) = self.place() else { return };
        if !team.lets_go() {
            self.barrier();
        } else if team.has_tasks() {
            self.stay_while_there_are_tasks(team);
        }
    }

    #[cold]
    fn stay_while_there_are_tasks(&self, team: &Team) {
        let number = self.lend_number();
        team.begin_to_stay();
        loop {
            self.run_while(|| true, None);
            if team.let_go_if_quiet() {
                break;
            }
            self.look_around(|| team.is_quiet(), None);
        }
        team.end_to_stay();
        self.take_number_back(number);
        self.current().into_iter().for_each(|task| self.has_no_children(task));
    }

    /// The same as [`barrier`](Worker::barrier), but goes on when the region is cancelled: whether it is.
    pub fn barrier_or_cancel(&self) -> bool {
        if self.team().is_some_and(Team::is_cancelled) {
            return true;
        }
        self.meet(true)
    }

    /// Meets the others. Whether it is let go instead, which it can be if the barrier is `cancellable`.
    fn meet(&self, cancellable: bool) -> bool {
        let Some((team, seat)) = self.place() else { return false };
        let number = self.lend_number();
        let (generation, last) = team.arrive(seat);
        let waited_at = self.waits_at.replace(Some(generation));
        // Who has just come last, or has just run out of tasks, has to ask whether all is done.
        let mut asks = last;
        if last && !team.has_tasks() {
            asks = false;
            team.try_to_pass(generation);
        }
        let is_let_go = || cancellable && team.is_last_barrier(generation);
        let goes_on = || team.has_passed(generation) || is_let_go();
        while !goes_on() {
            asks |= self.run_while(|| !goes_on(), None);
            if std::mem::take(&mut asks) {
                team.try_to_pass(generation);
            } else {
                self.look_around(goes_on, None);
                asks = true;
            }
        }
        self.waits_at.set(waited_at);
        self.take_number_back(number);
        if is_let_go() {
            // Those at the region's end may have passed by now.
            return true;
        }
        // All tasks have ended: so have this member's.
        self.current().into_iter().for_each(|task| self.has_no_children(task));
        false
    }

    /// Until `enough`, runs tasks below `within`, or any.
    pub(crate) fn wait(&self, enough: impl Fn() -> bool, within: Option<&Task>) {
        let number = self.lend_number();
        while !enough() {
            if !self.run_while(|| !enough(), within) {
                self.look_around(&enough, within);
            }
        }
        self.take_number_back(number);
    }

    /// Runs one task after the other, below `within` or any, while there is one and `goes_on`. Whether it ran any.
    fn run_while(&self, mut goes_on: impl FnMut() -> bool, within: Option<&Task>) -> bool {
        let (mut ran, mut next) = (false, None);
        while goes_on() && !self.may_leave() {
            let Some(task) = next.take().or_else(|| self.find(within)) else { return ran };
            next = self.run(task);
            ran = true;
        }
        self.hand_on(next);
        ran
    }

    /// Puts a task that may begin where somebody finds it.
    #[inline]
    pub(crate) fn hand_on(&self, ready: Option<NonNull<Task>>) {
        if let (Some(ready), Some((team, seat))) = (ready, self.place()) {
            team.put(seat, ready);
        }
    }

    /// Runs one task, below `within` or any. Whether there was one.
    fn run_one(&self, within: Option<&Task>) -> bool {
        let mut once = true;
        self.run_while(|| std::mem::take(&mut once), within)
    }

    /// Whether this thread can leave its tasks to standbys, and should.
    #[inline]
    fn may_leave(&self) -> bool {
        signal::is_live()
            && self.place().is_some_and(|(team, seat)| !seat.is_guests() && team.can_spare_members())
            && signal::may_leave()
    }

    /// Nothing was to be done: looks a while for a task, then sleeps until somebody wakes it.
    fn look_around(&self, enough: impl Fn() -> bool, within: Option<&Task>) {
        let Some((team, seat)) = self.place() else { return };
        let mut looks = 0;
        let mut leaves = self.may_leave();
        while looks < LOOKS && !leaves {
            for _ in 0..SPINS {
                spin_loop();
                if enough() {
                    return;
                }
            }
            if self.run_one(within) {
                return;
            }
            looks += 1;
            leaves = self.may_leave();
        }
        if leaves {
            // Another thread works on this CPU. Standbys do what is left; this thread sleeps until it has nothing to wait for.
            team.lie_down_for_good(seat);
            // Its tasks are the oldest of all, where it has made them, and in its deque they would come last.
            team.leave_behind(seat);
            // Asked again behind the fence there: who finds out that there can be no more standbys wakes all who sleep.
            if !enough() && self.may_leave() {
                bed(self.thread).sleep();
            }
            team.get_up(seat, false);
            return;
        }
        team.lie_down(seat, within);
        // Whoever puts a task somewhere after this look wakes somebody.
        let found = if enough() { None } else { self.find(within) };
        if found.is_none() && !enough() {
            bed(self.thread).sleep();
        }
        team.get_up(seat, found.is_some() || enough());
        self.hand_on(found.and_then(|task| self.run(task)));
    }

    #[inline]
    fn find(&self, within: Option<&Task>) -> Option<NonNull<Task>> {
        let mut random = self.random.get();
        let (team, seat) = self.place()?;
        let found = team.find(seat, within, &mut random);
        self.random.set(random);
        match found {
            // What is below the present task is in no construct that this thread has not begun.
            Some(task) if within.is_none() && self.is_late_for(team, task) => {
                team.put_for_members(task);
                None
            }
            found => found,
        }
    }

    /// Whether this is a member at a barrier, and the task of a construct that begins behind that.
    #[inline]
    fn is_late_for(&self, team: &Team, task: NonNull<Task>) -> bool {
        let barrier = self.waits_at.get();
        // SAFETY: taken from a queue: this thread has it alone.
        barrier.is_some() && !Worker::has_begun(team, unsafe { task.as_ref() }, Taker::Member(barrier))
    }

    /// Whether a task that `taker` has taken, if it is for members, is of a construct that `taker` has begun.
    #[inline]
    fn has_begun(team: &Team, task: &Task, taker: Taker) -> bool {
        // SAFETY: not over before all its tasks are, of which this is one.
        let group = unsafe { task.group.get().as_ref() };
        !group.is_some_and(|group| group.is_for_members.get()) || team.has_begun(taker)
    }

    /// Runs a task that is this thread's. Another that may begin now, if there is one: this thread's too.
    #[inline]
    pub(crate) fn run(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: taken from a queue, or never in one: this thread has it alone.
        let task = unsafe { this.as_ref() };
        if task.flags.get() & DETACHED != 0 {
            return self.run_detached(this);
        }
        self.run_body(task);
        self.end(this)
    }

    /// Whether the task that runs here, or is about to be made in this group, is to end where it is.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: not over while it has tasks, of which this is one or makes one.
        let group = unsafe { self.group().as_ref() };
        group.is_some_and(Group::is_cancelled) || self.team().is_some_and(Team::is_cancelled)
    }

    /// Runs a task's body, unless its group or the region is cancelled, and nothing has to be ended that was begun when it was made. Whether
    /// it did.
    #[inline]
    pub(crate) fn run_body(&self, task: &Task) -> bool {
        let (before, frames) = (self.current.replace(task), self.frames.replace(0));
        let number = self.number.get();
        self.begins(task);
        self.enter_icvs(task, before);
        let runs = task.flags.get() & COPIED != 0 || !self.is_cancelled();
        if runs {
            if task.flags.get() & RANGE == 0 {
                // SAFETY: the compiler's function, with what it has to be given.
                unsafe { (task.work.get())(task.data.get()) };
            } else {
                // SAFETY: flagged by who has made it as such.
                unsafe { self.run_range(task) };
            }
        }
        self.give_number_back(number);
        self.leave_icvs(task, before);
        self.current.set(before);
        self.frames.set(frames);
        runs
    }

    /// A task's body begins on this thread.
    #[inline]
    pub(crate) fn begins(&self, task: &Task) {
        task.own.seat.store(self.thread, Ordering::Relaxed);
        task.own.groups.set(task.group.get());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        signal::discharge();
        give_back(self.thread);
    }
}
