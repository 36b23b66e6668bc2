//! A thread's bed: it sleeps until somebody wakes it. Who is woken before it lies down does not sleep.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal::futex;

const AWAKE: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// For one sleeper at a time; anybody wakes.
pub struct Bed(AtomicU32);

/// Beds of all threads that run tasks. They stay: who wakes somebody may come late, when that one has long gone on and its team
/// is another's; it then wakes the wrong one, who looks around and lies down again.
static BEDS: [Bed; MOST_THREADS] = [const { Bed::new() }; MOST_THREADS];
/// Threads that can run tasks.
pub const MOST_THREADS: usize = 1 << 16;
/// Numbers that were given back, and the first that was never given.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

/// A thread's own number among all threads that run tasks, for as long as it lives. `None`: there are too many.
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

/// The thread is gone.
pub fn give_back(number: u32) {
    let mut free = hold();
    // Without memory to note it this number is lost.
    if free.0.try_reserve(1).is_ok() {
        free.0.push(number);
    }
}

/// The lock on all numbers.
pub(crate) fn hold() -> MutexGuard<'static, (Vec<u32>, u32)> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bed of a thread.
pub fn bed(number: u32) -> &'static Bed {
    &BEDS[number as usize % MOST_THREADS]
}

impl Bed {
    const fn new() -> Bed {
        Bed(AtomicU32::new(AWAKE))
    }

    /// Sleeps until [`wake`](Bed::wake) was called, since the last time this came back. Also for no reason.
    pub fn sleep(&'static self) {
        if self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            signal::rest(|| {
                while self.0.load(Ordering::Acquire) == ASLEEP {
                    futex::wait(&self.0, ASLEEP);
                }
            });
        }
        self.0.swap(AWAKE, Ordering::AcqRel);
    }

    /// Wakes the sleeper, or has the next sleep not begin.
    pub fn wake(&'static self) {
        if self.0.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            futex::wake(&self.0, 1);
        }
    }
}
