//! A team's memory, and which regions use it.
//!
//! A region borrows a team from the thread that begins it, and gives it back when all threads of the region have passed its last barrier. So a thread
//! has as many teams as it nests regions, and their slots and plans are used again by the next region.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chain::Chain;
use crate::instance::Instance;
use crate::opener::Opener;

/// Instances that this library has scheduled, without those of regions that have not ended.
pub static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// What the threads of a region share.
pub struct Team {
    /// The instances of the loops.
    pub chain: Chain<Instance>,
    /// What the thread that opens an instance uses.
    pub opener: Opener,
}

impl Team {
    fn new() -> Team {
        Team { chain: Chain::new(), opener: Opener::default() }
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
            let opened = unsafe { team.opener.take_count() };
            INSTANCES.fetch_add(opened, Ordering::Relaxed);
        }
        // In a thread that is ending, the team is dropped.
        let _ = FREE.try_with(|free| free.try_borrow_mut().map(|mut free| free.push(team)));
    }
}
