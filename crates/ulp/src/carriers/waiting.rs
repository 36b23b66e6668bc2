//! How a ULP waits for another one: it suspends itself, and the other one resumes it. A resume that comes first is kept: the next suspend returns at once.
//!
//! 1. A ULP on a carrier goes to the carrier's loop. When its context is complete, the loop says that it is suspended on a carrier, and puts it in no
//!    queue; or it finds that a resume has come, and puts it in the queue.
//! 2. A coupled ULP says that it sleeps at home, and sleeps on the word with futex(2).
//! 3. Whoever resumes it exchanges the word. What was there before says what is to be done: nothing, or a wake-up, or handing the context to its carrier.
//!    Of several, only one sees that the ULP was suspended.
//! 4. The ULP clears the word when it runs again. A resume that comes between has woken it already.
//!
//! A callback after the switch, as in PiP, is not needed: a resume between unlocking and suspending is kept.

use super::sync::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const RESUMED: u32 = 1;
const CARRIED: u32 = 2;
const HOME: u32 = 3;

/// Whether a ULP waits.
#[derive(Debug)]
pub(super) struct Waiting(AtomicU32);

/// What a resume has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    /// Nothing: the ULP runs, or somebody else has resumed it.
    Running,
    /// Hand the context to its carrier.
    Carried,
    /// Wake the home task, which sleeps on the word.
    Home,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting(AtomicU32::new(EMPTY))
    }

    /// Whether a resume has come already. Takes it.
    pub fn take(&self) -> bool {
        self.0.swap(EMPTY, Ordering::AcqRel) == RESUMED
    }

    /// The ULP's context is complete, and in no queue. Returns `false` if a resume has come: then the ULP must go on.
    pub fn suspend_on_carrier(&self) -> bool {
        self.0.compare_exchange(EMPTY, CARRIED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sleeps until a resume comes. `wait` sleeps on the word while it has the value, and may return early; then this returns, too.
    pub fn sleep_at_home(&self, wait: impl FnOnce(&AtomicU32, u32)) {
        if self.0.compare_exchange(EMPTY, HOME, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            wait(&self.0, HOME);
        }
    }

    /// Resumes the ULP. Returns what is left to do.
    pub fn resume(&self) -> Resumed {
        match self.0.swap(RESUMED, Ordering::AcqRel) {
            CARRIED => Resumed::Carried,
            HOME => Resumed::Home,
            _ => Resumed::Running,
        }
    }

    /// The word, to wake the home task.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_resume_is_kept_until_the_next_suspend() {
        let waiting = Waiting::new();
        assert_eq!(waiting.resume(), Resumed::Running);
        assert!(!waiting.suspend_on_carrier());
        assert!(waiting.take() && !waiting.take());
        assert!(waiting.suspend_on_carrier());
        assert_eq!((waiting.resume(), waiting.resume()), (Resumed::Carried, Resumed::Running));
        assert!(waiting.take());
        waiting.sleep_at_home(|_, _| assert_eq!(waiting.resume(), Resumed::Home));
        assert!(waiting.take());
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Condvar, Mutex};
    use loom::thread::spawn;

    use super::*;

    /// A value that two others store; one of them resumes last. The queue stands for that of the carrier.
    struct Shared {
        value: AtomicU32,
        waiting: Waiting,
        queue: Mutex<u32>,
        filled: Condvar,
        is_running: AtomicBool,
    }

    impl Shared {
        fn enqueue(&self) {
            *self.queue.lock().unwrap() += 1;
            self.filled.notify_one();
        }

        fn resume(&self) {
            match self.waiting.resume() {
                Resumed::Running => {}
                Resumed::Carried => {
                    // Two tasks would run one context if it were handed over twice.
                    assert!(!self.is_running.swap(true, Ordering::AcqRel), "handed over twice");
                    self.enqueue();
                }
                Resumed::Home => panic!("not at home"),
            }
        }
    }

    #[test]
    fn no_resume_is_lost_and_none_counts_twice() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new(Shared {
                value: AtomicU32::new(0),
                waiting: Waiting::new(),
                queue: Mutex::new(0),
                filled: Condvar::new(),
                is_running: AtomicBool::new(true),
            });
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    spawn(move || {
                        // Relaxed, because the resume must make the value visible.
                        shared.value.fetch_add(1, Ordering::Relaxed);
                        shared.resume();
                    })
                })
                .collect();
            while shared.value.load(Ordering::Relaxed) < 2 {
                if !shared.waiting.take() {
                    shared.is_running.store(false, Ordering::Release);
                    if shared.waiting.suspend_on_carrier() {
                        let mut queue = shared.queue.lock().unwrap();
                        while *queue == 0 {
                            queue = shared.filled.wait(queue).unwrap();
                        }
                        *queue -= 1;
                    } else {
                        shared.is_running.store(true, Ordering::Release);
                    }
                    shared.waiting.take();
                }
            }
            for other in others {
                other.join().unwrap();
            }
        });
    }
}
