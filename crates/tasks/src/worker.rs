//! What a thread does with tasks: makes them, runs them, waits for them.
//!
//! A thread is in one task at a time, implicit or explicit, and in those that these interrupt: a task that waits has others
//! run on its stack. Which ones is restricted: a task that waits for its children may be interrupted only by tasks below it
//! (OpenMP 5.2, section 12.9, task scheduling constraint 2: all our tasks are tied), because any other could want
//! a lock that the waiting one holds. At a barrier every task may run.

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::depend::{Access, Listener};
use crate::group::Group;
use crate::number::NONE;
use crate::park::{bed, give_back, take_number};
use crate::pool::{Needs, Pool};
use crate::tally::Counted;
use crate::task::{AWAITED, BEING_ENTERED, DEPENDS, Edge, FINAL, HOLD, HOLDS, NOBODY, Task, USE, Work};
use crate::team::{Seat, Team};

/// Looks for something to do before a thread sleeps. Waking it takes some microseconds; a look is a few dozen
/// nanoseconds.
const LOOKS: u32 = 200;
/// Pauses between two looks.
const SPINS: u32 = 16;

/// A thread that runs tasks.
pub struct Worker {
    /// Its number among all.
    thread: u32,
    team: Cell<*const Team>,
    seat: Cell<*const Seat>,
    pub(crate) current: Cell<*const Task>,
    /// The thread number that it holds; see `number`.
    pub(crate) number: Cell<u32>,
    random: Cell<u32>,
    pool: Pool,
}

/// Where a thread was before it came to a region.
#[derive(Clone, Copy)]
pub struct Before {
    team: *const Team,
    seat: *const Seat,
    current: *const Task,
    number: u32,
}

/// A task that is to be made.
pub struct New<A> {
    /// Its body.
    pub work: Work,
    /// The arguments of the body, or what they are copied from.
    pub data: *mut c_void,
    /// Makes the arguments from `data`; without it bytes are copied.
    pub copy: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void)>,
    /// Size of the arguments.
    pub bytes: usize,
    /// Their alignment.
    pub align: usize,
    /// Written over the beginning of the arguments once they are there: bounds of a loop's part.
    pub first_words: Option<[usize; 2]>,
    /// The creator goes on only when the task has ended (a false `if`).
    pub at_once: bool,
    /// All below it is done at once too.
    pub is_final: bool,
    /// Larger is sooner.
    pub priority: i32,
    /// Its dependences.
    pub accesses: Option<A>,
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
            current: Cell::new(ptr::null()),
            number: Cell::new(NONE),
            random: Cell::new(thread),
            pool: Pool::new(),
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
        seat.thread.store(self.thread, Ordering::Relaxed);
        seat.implicit.own.seat.store(self.thread, Ordering::Relaxed);
        self.team.set(team);
        self.seat.set(seat);
        self.current.set(&raw const seat.implicit);
        before
    }

    /// Begins a share of a region in which tasks are not this crate's.
    pub fn step_aside(&self) -> Before {
        let (team, seat, current) = (self.team.get(), self.seat.get(), self.current.get());
        let before = Before { team, seat, current, number: self.number.replace(NONE) };
        self.team.set(ptr::null());
        self.current.set(ptr::null());
        before
    }

    /// Runs a team's tasks without being a member, while there are any and `goes_on`; `begins` is called before the first. How
    /// many there were.
    pub fn help(&self, team: &'static Team, mut goes_on: impl FnMut() -> bool, begins: impl FnOnce()) -> u64 {
        let Some(seat) = team.take_guests_seat() else { return 0 };
        let before = self.step_aside();
        seat.thread.store(self.thread, Ordering::Relaxed);
        self.team.set(team);
        self.seat.set(seat);
        let (mut ran, mut begins) = (0, Some(begins));
        let mut next = if goes_on() { self.find(None) } else { None };
        while let Some(task) = next {
            begins.take().into_iter().for_each(|begins| begins());
            let ready = self.run(task);
            ran += 1;
            next = if goes_on() {
                ready.or_else(|| self.find(None))
            } else {
                self.hand_on(ready);
                None
            };
        }
        if ran > 0 {
            // All members may be asleep at the barrier, and this have been the last task.
            team.try_to_pass(team.generation());
        }
        team.give_guests_seat_back(seat);
        self.come_back(before);
        ran
    }

    /// Ends a share of either kind.
    pub fn come_back(&self, before: Before) {
        self.give_number_back(NONE);
        self.number.set(before.number);
        self.team.set(before.team);
        self.seat.set(before.seat);
        self.current.set(before.current);
    }

    /// The team whose region it is in, if that has more than one member.
    #[inline]
    pub fn team(&self) -> Option<&Team> {
        // SAFETY: null or a team, which lives as long as the process.
        unsafe { self.team.get().as_ref() }
    }

    #[inline]
    fn current(&self) -> Option<&Task> {
        // SAFETY: null, or the task that runs on this thread.
        unsafe { self.current.get().as_ref() }
    }

    /// Its seat in the team: a member's is its number.
    pub fn seat(&self) -> Option<u32> {
        self.place().map(|(_, seat)| seat.number())
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
        self.current().is_some_and(|task| task.flags.get() & FINAL != 0)
    }

    /// Makes a task. `false`: this thread is in no region, or there is no memory; then nothing was done.
    ///
    /// # Safety
    /// `new` describes a task as the compiler does: a body that takes such arguments, which lie at `data`.
    #[inline]
    pub unsafe fn make<A: Iterator<Item = Access> + Clone>(&self, new: New<A>) -> bool {
        let (Some((team, seat)), Some(parent)) = (self.place(), self.current()) else { return false };
        let group = parent.own.groups.get();
        // SAFETY: a group that this task has begun or was made in, and that is not over before all its tasks are.
        if unsafe { group.as_ref() }.is_some_and(Group::is_cancelled) {
            return true;
        }
        let full = seat.deque.len() >= team.enough;
        let at_once = new.at_once || parent.flags.get() & FINAL != 0 || (full && new.accesses.is_none());
        let edges = new.accesses.clone().map_or(0, Iterator::count);
        // What is done at once needs no copy, unless the copy is the program's own doing.
        let copies = !at_once || new.copy.is_some();
        let needs = if copies {
            Needs { bytes: new.bytes, align: new.align, edges }
        } else {
            Needs { edges, align: 1, bytes: 0 }
        };
        let Some(made) = self.pool.make(new.work, parent, needs) else { return false };
        // SAFETY: just made.
        let task = unsafe { made.task.as_ref() };
        match new.copy {
            // SAFETY: the caller's promise.
            Some(copy) => unsafe { copy(made.arguments, new.data) },
            None if copies => {
                // SAFETY: the caller's promise, and room for so many bytes.
                unsafe { ptr::copy_nonoverlapping(new.data.cast::<u8>(), made.arguments.cast(), new.bytes) };
            }
            None => task.data.set(new.data),
        }
        if let Some(words) = new.first_words {
            // SAFETY: the caller's promise: the arguments begin with two words, aligned as such.
            unsafe { task.data.get().cast::<[usize; 2]>().write(words) };
        }
        task.depth.store(parent.depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        task.priority.set(new.priority);
        task.group.set(group);
        let inherited = parent.flags.get() & FINAL;
        task.flags.set(if new.is_final { FINAL } else { inherited });
        parent.own.made.set(parent.own.made.get() + 1);
        // SAFETY: as above.
        if let Some(group) = unsafe { group.as_ref() } {
            group.tally.expect_one();
        }
        seat.has_made();
        team.note_task();
        let may_begin = match new.accesses {
            None => true,
            Some(accesses) => {
                if at_once {
                    task.flags.set(task.flags.get() | AWAITED);
                    task.awaited_by.set(self.thread);
                }
                self.enter_accesses(parent, task, accesses, made.edges, edges)
            }
        };
        if !at_once {
            if may_begin {
                team.put(seat, made.task);
            }
            return true;
        }
        if !may_begin {
            self.wait(|| task.others.waits_for.load(Ordering::Acquire) == 0, Some(parent));
        }
        self.hand_on(self.run(made.task));
        true
    }

    /// Whether the task need not wait for any other.
    #[cold]
    fn enter_accesses(
        &self,
        parent: &Task,
        task: &Task,
        accesses: impl Iterator<Item = Access>,
        edges: *mut Edge,
        room: usize,
    ) -> bool {
        task.flags.set(task.flags.get() | DEPENDS);
        task.others.waits_for.store(BEING_ENTERED, Ordering::Relaxed);
        task.others.uses.store(BEING_ENTERED.into(), Ordering::Relaxed);
        let mut entering = Entering { worker: self, task, edges, room, found: 0, last: None };
        // SAFETY: the parent runs on this thread, and nobody else looks at its table.
        let table = unsafe { &mut *parent.own.table.get() };
        let uses = table.enter(NonNull::from(task), accesses, &mut entering) + 1;
        task.others.uses.fetch_sub((BEING_ENTERED - uses).into(), Ordering::AcqRel);
        let too_many = BEING_ENTERED - entering.found;
        task.others.waits_for.fetch_sub(too_many, Ordering::AcqRel) == too_many
    }

    /// Waits for the children of the present task.
    pub fn wait_for_children(&self) {
        let Some(task) = self.current() else { return };
        let own = &task.own;
        let missing = own.made.get() - own.ended_here.get();
        if missing != task.others.tally.ended_elsewhere() {
            let number = self.lend_number();
            // As long as there is something to do, children that end here count without an atomic operation.
            let all = || own.made.get() - own.ended_here.get() == task.others.tally.ended_elsewhere();
            self.run_while(|| !all(), Some(task));
            own.seat.store(NOBODY, Ordering::Relaxed);
            if task.others.tally.ask(own.made.get() - own.ended_here.get(), self.thread) {
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
        self.current().map_or(ptr::null(), |task| task.own.groups.get())
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

    /// Waits until all members of the team have come here, and all tasks have ended; runs them.
    pub fn barrier(&self) {
        let Some(team) = self.team() else { return };
        let number = self.lend_number();
        let (generation, last) = team.arrive();
        // Who has just come last, or has just run out of tasks, has to ask whether all is done.
        let mut asks = last;
        while !team.has_passed(generation) {
            asks |= self.run_while(|| !team.has_passed(generation), None);
            if std::mem::take(&mut asks) {
                team.try_to_pass(generation);
            } else {
                self.look_around(|| team.has_passed(generation), None);
                asks = true;
            }
        }
        self.take_number_back(number);
        // All tasks have ended: so have this member's.
        self.current().into_iter().for_each(|task| self.has_no_children(task));
    }

    /// Until `enough`, runs tasks below `within`, or any.
    fn wait(&self, enough: impl Fn() -> bool, within: Option<&Task>) {
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
        while goes_on() && !signal::may_leave() {
            let Some(task) = next.take().or_else(|| self.find(within)) else { return ran };
            next = self.run(task);
            ran = true;
        }
        self.hand_on(next);
        ran
    }

    /// Puts a task that may begin where somebody finds it.
    #[inline]
    fn hand_on(&self, ready: Option<NonNull<Task>>) {
        if let (Some(ready), Some((team, seat))) = (ready, self.place()) {
            team.put(seat, ready);
        }
    }

    /// Runs one task, below `within` or any. Whether there was one.
    fn run_one(&self, within: Option<&Task>) -> bool {
        let mut once = true;
        self.run_while(|| std::mem::take(&mut once), within)
    }

    /// Nothing was to be done: looks a while for a task, then sleeps until somebody wakes it.
    fn look_around(&self, enough: impl Fn() -> bool, within: Option<&Task>) {
        let Some((team, seat)) = self.place() else { return };
        let mut looks = 0;
        let mut leaves = signal::may_leave();
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
            leaves = signal::may_leave();
        }
        if leaves {
            // Another thread works on this CPU. Standbys do what is left; this thread sleeps until it has nothing to wait for.
            team.lie_down_for_good(seat);
            if !enough() && signal::is_live() {
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
        found
    }

    /// Runs a task that is this thread's. Another that may begin now, if there is one: this thread's too.
    #[inline]
    fn run(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: taken from a queue, or never in one: this thread has it alone.
        let task = unsafe { this.as_ref() };
        let (before, number) = (self.current.replace(task), self.number.get());
        task.own.seat.store(self.thread, Ordering::Relaxed);
        task.own.groups.set(task.group.get());
        // SAFETY: its group is not over while it has tasks.
        if unsafe { task.group.get().as_ref() }.is_none_or(|group| !group.is_cancelled()) {
            // SAFETY: the compiler's function, with what it has to be given.
            unsafe { (task.work.get())(task.data.get()) };
        }
        self.give_number_back(number);
        self.current.set(before);
        self.end(this)
    }

    /// A task's body has ended. Another that may begin now, if there is one.
    #[inline]
    fn end(&self, this: NonNull<Task>) -> Option<NonNull<Task>> {
        // SAFETY: this thread's, until its tally says otherwise.
        let task = unsafe { this.as_ref() };
        let (_, seat) = self.place()?;
        let mut next = None;
        let depends = task.flags.get() & DEPENDS != 0;
        if depends {
            task.let_successors_go(|ready, awaited_by| match awaited_by {
                NOBODY => self.let_go(ready, &mut next),
                thread => self.wake(thread),
            });
        }
        self.forget_children(task);
        // SAFETY: not over while it has tasks, of which this is one.
        if let Some(group) = unsafe { task.group.get().as_ref() } {
            self.tell(group.tally.count(), None);
        }
        let missing = task.own.made.get() - task.own.ended_here.get();
        let parent = NonNull::new(task.parent.load(Ordering::Relaxed));
        task.own.seat.store(NOBODY, Ordering::Relaxed);
        if let Some(parent) = parent {
            // It ends before its children, or is held by one that did: those below may be asked whose they are. A hold comes
            // before the child's count, which has been seen.
            if task.is_held() || missing != task.others.tally.ended_elsewhere() {
                // SAFETY: as below.
                unsafe { parent.as_ref() }.others.uses.fetch_add(HOLD, Ordering::Relaxed);
                task.flags.set(task.flags.get() | HOLDS);
            }
            // SAFETY: a parent's memory stays until all its children have said that they have ended.
            let own = unsafe { &parent.as_ref().own };
            if own.seat.load(Ordering::Relaxed) == self.thread {
                own.ended_here.set(own.ended_here.get() + 1);
            } else {
                // SAFETY: as above; not touched after this.
                let counted = unsafe { parent.as_ref() }.others.tally.count();
                self.tell(counted, Some(parent));
            }
        }
        if task.others.tally.end(missing) {
            self.forget(this);
        }
        seat.has_ended();
        next
    }

    /// A task waits for nobody any more.
    fn let_go(&self, ready: NonNull<Task>, next: &mut Option<NonNull<Task>>) {
        // SAFETY: nobody has it yet.
        let task = unsafe { ready.as_ref() };
        let ready = match next {
            // The most urgent goes on here, the others are for everybody.
            // SAFETY: as above.
            Some(first) if unsafe { first.as_ref() }.priority.get() < task.priority.get() => next.replace(ready),
            Some(_) => Some(ready),
            None => next.replace(ready),
        };
        self.hand_on(ready);
    }

    /// Does what a count asks for.
    #[inline]
    fn tell(&self, counted: Counted, task: Option<NonNull<Task>>) {
        match counted {
            Counted::Nothing => {}
            Counted::Wake(thread) => self.wake(thread),
            Counted::Free => task.into_iter().for_each(|task| self.forget(task)),
        }
    }

    /// Wakes a thread; this one is awake.
    fn wake(&self, thread: u32) {
        if thread != self.thread {
            bed(thread).wake();
        }
    }

    /// One use of a task is over: it has ended and so have its children, its parent's table has forgotten it, or a child that
    /// held it is free.
    #[inline]
    fn forget(&self, task: NonNull<Task>) {
        let (mut next, mut less) = (Some(task), USE);
        while let Some(this) = next.take() {
            // SAFETY: whoever calls this has known it until now.
            let task = unsafe { this.as_ref() };
            if task.is_used_no_more(less) {
                if task.flags.get() & HOLDS != 0 {
                    (next, less) = (NonNull::new(task.parent.load(Ordering::Relaxed)), HOLD);
                }
                // SAFETY: nobody knows it any more.
                unsafe { self.pool.free(this) };
            }
        }
    }

    /// Its table of accesses is no longer needed: no more children come, or all that came have ended.
    #[inline]
    fn forget_children(&self, task: &Task) {
        // SAFETY: the task runs on this thread, or has ended here.
        let table = unsafe { &mut *task.own.table.get() };
        if !table.is_empty() {
            table.clear(&mut Forgetting(self));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        signal::discharge();
        give_back(self.thread);
    }
}

/// Where dependences become edges.
struct Entering<'w> {
    worker: &'w Worker,
    task: &'w Task,
    edges: *mut Edge,
    room: usize,
    found: u32,
    last: Option<NonNull<Task>>,
}

impl Listener<NonNull<Task>> for Entering<'_> {
    fn waits_for(&mut self, earlier: NonNull<Task>) {
        // The same one for several addresses: one edge is enough.
        if self.last == Some(earlier) {
            return;
        }
        self.last = Some(earlier);
        // SAFETY: the table remembers it, so it is there.
        let earlier = unsafe { earlier.as_ref() };
        if (self.found as usize) < self.room {
            // SAFETY: room for so many, in the task's own memory.
            let edge = unsafe { &*self.edges.add(self.found as usize) };
            self.found += u32::from(earlier.precede(self.task, edge));
        } else {
            let edge = Box::into_raw(Edge::by_itself());
            // SAFETY: just made.
            if earlier.precede(self.task, unsafe { &*edge }) {
                self.found += 1;
            } else {
                // SAFETY: just made, and nobody has it.
                drop(unsafe { Box::from_raw(edge) });
            }
        }
    }

    fn forgotten(&mut self, earlier: NonNull<Task>) {
        Forgetting(self.worker).forgotten(earlier);
    }
}

/// Where a table's memory of a task ends.
struct Forgetting<'w>(&'w Worker);

impl Listener<NonNull<Task>> for Forgetting<'_> {
    fn waits_for(&mut self, _: NonNull<Task>) {}

    fn forgotten(&mut self, earlier: NonNull<Task>) {
        self.0.forget(earlier);
    }
}
