//! A task: its memory, and its state.
//!
//! Three parties write to a task, each to its own cache lines: the creator, before any other thread knows the task; the thread that runs
//! the task; and threads that end one of its children, or a task for which it waits.
//!
//! The memory of a task is freed when its body and all its children have ended, its parent's table of accesses no longer refers to it, and
//! no child *holds* it, that is, keeps its memory allocated. (A table may refer to tasks that ended long ago.) A child that ends holds its
//! parent if the child has unfinished children, or is itself held. So the ancestors of an unfinished task are not freed, and a thread may
//! follow the chain of parents from such a task.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use crate::depend::Table;
use crate::event::Event;
use crate::group::Group;
use crate::icv::kept::Pointer;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::tally::Tally;

/// The function that a compiler generates from a task's body. The argument is the task's data.
pub type Work = unsafe extern "C-unwind" fn(*mut c_void);

/// The body of a task that does nothing.
pub unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}

/// Value in place of a thread's number: no thread.
pub const NOBODY: u32 = u32::MAX;

/// A final task (OpenMP's `final`): each task that is created in it is final too, and its creator runs it immediately.
pub const FINAL: u32 = 1;
/// The creator waits until the task's dependences are satisfied, and then runs the task itself (a false `if` clause).
pub const AWAITED: u32 = 2;
/// The task has dependences: its accesses were entered into its parent's table (`depend`).
pub const DEPENDS: u32 = 4;
/// The task ended before its descendants, and keeps its parent's memory allocated.
pub const HOLDS: u32 = 8;
/// The task does not end before its event is fulfilled.
pub const DETACHED: u32 = 16;
/// The task runs several parts of a loop; see `parts`.
pub const RANGE: u32 = 32;
/// The task's arguments were copied by a function of the program. The body must run even if the task is cancelled, because it destroys the
/// copies.
pub const COPIED: u32 = 64;

/// A task. Several threads may access it at the same time; the comments on the fields say which threads may write them.
#[repr(C, align(64))]
pub struct Task {
    // Written by the creator. Thieves may read `parent` and `depth` of a task that has already been freed.
    pub(crate) work: Cell<Work>,
    pub(crate) data: Cell<*mut c_void>,
    pub(crate) parent: AtomicPtr<Task>,
    pub(crate) group: Cell<*const Group>,
    pub(crate) depth: AtomicU32,
    pub(crate) flags: Cell<u32>,
    pub(crate) priority: Cell<i32>,
    /// The size class of the task's memory; see `pool`.
    pub(crate) class: Cell<u32>,
    /// Number of the thread that created this task and waits until the task can begin (flag [`AWAITED`]).
    pub(crate) awaited_by: Cell<u32>,
    /// The task's control variables. The thread that runs the task may replace them.
    pub(crate) icvs: Pointer,

    // Written by the thread that runs the task.
    pub(crate) own: RunnerState,

    // Written by other threads.
    pub(crate) others: Others,

    /// Written by the thread that fulfils the event, and by the thread that runs the task.
    pub(crate) event: Event<Task>,
}

/// Fields that the thread running the task writes.
#[repr(align(64))]
pub(crate) struct RunnerState {
    /// Number of the thread that runs the task; [`NOBODY`] while the task waits for its children, or has ended.
    pub slot: AtomicU32,
    /// Number of children that the task's own thread has created since the task last waited for its children.
    pub made: Cell<u32>,
    /// Number of children that have ended on the task's own thread since then. It exceeds `made` if other threads have created some of these
    /// children (see `parts`), because those threads count them in `others`.
    pub ended_here: Cell<u32>,
    /// Table of the children's accesses (`depend` clauses).
    pub table: UnsafeCell<Table<NonNull<Task>>>,
    /// The innermost taskgroup that the task is in. Its field `around` points to the next outer one.
    pub groups: Cell<*const Group>,
}

impl RunnerState {
    /// Returns the number of children that the task's own thread has created, minus the number that have ended there, in two's complement.
    #[inline]
    pub fn missing(&self) -> u32 {
        self.made.get().wrapping_sub(self.ended_here.get())
    }
}

/// Fields that other threads write, on a cache line of their own.
#[repr(align(64))]
pub(crate) struct Others {
    pub tally: Tally,
    /// Number of tasks that this one waits for, plus [`BEING_ENTERED`] while its accesses are being entered.
    pub waits_for: AtomicU32,
    /// Reference count of the task's memory: one [`USE`] until the task and all its children have ended, one [`USE`] for each reference in
    /// its parent's table, and one [`HOLD`] for each child that holds it.
    pub uses: AtomicU64,
    /// List of the tasks that wait for this one; [`CLOSED`] once this task has ended.
    pub successors: AtomicPtr<Edge>,
}

/// Added to `uses` for a reference to the task's memory by the task itself or by a table.
pub const USE: u64 = 1;
/// Added to `uses` for a reference to the task's memory by a child that has ended.
pub const HOLD: u64 = 1 << 32;

/// Added to `waits_for` and `uses` while a task's accesses are entered, so that neither count reaches zero meanwhile. Larger than the
/// number of tasks that a task can wait for, and than the number of table entries that it can have.
pub const BEING_ENTERED: u32 = 1 << 30;

/// An entry in a task's list of successors: one task that waits for it. The entry lies in the waiting task's memory or, if there is no
/// room, in an allocation of its own.
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
    /// Makes a task that is not yet visible to other threads. `parent` is null for an implicit task.
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
            icvs: Pointer::default(),
            own: RunnerState {
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

    /// Turns the unused task in a free block into a new one. Thieves may still read the old task.
    ///
    /// Writes only the creator's cache line. The thread that freed the block has already reset the other lines ([`leave`](Task::leave)),
    /// and still has them in its cache if it takes the block again.
    #[inline]
    pub(crate) fn renew(&self, work: Work, data: *mut c_void, parent: *const Task) {
        self.work.set(work);
        self.data.set(data);
        self.parent.store(parent.cast_mut(), Ordering::Relaxed);
        self.group.set(ptr::null());
        self.flags.set(0);
        self.priority.set(0);
    }

    /// Resets a task that is no longer used and whose table is empty, so that its memory becomes a free block.
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

    /// Returns whether the task is a descendant of `ancestor`. The task may have been freed, and its memory may be another task's by now.
    /// Then the call still terminates, but the answer is meaningless.
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
            // SAFETY: memory of tasks is never given back while there are threads that steal.
            let next = unsafe { (*parent).depth.load(Ordering::Relaxed) };
            // If the task has been freed, the depths along the chain may be in any order. The walk continues only to smaller depths, so it
            // terminates.
            if next >= depth {
                return false;
            }
            (at, depth) = (parent, next);
        }
        false
    }

    /// Makes the task `later` wait for this one: adds `edge`, which belongs to `later`, to this task's list of successors. Returns false if this
    /// task has ended: then `later` need not wait for it.
    pub(crate) fn precede(&self, later: &Task, edge: &Edge) -> bool {
        edge.task.set(later);
        // Acquire: if this task has ended, `later` may run now and has to see what this task wrote. A fence would be enough, but
        // ThreadSanitizer does not support fences.
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

    /// Drops one reference, [`USE`] or [`HOLD`]. Returns whether it was the last.
    #[inline]
    pub(crate) fn is_used_no_more(&self, less: u64) -> bool {
        // If this is the last reference, the count need not be written: no other thread can get a new reference to the task.
        self.others.uses.load(Ordering::Acquire) == less || self.others.uses.fetch_sub(less, Ordering::AcqRel) == less
    }

    /// Returns whether a child that has ended still holds this task.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.others.uses.load(Ordering::Acquire) >= HOLD
    }

    /// Called when the task has ended: closes its list of successors. Calls `ready` for each successor that now waits for no other task. The
    /// second argument of `ready` is the number of the thread that waits to run the successor itself, or [`NOBODY`]. That thread may already
    /// have run and freed the successor.
    pub(crate) fn let_successors_go(&self, mut ready: impl FnMut(NonNull<Task>, u32)) {
        let mut edge = self.others.successors.swap(CLOSED, Ordering::AcqRel);
        while let Some(this) = NonNull::new(edge) {
            // SAFETY: the task that this edge belongs to waits for `self`. It cannot begin, and so cannot end, before its count of awaited
            // tasks is decremented below.
            let (next, task) = unsafe { (this.as_ref().next.get(), this.as_ref().task.get()) };
            // SAFETY: the edge lies in an allocation of its own, or in the memory of a task that cannot begin before its count is
            // decremented here.
            if unsafe { this.as_ref().by_itself.get() } {
                // SAFETY: `Edge::by_itself` has made the edge, and no other thread knows it.
                drop(unsafe { Box::from_raw(edge) });
            }
            // SAFETY: the task cannot begin, and so cannot end, before its count is decremented here.
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
    /// Makes an edge that lies in the waiting task's memory.
    pub const fn new() -> Edge {
        Edge { next: Cell::new(ptr::null_mut()), task: Cell::new(ptr::null()), by_itself: Cell::new(false) }
    }

    /// Makes an edge in an allocation of its own, which is freed when the earlier task ends.
    pub fn by_itself() -> Box<Edge> {
        Box::new(Edge { by_itself: Cell::new(true), ..Edge::new() })
    }
}
