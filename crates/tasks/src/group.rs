//! A taskgroup: its owner waits for all tasks that were made in it, and for those that these have made.

use std::cell::Cell;
use std::ptr;

use crate::sync::{AtomicU32, Ordering};
use crate::tally::Tally;

/// A taskgroup. Lives until its owner has left it; so do pointers to it in its tasks.
pub struct Group {
    /// Its tasks are expected one by one: many threads make them.
    pub(crate) tally: Tally,
    cancelled: AtomicU32,
    /// It stands for no taskgroup of the program's: who cancels means the one around.
    is_implied: bool,
    /// The group around it, of which its tasks are not members: they are members of the innermost, and that one's end is waited
    /// for inside.
    pub(crate) around: *const Group,
    /// Only members of the team run its tasks, and only once they have begun the construct that it belongs to: these use what such a member has
    /// for itself there. Inherited by groups inside. Set as [`kept`](Group::kept) is.
    pub is_for_members: Cell<bool>,
    /// What the caller keeps with it; that of the group around until something else is set. Only the group's own thread
    /// sets it, before there are tasks in the group.
    pub kept: Cell<*mut usize>,
}

impl Group {
    /// Within `around`, which may be null.
    ///
    /// # Safety
    /// `around` is null, or a group that lasts longer than this one.
    pub unsafe fn new(around: *const Group) -> Group {
        // SAFETY: the caller's promise.
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

    /// The same, of a construct that is no taskgroup for the program.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn implied(around: *const Group) -> Group {
        // SAFETY: the caller's promise.
        Group { is_implied: true, ..unsafe { Group::new(around) } }
    }

    fn meant(&self) -> &Group {
        // SAFETY: `new`'s promise.
        let around = if self.is_implied { unsafe { self.around.as_ref() } } else { None };
        around.unwrap_or(self)
    }

    /// No task of it begins any more.
    pub fn cancel(&self) {
        self.meant().cancelled.store(1, Ordering::Release);
    }

    /// Whether it was cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.meant().cancelled.load(Ordering::Acquire) != 0
    }
}
