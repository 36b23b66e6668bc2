//! A thread's bed: it sleeps until somebody wakes it. Who is woken before it lies down does not sleep.

use crate::sync::{Futex, Ordering};
use crate::threads::MOST_THREADS;

const AWAKE: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// For one sleeper at a time; anybody wakes.
pub struct Bed(Futex);

/// Beds of all threads that run tasks. They stay: who wakes somebody may come late, when that one has long gone on and its team
/// is another's; it then wakes the wrong one, who looks around and lies down again.
#[cfg(not(loom))]
static BEDS: [Bed; MOST_THREADS] = [const { Bed(Futex::new(AWAKE)) }; MOST_THREADS];

#[cfg(loom)]
loom::lazy_static! {
    static ref BEDS: [Bed; MOST_THREADS] = std::array::from_fn(|_| Bed(Futex::new(AWAKE)));
}

/// The bed of a thread.
pub fn bed(number: u32) -> &'static Bed {
    &BEDS[number as usize % MOST_THREADS]
}

impl Bed {
    /// Sleeps until [`wake`](Bed::wake) was called, since the last time this came back. Also for no reason.
    pub fn sleep(&'static self) {
        let word = &self.0.word;
        if word.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            signal::rest(|| {
                while word.load(Ordering::Acquire) == ASLEEP {
                    self.0.wait(ASLEEP);
                }
            });
        }
        word.swap(AWAKE, Ordering::AcqRel);
    }

    /// Wakes the sleeper, or has the next sleep not begin.
    pub fn wake(&'static self) {
        if self.0.word.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.0.wake();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread::spawn;

    use super::*;

    /// One thread says something and wakes another, which sleeps until it is said.
    fn check(wake: fn(&'static Bed)) {
        loom::model(move || {
            let is_said = Arc::new(AtomicU32::new(0));
            let theirs = is_said.clone();
            let other = spawn(move || {
                // Relaxed: the wake-up has to bring it along.
                theirs.store(1, Ordering::Relaxed);
                wake(bed(0));
            });
            while is_said.load(Ordering::Relaxed) == 0 {
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
    #[should_panic = "deadlock"]
    fn one_that_comes_before_the_sleep_would_be_without_the_word() {
        check(|bed| {
            if bed.0.word.compare_exchange(ASLEEP, WOKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                bed.0.wake();
            }
        });
    }

    #[test]
    #[should_panic = "deadlock"]
    fn one_without_a_call_of_the_kernel_would_be() {
        check(|bed| {
            bed.0.word.swap(WOKEN, Ordering::AcqRel);
        });
    }
}
