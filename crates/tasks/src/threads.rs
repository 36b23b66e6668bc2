//! Numbers of the threads that run tasks. Each thread has a number of its own for as long as it lives.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// Largest number of threads that can run tasks.
pub const MOST_THREADS: usize = if cfg!(loom) { 4 } else { 1 << 16 };

/// Numbers that were given back, and the first number that was never given out.
pub(crate) type Free = (Vec<u32>, u32);

#[cfg(not(loom))]
static FREE: Mutex<Free> = Mutex::new((Vec::new(), 0));

#[cfg(loom)]
loom::lazy_static! {
    static ref FREE: Mutex<Free> = Mutex::new((Vec::new(), 0));
}

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
    // If there is no memory for the list entry, this thread number is never used again.
    if free.0.try_reserve(1).is_ok() {
        free.0.push(number);
    }
}

/// Takes the lock on all numbers.
pub(crate) fn hold() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::thread::spawn;

    use super::*;
    use crate::sync::explore;

    loom::lazy_static! {
        /// One word for each number. Only the thread that has the number may use the word.
        static ref WORDS: [UnsafeCell<u32>; MOST_THREADS] = std::array::from_fn(|_| UnsafeCell::new(0));
    }

    fn use_word_of(number: u32) {
        // SAFETY: loom fails if two threads use a word at the same time.
        WORDS[number as usize].with_mut(|count| unsafe { *count += 1 });
    }

    /// Models the lives of three threads, two of them one after the other. In each life, `live` takes a thread number, writes the word in
    /// `WORDS` that belongs to this number, and gives the number back.
    fn check(live: fn()) {
        explore(move || {
            let other = spawn(live);
            live();
            live();
            other.join().unwrap();
        });
    }

    #[test]
    fn two_living_threads_never_have_the_same_number() {
        check(|| {
            let number = take_number().unwrap();
            use_word_of(number);
            give_back(number);
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn two_threads_have_the_same_number_if_one_gives_it_back_too_early() {
        check(|| {
            let number = take_number().unwrap();
            give_back(number);
            use_word_of(number);
        });
    }
}
