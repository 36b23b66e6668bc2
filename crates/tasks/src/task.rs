//! A task: its memory, and what is known of it.
//!
//! Three parties write to a task, each to a line of its own: its creator, before anybody else knows it; the thread that runs
//! it; and whoever ends one of its children, or one of the tasks that it waits for.
//!
//! Memory is given back when the body has ended, all children have, the parent's table of accesses has forgotten the task, and no
//! child holds it. A table may still be naming tasks that ended long ago. And a child that ends before its own children, or is
//! held itself, holds its parent until it is freed: so the ancestors of every task that is not over are there, and who asks what
//! a task is below of may go up from one to the next.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use crate::depend::Table;
use crate::event::Event;
use crate::group::Group;
use crate::icv::kept::Pointer;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::tally::Tally;
use crate::work::Work;

/// No seat: the task does not run.
pub const NOBODY: u32 = u32::MAX;

/// It and all tasks that are made in it are done at once, by who makes them (OpenMP's `final`).
pub const FINAL: u32 = 1;
/// Its creator waits for its beginning, and runs it (a false `if`, with dependences).
pub const AWAITED: u32 = 2;
/// It has entries in its parent's table.
pub const DEPENDS: u32 = 4;
/// It has ended before those below it, and holds its parent's memory.
pub const HOLDS: u32 = 8;
/// It has not ended before its event is fulfilled.
pub const DETACHED: u32 = 16;
/// It stands for parts of a loop; see `parts`.
pub const RANGE: u32 = 32;
/// Its arguments were copied by the program's own function: the body has to run, since it is what ends the copies.
pub const COPIED: u32 = 64;

/// A task. Not a thread's: whoever has the pointer follows the rules of each field.
#[repr(C, align(64))]
pub struct Task {
    // By its creator. `parent` and `depth` may be read by thieves who look at a task that may be gone.
    pub(crate) work: Cell<Work>,
    pub(crate) data: Cell<*mut c_void>,
    pub(crate) parent: AtomicPtr<Task>,
    pub(crate) group: Cell<*const Group>,
    pub(crate) depth: AtomicU32,
    pub(crate) flags: Cell<u32>,
    pub(crate) priority: Cell<i32>,
    /// Which free list its memory belongs to.
    pub(crate) class: Cell<u32>,
    /// Who awaits its beginning.
    pub(crate) awaited_by: Cell<u32>,
    /// Its control variables. The thread that runs it may replace them.
    pub(crate) icvs: Pointer,

    // By the thread that runs it.
    pub(crate) own: Own,

    // By others.
    pub(crate) others: Others,

    /// By whoever fulfils it, and the thread that runs the task.
    pub(crate) event: Event<Task>,
}

/// What the running thread keeps.
#[repr(align(64))]
pub(crate) struct Own {
    /// Who runs it; [`NOBODY`] while it waits for its children, or has ended.
    pub seat: AtomicU32,
    /// Children made on its own thread since it last waited, and how many have ended there. Others may make some, and count them elsewhere
    /// (`parts`), so the second may be more than the first.
    pub made: Cell<u32>,
    pub ended_here: Cell<u32>,
    /// The accesses of its children.
    pub table: UnsafeCell<Table<NonNull<Task>>>,
    /// Groups that were begun in it and are not over begin with this one.
    pub groups: Cell<*const Group>,
}

impl Own {
    /// Children that have not ended on its own thread, of those that were made there.
    #[inline]
    pub fn missing(&self) -> u32 {
        self.made.get().wrapping_sub(self.ended_here.get())
    }
}

/// What other threads write.
#[repr(align(64))]
pub(crate) struct Others {
    pub tally: Tally,
    /// Tasks that it waits for, and [`BEING_ENTERED`] while it is entered.
    pub waits_for: AtomicU32,
    /// [`USE`] while it or a child of it has not ended, and for each time that its parent's table remembers it; [`HOLD`] for each
    /// child that holds it.
    pub uses: AtomicU64,
    /// Tasks that wait for it; [`CLOSED`] once it has ended.
    pub successors: AtomicPtr<Edge>,
}

/// One use of a task's memory, by itself or by a table.
pub const USE: u64 = 1;
/// One use of a task's memory by a child that has ended.
pub const HOLD: u64 = 1 << 32;

/// More than a task can wait for, or be remembered.
pub const BEING_ENTERED: u32 = 1 << 30;

/// One task waits for another. Lies in the waiting task's memory, or by itself if there are too many.
pub struct Edge {
    next: Cell<*mut Edge>,
    task: Cell<*const Task>,
    by_itself: Cell<bool>,
}

const CLOSED: *mut Edge = ptr::without_provenance_mut(1);

// SAFETY: each field says who may write it when, and who hands a task on does so through an atomic.
unsafe impl Sync for Task {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Task {}

impl Task {
    /// A task that nobody knows yet. `parent` is null for an implicit task.
    pub fn new(work: Work, data: *mut c_void, parent: *const Task) -> Task {
        Task {
            work: Cell::new(work),
            data: Cell::new(data),
            parent: AtomicPtr::new(parent.cast_mut()),
            group: Cell::new(ptr::null()),
            depth: AtomicU32::new(0),
            flags: Cell::new(0),
            priority: Cell::new(0),
            class: Cell::new(0),
            awaited_by: Cell::new(NOBODY),
            icvs: Pointer::null(),
            own: Own {
                seat: AtomicU32::new(NOBODY),
                made: Cell::new(0),
                ended_here: Cell::new(0),
                table: UnsafeCell::new(Table::new()),
                groups: Cell::new(ptr::null()),
            },
            others: Others {
                tally: Tally::new(),
                waits_for: AtomicU32::new(0),
                uses: AtomicU64::new(USE),
                successors: AtomicPtr::new(ptr::null_mut()),
            },
            event: Event::new(),
        }
    }

    /// Makes a free block, which is a task that nobody uses, a task that nobody knows yet. Thieves may be looking at it.
    ///
    /// Only its creator's line is written: the others were left as those of a new task by who has freed it ([`leave`](Task::leave)), and has
    /// them in its caches if it takes it again.
    #[inline]
    pub(crate) fn renew(&self, work: Work, data: *mut c_void, parent: *const Task) {
        self.work.set(work);
        self.data.set(data);
        self.parent.store(parent.cast_mut(), Ordering::Relaxed);
        self.group.set(ptr::null());
        self.flags.set(0);
        self.priority.set(0);
    }

    /// Nobody uses it any more: makes it a free block. Its table is empty.
    #[inline]
    pub(crate) fn leave(&self) {
        self.own.seat.store(NOBODY, Ordering::Relaxed);
        self.own.made.set(0);
        self.own.ended_here.set(0);
        self.own.groups.set(ptr::null());
        self.event.close();
        self.others.tally.reset();
        self.others.uses.store(USE, Ordering::Relaxed);
        self.others.successors.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether it was made by `ancestor`, or by a task that was. For a task that may be gone and be another by now: comes to an
    /// end, and its answer is worth something only if the task was there all the time.
    pub(crate) fn is_below(&self, ancestor: &Task) -> bool {
        let level = ancestor.depth.load(Ordering::Relaxed);
        let mut depth = self.depth.load(Ordering::Relaxed);
        let mut at: *const Task = self;
        while depth > level {
            // SAFETY: memory of tasks is never given back while there are threads that steal (`pool`).
            let parent = unsafe { (*at).parent.load(Ordering::Relaxed) };
            if ptr::eq(parent, ancestor) {
                return true;
            }
            if parent.is_null() {
                return false;
            }
            // SAFETY: as above.
            let next = unsafe { (*parent).depth.load(Ordering::Relaxed) };
            // Of a task that is gone, ancestors may be in any order; so that this ends, only downwards.
            if next >= depth {
                return false;
            }
            (at, depth) = (parent, next);
        }
        false
    }

    /// Has `later` wait for this one, by an edge that is its own. `false`: this one has ended.
    pub(crate) fn precede(&self, later: &Task, edge: &Edge) -> bool {
        edge.task.set(later);
        // Acquire: if this task has ended, `later` may run now, and has to see what this one wrote. Not by a fence, which the thread sanitizer
        // does not know.
        let mut first = self.others.successors.load(Ordering::Acquire);
        loop {
            if first == CLOSED {
                return false;
            }
            edge.next.set(first);
            let own = ptr::from_ref(edge).cast_mut();
            let order = (Ordering::Release, Ordering::Acquire);
            match self.others.successors.compare_exchange_weak(first, own, order.0, order.1) {
                Ok(_) => return true,
                Err(now) => first = now,
            }
        }
    }

    /// Less by this use, [`USE`] or [`HOLD`]: whether it was the last.
    #[inline]
    pub(crate) fn is_used_no_more(&self, less: u64) -> bool {
        // The last user needs not count: nobody else can begin to use it.
        self.others.uses.load(Ordering::Acquire) == less || self.others.uses.fetch_sub(less, Ordering::AcqRel) == less
    }

    /// Whether a child of it that has ended is still there.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.others.uses.load(Ordering::Acquire) >= HOLD
    }

    /// It has ended: no more successors. `ready` is given those that waited for nobody else, and the thread that awaits
    /// them, or [`NOBODY`]: that thread may already run it, and free it.
    pub(crate) fn let_successors_go(&self, mut ready: impl FnMut(NonNull<Task>, u32)) {
        let mut edge = self.others.successors.swap(CLOSED, Ordering::AcqRel);
        while let Some(this) = NonNull::new(edge) {
            // SAFETY: edges lie in tasks that cannot begin, hence not go, before they are counted down here.
            let (next, task) = unsafe { (this.as_ref().next.get(), this.as_ref().task.get()) };
            // SAFETY: as above; made by `Edge::by_itself` if it says so.
            if unsafe { this.as_ref().by_itself.get() } {
                // SAFETY: as above, and nobody else knows it.
                drop(unsafe { Box::from_raw(edge) });
            }
            // SAFETY: as above.
            let task_ref = unsafe { &*task };
            let awaited_by = if task_ref.flags.get() & AWAITED != 0 { task_ref.awaited_by.get() } else { NOBODY };
            if task_ref.others.waits_for.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(NonNull::from(task_ref), awaited_by);
            }
            edge = next;
        }
    }
}

impl Edge {
    /// For a task's own memory.
    pub const fn new() -> Edge {
        Edge { next: Cell::new(ptr::null_mut()), task: Cell::new(ptr::null()), by_itself: Cell::new(false) }
    }

    /// In memory of its own, which goes when the earlier task ends.
    pub fn by_itself() -> Box<Edge> {
        Box::new(Edge { by_itself: Cell::new(true), ..Edge::new() })
    }
}

impl Default for Edge {
    fn default() -> Edge {
        Edge::new()
    }
}
