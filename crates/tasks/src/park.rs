//! Parking: a thread sleeps until another thread wakes it. If the wake-up comes first, the thread does not sleep.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use umt_client::futex;

const AWAKE: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// A parker: one thread at a time sleeps on it, and any thread may wake that thread.
pub struct Bed(AtomicU32);

/// The parkers of all threads that run tasks. They are never freed: a wake-up may come late, when the thread no longer sleeps and its team
/// is used by another region. Then the wrong thread wakes, looks for tasks, and sleeps again.
static BEDS: [Bed; MOST_THREADS] = [const { Bed::new() }; MOST_THREADS];
/// Largest number of threads that can run tasks.
pub const MOST_THREADS: usize = 1 << 16;
/// Numbers that were given back, and the first number that was never given out.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

/// Gives the calling thread a number among all threads that run tasks. The thread keeps the number until it ends. `None`: there are too
/// many threads.
pub fn take_number() -> Option<u32> {
    let mut free = hold();
    if let Some(number) = free.0.pop() {
        return Some(number);
    }
    let number = free.1;
    ((number as usize) < MOST_THREADS).then(|| {
        free.1 += 1;
        number
    })
}

/// Gives a thread's number back, because the thread ends.
pub fn give_back(number: u32) {
    let mut free = hold();
    // Without memory for the list entry, this number is lost.
    if free.0.try_reserve(1).is_ok() {
        free.0.push(number);
    }
}

/// Takes the lock on all numbers.
pub(crate) fn hold() -> MutexGuard<'static, (Vec<u32>, u32)> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a thread's parker.
pub fn bed(number: u32) -> &'static Bed {
    &BEDS[number as usize % MOST_THREADS]
}

impl Bed {
    const fn new() -> Bed {
        Bed(AtomicU32::new(AWAKE))
    }

    /// Sleeps until [`wake`](Bed::wake) is called. Returns immediately if it was called since the last sleep returned. May also return
    /// without a wake-up.
    pub fn sleep(&'static self) {
        if self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            umt_client::rest(|| {
                while self.0.load(Ordering::Acquire) == ASLEEP {
                    futex::wait(&self.0, ASLEEP);
                }
            });
        }
        self.0.swap(AWAKE, Ordering::AcqRel);
    }

    /// Wakes the sleeping thread, or makes the next [`sleep`](Bed::sleep) return immediately.
    pub fn wake(&'static self) {
        if self.0.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            futex::wake(&self.0, 1);
        }
    }
}
