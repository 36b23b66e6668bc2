//! A team's memory, and which regions use it.
//!
//! A region borrows a team from the thread that begins it, and gives it back when all threads of the region have passed its last barrier. So a thread
//! has as many teams as it nests regions, and their slots and plans are used again by the next region.

use std::cell::{RefCell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chain::Chain;
use crate::instance::Instance;
use crate::known::KnownLoop;
use crate::member::Clause;
use crate::plans::Plans;
use loops::options::Options;

/// Instances that this library has scheduled, without those of regions that have not ended.
pub static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// What the threads of a region share.
pub struct Team {
    /// The instances of the loops.
    pub chain: Chain<Instance>,
    /// Used by the thread that opens an instance.
    pub plans: UnsafeCell<Plans>,
    /// The loops that the team has executed. Used by the thread that opens an instance.
    #[allow(clippy::vec_box, reason = "slots point to them")]
    known: UnsafeCell<Vec<Box<UnsafeCell<KnownLoop>>>>,
    /// Instances since the last reset. Changed by the thread that opens an instance.
    opened: UnsafeCell<u64>,
}

impl Team {
    fn new() -> Team {
        Team {
            chain: Chain::new(),
            plans: UnsafeCell::new(Plans::default()),
            known: UnsafeCell::default(),
            opened: UnsafeCell::new(0),
        }
    }

    /// Returns the loop of a clause.
    ///
    /// # Safety
    /// Only the thread that opens an instance calls this.
    pub unsafe fn known(&self, options: &Options, clause: &Clause) -> *mut KnownLoop {
        // SAFETY: as for `count`.
        let known = unsafe { &mut *self.known.get() };
        // SAFETY: only the opening thread uses them.
        if let Some(one) = known.iter().find(|one| unsafe { &*one.get() }.is(clause)) {
            return one.get();
        }
        let one = Box::new(UnsafeCell::new(KnownLoop::new(options, clause)));
        let place = one.get();
        known.push(one);
        place
    }

    /// Counts an instance.
    ///
    /// # Safety
    /// Only the thread that opens the instance calls this.
    #[inline]
    pub unsafe fn count(&self) {
        // SAFETY: the threads that open instances come one after the other, and each sees what the last one has written (`chain`).
        unsafe { *self.opened.get() += 1 };
    }
}

thread_local! {
    /// Teams of this thread that no region uses.
    #[allow(clippy::vec_box, reason = "pointers into a team stay valid")]
    static FREE: RefCell<Vec<Box<Team>>> = const { RefCell::new(Vec::new()) };
}

/// A team in use.
pub struct Borrowed(Option<Box<Team>>);

impl Borrowed {
    /// Takes a team of the calling thread, or makes one.
    #[inline]
    pub fn new() -> Borrowed {
        let free = FREE.try_with(|free| free.try_borrow_mut().ok().and_then(|mut free| free.pop()));
        Borrowed(Some(free.ok().flatten().unwrap_or_else(make)))
    }

    /// Returns the team.
    #[inline]
    pub fn team(&self) -> *const Team {
        self.0.as_ref().map_or(std::ptr::null(), |team| &raw const **team)
    }
}

#[cold]
fn make() -> Box<Team> {
    Box::new(Team::new())
}

impl Drop for Borrowed {
    /// Gives the team back. All other threads of the region have left it: they have passed the region's last barrier.
    #[inline]
    fn drop(&mut self) {
        let Some(team) = self.0.take() else { return };
        // SAFETY: no thread stands in the chain, and the barrier orders what they have done before this.
        if unsafe { team.chain.reset(|instance| instance.close()) } {
            // SAFETY: nobody else uses the team.
            let opened = std::mem::take(unsafe { &mut *team.opened.get() });
            INSTANCES.fetch_add(opened, Ordering::Relaxed);
        }
        // In a thread that is ending, the team is dropped.
        let _ = FREE.try_with(|free| free.try_borrow_mut().map(|mut free| free.push(team)));
    }
}
