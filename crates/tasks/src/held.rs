//! Whether a thread number is held, and by whom: a lock that its own thread takes without an atomic operation.
//!
//! A member takes its own number in every task that asks for one; somebody else's is taken by guests, in the first tasks of a function
//! (`number`), and by a member that finds its own taken. So the first says that it has it, with a fence that costs nothing, and
//! then looks whether another does; the others do the same with the dear fence ([`fence`](crate::fence)). If both come at once, one at
//! least gives way.

use crate::fence;
use crate::sync::{AtomicU32, Ordering};

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// Of one number.
pub(crate) struct Held {
    by_own: AtomicU32,
    by_other: AtomicU32,
}

impl Held {
    pub fn new() -> Held {
        Held { by_own: AtomicU32::new(0), by_other: AtomicU32::new(0) }
    }

    fn word(&self, own: bool) -> &AtomicU32 {
        if own { &self.by_own } else { &self.by_other }
    }

    /// Takes it; `own`: by the one thread whose it is. Whether it was free; it may also be that somebody else was at it.
    #[inline]
    pub fn take(&self, own: bool) -> bool {
        if own {
            self.by_own.store(1, Ordering::Relaxed);
            fence::light();
        } else if !self.take_others() {
            return false;
        }
        // Acquire: what its last holder did.
        let free = self.word(!own).load(Ordering::Acquire) == 0;
        if !free {
            self.give_back(own);
        }
        free
    }

    /// Among those whose it is not. Whether it seems to be free.
    #[cold]
    fn take_others(&self) -> bool {
        // Who looks in vain need not have all CPUs make a fence.
        if self.by_own.load(Ordering::Relaxed) != 0 || self.by_other.swap(1, Ordering::AcqRel) != 0 {
            return false;
        }
        fence::heavy();
        true
    }

    /// It is free again.
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
        let held = Held::new();
        for own in [true, false] {
            assert!(held.take(own) && !held.take(!own));
            held.give_back(own);
        }
        assert!(held.take(false) && !held.take(false) && !held.take(true));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Whoever has it is alone: the checker sees two that are at the same cell.
    #[test]
    fn two_never_have_it() {
        loom::model(|| {
            let shared = Arc::new((Held::new(), UnsafeCell::new(0)));
            let use_it = |shared: &(Held, UnsafeCell<u32>), own| {
                if shared.0.take(own) {
                    // SAFETY: what is checked here.
                    shared.1.with_mut(|count| unsafe { *count += 1 });
                    shared.0.give_back(own);
                }
            };
            let other = shared.clone();
            let other = loom::thread::spawn(move || use_it(&other, false));
            use_it(&shared, true);
            use_it(&shared, true);
            other.join().unwrap();
        });
    }
}
