//! Parking: a thread sleeps until another thread wakes it. If the wake-up comes first, the thread does not sleep.

use crate::sync::{Futex, Ordering};
use crate::threads::MOST_THREADS;

const AWAKE: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// A parker: one thread at a time sleeps on it, and any thread may wake that thread.
pub struct Bed(Futex);

/// The parkers of all threads that run tasks. They are never freed: a wake-up may come late, when the thread no longer sleeps and its team
/// is used by another region. Then the wrong thread wakes, looks for tasks, and sleeps again.
#[cfg(not(loom))]
static BEDS: [Bed; MOST_THREADS] = [const { Bed(Futex::new(AWAKE)) }; MOST_THREADS];

#[cfg(loom)]
loom::lazy_static! {
    static ref BEDS: [Bed; MOST_THREADS] = std::array::from_fn(|_| Bed(Futex::new(AWAKE)));
}

/// Returns a thread's parker.
pub fn bed(number: u32) -> &'static Bed {
    &BEDS[number as usize % MOST_THREADS]
}

impl Bed {
    /// Sleeps until [`wake`](Bed::wake) is called. Returns immediately if it was called since the last sleep returned. May also return
    /// without a wake-up.
    pub fn sleep(&'static self) {
        let word = &self.0.word;
        if word.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            umt_client::rest(|| {
                while word.load(Ordering::Acquire) == ASLEEP {
                    self.0.wait(ASLEEP);
                }
            });
        }
        word.swap(AWAKE, Ordering::AcqRel);
    }

    /// Wakes the sleeping thread, or makes the next [`sleep`](Bed::sleep) return immediately.
    pub fn wake(&'static self) {
        if self.0.word.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.0.wake();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::sync::atomic::AtomicU32;
    use loom::thread::spawn;

    use super::*;
    use crate::sync::explore;

    /// One thread stores a value and wakes another thread, which sleeps until it reads the value.
    fn check(wake: fn(&'static Bed)) {
        explore(move || {
            let value = Arc::new(AtomicU32::new(0));
            let stores = value.clone();
            let other = spawn(move || {
                // Relaxed, because this test checks that the wake-up makes the value visible.
                stores.store(1, Ordering::Relaxed);
                wake(bed(0));
            });
            while value.load(Ordering::Relaxed) == 0 {
                bed(0).sleep();
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        check(Bed::wake);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_wake_up_before_the_sleep_is_lost_if_the_word_does_not_keep_it() {
        check(|bed| {
            if bed.0.word.compare_exchange(ASLEEP, WOKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                bed.0.wake();
            }
        });
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_sleeping_thread_needs_a_call_of_the_kernel() {
        check(|bed| {
            bed.0.word.swap(WOKEN, Ordering::AcqRel);
        });
    }
}
