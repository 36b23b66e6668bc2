//! Biased lock on a thread number: the number's own thread takes it without an atomic read-modify-write operation.
//!
//! A thread holds the lock on a number while it runs a task that asks for its thread number. A member nearly always takes its own number.
//! Other threads take it rarely: a helper, which has no number of its own (see the module `number`), or a member whose own number is held by
//! another thread. So the owner stores its claim, executes a fence that costs nearly nothing, and then checks whether another thread has
//! stored a claim. Other threads do the same with the expensive fence ([`fence`](crate::fence)). If the owner and another thread do this at
//! the same time, at least one of them sees the other's claim and withdraws its own.

use crate::fence;
use crate::sync::{AtomicU32, Ordering};

/// Value in place of a thread number: no number.
pub(crate) const NONE: u32 = u32::MAX;

/// The lock on one thread number.
#[derive(Default)]
pub(crate) struct BiasedLock {
    by_own: AtomicU32,
    by_other: AtomicU32,
}

impl BiasedLock {
    fn word(&self, own: bool) -> &AtomicU32 {
        if own { &self.by_own } else { &self.by_other }
    }

    /// Tries to take the lock. `own`: the caller is the owner, that is, the member to which the thread number belongs. Returns false if the
    /// lock was taken, or another thread tried to take it at the same time.
    #[inline]
    pub fn take(&self, own: bool) -> bool {
        if own {
            self.by_own.store(1, Ordering::Relaxed);
            fence::light();
        } else if !self.take_others() {
            return false;
        }
        // Acquire: what the last holder wrote is visible here.
        let free = self.word(!own).load(Ordering::Acquire) == 0;
        if !free {
            self.give_back(own);
        }
        free
    }

    /// Stores the calling thread's claim. The caller is not the owner (the member to which the thread number belongs). Returns false if the lock
    /// is taken. If this returns true, the caller still has to check whether the owner has stored a claim, too.
    #[cold]
    fn take_others(&self) -> bool {
        // If the lock is visibly taken, do not make all CPUs execute a fence.
        if self.by_own.load(Ordering::Relaxed) != 0 || self.by_other.swap(1, Ordering::AcqRel) != 0 {
            return false;
        }
        fence::heavy();
        true
    }

    /// Releases the lock. `own`: the caller is the owner, as for [`take`](BiasedLock::take).
    #[inline]
    pub fn give_back(&self, own: bool) {
        self.word(own).store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_has_one_holder() {
        let biased_lock = BiasedLock::default();
        for own in [true, false] {
            assert!(biased_lock.take(own) && !biased_lock.take(!own));
            biased_lock.give_back(own);
        }
        assert!(biased_lock.take(false) && !biased_lock.take(false) && !biased_lock.take(true));
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;

    use super::*;

    /// The owner takes the lock twice, and another thread takes it once. While a thread holds the lock, it increments a cell: loom fails if
    /// two threads do that at the same time.
    fn check(take: fn(&BiasedLock, bool) -> bool) {
        loom::model(move || {
            let shared = Arc::new((BiasedLock::default(), UnsafeCell::new(0)));
            let use_cell = move |shared: &(BiasedLock, UnsafeCell<u32>), own| {
                if take(&shared.0, own) {
                    // SAFETY: loom fails if two threads use the cell at the same time.
                    shared.1.with_mut(|count| unsafe { *count += 1 });
                    shared.0.give_back(own);
                }
            };
            let other = shared.clone();
            let other = loom::thread::spawn(move || use_cell(&other, false));
            use_cell(&shared, true);
            use_cell(&shared, true);
            other.join().unwrap();
        });
    }

    #[test]
    fn it_has_one_holder() {
        check(BiasedLock::take);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn it_has_two_holders_without_the_fences() {
        check(|biased_lock, own| {
            biased_lock.word(own).store(1, Ordering::Relaxed);
            let free = biased_lock.word(!own).load(Ordering::Acquire) == 0;
            if !free {
                biased_lock.give_back(own);
            }
            free
        });
    }
}
