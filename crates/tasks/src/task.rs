//! A task: its memory, and its state.
//!
//! Three parties write to a task, each to its own cache lines: the creator, before any other thread knows the task; the thread that runs
//! the task; and any thread that ends one of its children, or a task that it waits for.
//!
//! The memory of a task is free when its body and all its children have ended, its parent's table of accesses has forgotten it, and no
//! child holds it. A table may name tasks that ended long ago. A child holds its parent if it ends before its own children, or is itself
//! held. So all ancestors of a task that is not over are still there, and a thread may follow the chain of parents from such a task.

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

/// No thread: the task does not run.
pub const NOBODY: u32 = u32::MAX;

/// The task, and all tasks made in it, run at once, on the thread that makes them (OpenMP's `final`).
pub const FINAL: u32 = 1;
/// The creator waits until the task can begin, and runs it (a false `if`, with dependences).
pub const AWAITED: u32 = 2;
/// The task has entries in its parent's table.
pub const DEPENDS: u32 = 4;
/// The task ended before its descendants, and holds its parent's memory.
pub const HOLDS: u32 = 8;
/// The task does not end before its event is fulfilled.
pub const DETACHED: u32 = 16;
/// The task stands for parts of a loop; see `parts`.
pub const RANGE: u32 = 32;
/// The task's arguments were copied by a function of the program. The body has to run, because it destroys the copies.
pub const COPIED: u32 = 64;

/// A task. It belongs to no thread: every thread that has the pointer follows the rules of each field.
#[repr(C, align(64))]
pub struct Task {
    // Written by the creator. Thieves may read `parent` and `depth` of a task that is already gone.
    pub(crate) work: Cell<Work>,
    pub(crate) data: Cell<*mut c_void>,
    pub(crate) parent: AtomicPtr<Task>,
    pub(crate) group: Cell<*const Group>,
    pub(crate) depth: AtomicU32,
    pub(crate) flags: Cell<u32>,
    pub(crate) priority: Cell<i32>,
    /// The free list that the memory belongs to.
    pub(crate) class: Cell<u32>,
    /// Number of the thread that waits until the task can begin.
    pub(crate) awaited_by: Cell<u32>,
    /// The task's control variables. The thread that runs the task may replace them.
    pub(crate) icvs: Pointer,

    // Written by the thread that runs the task.
    pub(crate) own: Own,

    // Written by other threads.
    pub(crate) others: Others,

    /// Written by the thread that fulfils the event, and by the thread that runs the task.
    pub(crate) event: Event<Task>,
}

/// Fields of the running thread.
#[repr(align(64))]
pub(crate) struct Own {
    /// Number of the thread that runs the task; [`NOBODY`] while the task waits for its children, or has ended.
    pub slot: AtomicU32,
    /// Children made on the task's own thread since it last waited, and children that have ended there. Other threads may make children too
    /// and count them in `others` (see `parts`), so the second number may exceed the first.
    pub made: Cell<u32>,
    pub ended_here: Cell<u32>,
    /// The accesses of the task's children.
    pub table: UnsafeCell<Table<NonNull<Task>>>,
    /// The innermost group that was begun in the task and is not over; the others follow by `around`.
    pub groups: Cell<*const Group>,
}

impl Own {
    /// Returns how many children were made on the task's own thread and have not ended there.
    #[inline]
    pub fn missing(&self) -> u32 {
        self.made.get().wrapping_sub(self.ended_here.get())
    }
}

/// Fields of other threads.
#[repr(align(64))]
pub(crate) struct Others {
    pub tally: Tally,
    /// Number of tasks that this one waits for, plus [`BEING_ENTERED`] while its accesses are being entered.
    pub waits_for: AtomicU32,
    /// One [`USE`] while the task or a child of it has not ended, and one for each time that its parent's table remembers it; one [`HOLD`]
    /// for each child that holds it.
    pub uses: AtomicU64,
    /// Tasks that wait for this one; [`CLOSED`] once it has ended.
    pub successors: AtomicPtr<Edge>,
}

/// One use of a task's memory by the task itself or by a table.
pub const USE: u64 = 1;
/// One use of a task's memory by a child that has ended.
pub const HOLD: u64 = 1 << 32;

/// More than the number of tasks that a task can wait for, and of table entries that it can have.
pub const BEING_ENTERED: u32 = 1 << 30;

/// One task waits for another. An edge lies in the waiting task's memory, or in memory of its own if there are too many for that.
pub struct Edge {
    next: Cell<*mut Edge>,
    task: Cell<*const Task>,
    by_itself: Cell<bool>,
}

const CLOSED: *mut Edge = ptr::without_provenance_mut(1);

// SAFETY: each field's documentation says which thread may write it when, and tasks are handed on through atomics.
unsafe impl Sync for Task {}
// SAFETY: no field depends on a particular thread.
unsafe impl Send for Task {}

impl Task {
    /// Makes a task that no other thread knows yet. `parent` is null for an implicit task.
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
                slot: AtomicU32::new(NOBODY),
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

    /// Makes a new task of a free block, which contains a task that no thread uses. Thieves may be looking at it.
    ///
    /// Only the creator's cache line is written. The thread that freed the block left the other lines as those of a new task
    /// ([`leave`](Task::leave)), and still has them in its cache if it takes the block again.
    #[inline]
    pub(crate) fn renew(&self, work: Work, data: *mut c_void, parent: *const Task) {
        self.work.set(work);
        self.data.set(data);
        self.parent.store(parent.cast_mut(), Ordering::Relaxed);
        self.group.set(ptr::null());
        self.flags.set(0);
        self.priority.set(0);
    }

    /// Makes a free block of a task that nobody uses any more and whose table is empty.
    #[inline]
    pub(crate) fn leave(&self) {
        self.own.slot.store(NOBODY, Ordering::Relaxed);
        self.own.made.set(0);
        self.own.ended_here.set(0);
        self.own.groups.set(ptr::null());
        self.event.close();
        self.others.tally.reset();
        self.others.uses.store(USE, Ordering::Relaxed);
        self.others.successors.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns whether the task is a descendant of `ancestor`. The task may be gone, and its memory another task's: then the call still
    /// terminates, but the answer is meaningless.
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
            // If the task is gone, its ancestors may be in any order. The walk goes only towards smaller depths, so it terminates.
            if next >= depth {
                return false;
            }
            (at, depth) = (parent, next);
        }
        false
    }

    /// Makes `later` wait for this task, by an edge that belongs to `later`. Returns false if this task has ended.
    pub(crate) fn precede(&self, later: &Task, edge: &Edge) -> bool {
        edge.task.set(later);
        // Acquire: if this task has ended, `later` may run now and has to see what this one wrote. A fence would do, but the thread
        // sanitizer does not know fences.
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

    /// Drops one use, [`USE`] or [`HOLD`]. Returns whether it was the last.
    #[inline]
    pub(crate) fn is_used_no_more(&self, less: u64) -> bool {
        // The last user need not write the count: no other thread can begin to use the task.
        self.others.uses.load(Ordering::Acquire) == less || self.others.uses.fetch_sub(less, Ordering::AcqRel) == less
    }

    /// Returns whether a child that has ended still holds this task.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.others.uses.load(Ordering::Acquire) >= HOLD
    }

    /// Ends the list of successors: the task has ended. Calls `ready` for each successor that waited for no other task, with the thread
    /// that awaits it or [`NOBODY`]. That thread may already run the successor, and free it.
    pub(crate) fn let_successors_go(&self, mut ready: impl FnMut(NonNull<Task>, u32)) {
        let mut edge = self.others.successors.swap(CLOSED, Ordering::AcqRel);
        while let Some(this) = NonNull::new(edge) {
            // SAFETY: edges lie in tasks that cannot begin, hence not end, before they are counted down here.
            let (next, task) = unsafe { (this.as_ref().next.get(), this.as_ref().task.get()) };
            // SAFETY: as above; made by `Edge::by_itself` if it says so.
            if unsafe { this.as_ref().by_itself.get() } {
                // SAFETY: as above, and no other thread knows it.
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
    /// Makes an edge in a task's own memory.
    pub const fn new() -> Edge {
        Edge { next: Cell::new(ptr::null_mut()), task: Cell::new(ptr::null()), by_itself: Cell::new(false) }
    }

    /// Makes an edge in memory of its own, which is freed when the earlier task ends.
    pub fn by_itself() -> Box<Edge> {
        Box::new(Edge { by_itself: Cell::new(true), ..Edge::new() })
    }
}

impl Default for Edge {
    fn default() -> Edge {
        Edge::new()
    }
}
