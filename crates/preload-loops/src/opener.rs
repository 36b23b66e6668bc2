//! What belongs to the thread that opens an instance: plans, and the loops of the team. One thread at a time opens instances, and each sees what the last one
//! has written (see [`crate::chain`]), so nothing here needs a lock.

use std::cell::UnsafeCell;
use std::collections::HashMap;

use loops::options::Options;
use wire::loop_records::Clause as Written;

use crate::clause::Clause;
use crate::known::KnownLoop;
use crate::plans::Plans;

/// Loops by place, clause and number of threads; slots point to them.
type KnownLoops = HashMap<(usize, Written, u32), Box<UnsafeCell<KnownLoop>>>;

/// The opening thread's part of a team.
#[derive(Default)]
pub struct Opener {
    /// Plans of the team's loops.
    pub plans: UnsafeCell<Plans>,
    known: UnsafeCell<KnownLoops>,
    /// Instances since the count was taken.
    opened: UnsafeCell<u64>,
}

impl Opener {
    /// Returns the loop of a clause.
    ///
    /// # Safety
    /// Only the thread that opens an instance calls this.
    pub unsafe fn known(&self, options: &Options, clause: &Clause, threads: u32) -> *mut KnownLoop {
        // SAFETY: guaranteed by the caller.
        let known = unsafe { &mut *self.known.get() };
        let key = (clause.place, clause.written, threads);
        let one =
            known.entry(key).or_insert_with(|| Box::new(UnsafeCell::new(KnownLoop::new(options, clause, threads))));
        one.get()
    }

    /// Counts an instance.
    ///
    /// # Safety
    /// As for `known`.
    #[inline]
    pub unsafe fn count(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { *self.opened.get() += 1 };
    }

    /// Returns the number of instances since the last call.
    ///
    /// # Safety
    /// No thread uses the team.
    pub unsafe fn take_count(&self) -> u64 {
        // SAFETY: guaranteed by the caller.
        std::mem::take(unsafe { &mut *self.opened.get() })
    }
}
