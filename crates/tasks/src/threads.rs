//! Numbers of the threads that run tasks: each has its own for as long as it lives.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// Threads that can run tasks.
pub const MOST_THREADS: usize = if cfg!(loom) { 4 } else { 1 << 16 };

/// Numbers that were given back, and the first that was never given.
pub(crate) struct Numbers(Mutex<(Vec<u32>, u32)>);

/// Those of this process.
#[cfg(not(loom))]
static NUMBERS: Numbers = Numbers(Mutex::new((Vec::new(), 0)));

#[cfg(loom)]
loom::lazy_static! {
    static ref NUMBERS: Numbers = Numbers(Mutex::new((Vec::new(), 0)));
}

impl Numbers {
    /// One that no thread has. `None`: there are too many.
    fn take(&self) -> Option<u32> {
        let mut free = self.hold();
        if let Some(number) = free.0.pop() {
            return Some(number);
        }
        let number = free.1;
        ((number as usize) < MOST_THREADS).then(|| {
            free.1 += 1;
            number
        })
    }

    fn give_back(&self, number: u32) {
        let mut free = self.hold();
        // Without memory to note it this number is lost.
        if free.0.try_reserve(1).is_ok() {
            free.0.push(number);
        }
    }

    fn hold(&self) -> MutexGuard<'_, (Vec<u32>, u32)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's own number among all threads that run tasks, for as long as it lives. `None`: there are too many.
pub fn take_number() -> Option<u32> {
    NUMBERS.take()
}

/// The thread is gone.
pub fn give_back(number: u32) {
    NUMBERS.give_back(number);
}

/// The lock on all numbers.
pub(crate) fn hold() -> MutexGuard<'static, (Vec<u32>, u32)> {
    NUMBERS.hold()
}

#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::thread::spawn;

    use super::*;

    loom::lazy_static! {
        /// What belongs to each number: a thread uses it as if it were alone.
        static ref BELONGINGS: [UnsafeCell<u32>; MOST_THREADS] = std::array::from_fn(|_| UnsafeCell::new(0));
    }

    fn use_what_belongs_to(number: u32) {
        // SAFETY: what is checked here.
        BELONGINGS[number as usize].with_mut(|count| unsafe { *count += 1 });
    }

    /// Two threads take a number, use what belongs to it, and end; one of them does it twice.
    fn check(live: fn()) {
        loom::model(move || {
            let other = spawn(live);
            live();
            live();
            other.join().unwrap();
        });
    }

    #[test]
    fn two_threads_never_have_the_same_number() {
        check(|| {
            let number = take_number().unwrap();
            use_what_belongs_to(number);
            give_back(number);
        });
    }

    #[test]
    #[should_panic = "Causality violation"]
    fn a_number_that_is_given_back_too_early_is_anothers() {
        check(|| {
            let number = take_number().unwrap();
            give_back(number);
            use_what_belongs_to(number);
        });
    }
}
