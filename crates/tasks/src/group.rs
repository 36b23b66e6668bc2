//! A taskgroup: its owner, the thread that began it, waits for all tasks that are created in it, and for their descendants.

use std::cell::Cell;
use std::ptr;

use crate::sync::{AtomicU32, Ordering};
use crate::tally::Tally;

/// A taskgroup. It lives until its owner has left it; its tasks point to it.
pub struct Group {
    /// Counter of the group's unfinished tasks. Many threads create tasks of a group, so each task is counted here when it is created. (The
    /// children of a task are counted differently: one thread creates nearly all of them. It counts them without an atomic operation, and
    /// enters their number into the task's `Tally` only when the task waits or ends.)
    pub(crate) tally: Tally,
    cancelled: AtomicU32,
    /// True if the group is not a `taskgroup` construct of the program. Cancelling such a group cancels the group around it.
    is_implied: bool,
    /// The group around this one. A task is counted in the innermost group only. That is enough, because the outer group ends after the inner
    /// one.
    pub(crate) around: *const Group,
    /// True if the group's tasks use data that each member of the team sets up when it begins the group's construct. Only members that have
    /// begun the construct may run such tasks; see `begun`. Inner groups inherit the value. Written by the same thread as
    /// [`kept`](Group::kept).
    pub is_for_members: Cell<bool>,
    /// Pointer to the data of the group's task reductions, which the crate `preload` stores here. A new group has the pointer of the group
    /// around it. Only the thread that owns the group sets it, before the group has tasks.
    pub kept: Cell<*mut usize>,
}

impl Group {
    /// Makes a group within `around`, which may be null.
    ///
    /// # Safety
    /// `around` is null, or a group that lasts longer than this one.
    pub unsafe fn new(around: *const Group) -> Group {
        // SAFETY: guaranteed by the caller.
        let outer = unsafe { around.as_ref() };
        Group {
            tally: Tally::new(),
            cancelled: AtomicU32::new(0),
            is_implied: false,
            around,
            is_for_members: Cell::new(outer.is_some_and(|group| group.is_for_members.get())),
            kept: Cell::new(outer.map_or(ptr::null_mut(), |group| group.kept.get())),
        }
    }

    /// Makes a group for a construct that is not a taskgroup of the program.
    ///
    /// # Safety
    /// As for [`new`](Group::new).
    pub unsafe fn implied(around: *const Group) -> Group {
        // SAFETY: guaranteed by the caller.
        Group { is_implied: true, ..unsafe { Group::new(around) } }
    }

    fn meant(&self) -> &Group {
        // SAFETY: guaranteed by the caller of `new`.
        let around = if self.is_implied { unsafe { self.around.as_ref() } } else { None };
        around.unwrap_or(self)
    }

    /// Cancels the group: none of its tasks begins after this.
    pub fn cancel(&self) {
        self.meant().cancelled.store(1, Ordering::Release);
    }

    /// Returns whether the group was cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.meant().cancelled.load(Ordering::Acquire) != 0
    }
}
