//! Who may use the run queue of a carrier that sleeps in a page fault: the carrier or the host. See `relieving`.

use super::sync::{AtomicU32, Ordering};

/// The signal that makes a carrier arrive. The kernel never sends it (signal(7)). It is not queued: sending it once more while it is pending changes nothing.
pub(super) const SIGNAL: i32 = libc::SIGSTKFLT;

const IDLE: u32 = 0;
/// The host wants the queue, and the carrier has not arrived in a handler since.
const WANTED: u32 = 1;
/// The host has the queue.
const TAKEN: u32 = 2;

/// Who may use the run queue of a carrier.
#[derive(Debug)]
pub(super) struct Relief(AtomicU32);

impl Relief {
    pub fn new() -> Relief {
        Relief(AtomicU32::new(IDLE))
    }

    /// Says that the host wants the queue. Before the signal is sent, each time. For the host.
    pub fn want(&self) {
        let _ = self.0.compare_exchange(IDLE, WANTED, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Takes the queue, unless the carrier has arrived. Only if the carrier has slept since the signal was sent. For the host.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(WANTED, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives the queue back. `wake` wakes the carrier, if it waits on the word. For the host, after `take`.
    pub fn done(&self, wake: impl FnOnce(&AtomicU32)) {
        self.0.store(IDLE, Ordering::Release);
        wake(&self.0);
    }

    /// The carrier is in a signal handler: from here on, the queue is its own. `wait` sleeps on the word while it has the value, and may return early.
    #[inline]
    pub fn arrive(&self, mut wait: impl FnMut(&AtomicU32, u32)) {
        loop {
            match self.0.load(Ordering::Acquire) {
                IDLE => return,
                TAKEN => wait(&self.0, TAKEN),
                _ => {
                    let _ = self.0.compare_exchange(WANTED, IDLE, Ordering::AcqRel, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_arrived_keeps_the_queue() {
        let relief = Relief::new();
        relief.arrive(|_, _| panic!("nobody has the queue"));
        assert!(!relief.take());
        relief.want();
        relief.arrive(|_, _| panic!("nobody has the queue"));
        assert!(!relief.take());
        relief.want();
        assert!(relief.take() && !relief.take());
        let mut waits = 0;
        relief.arrive(|_, _| {
            waits += 1;
            relief.done(|_| {});
        });
        assert_eq!((waits, relief.take()), (1, false));
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::sync::Mutex;
    use loom::thread::{spawn, yield_now};

    use super::*;

    /// The kernel's side: whether the carrier sleeps in a fault, and whether a signal is pending. Its locks order both.
    struct Kernel {
        is_asleep: bool,
        is_pending: bool,
    }

    struct Shared {
        relief: Relief,
        kernel: Mutex<Kernel>,
        queue: UnsafeCell<u32>,
    }

    // SAFETY: loom finds out whether the queue is used by two at a time.
    unsafe impl Sync for Shared {}

    impl Shared {
        /// Returns to user space: a pending signal comes first.
        fn wake_up(&self) {
            let mut kernel = self.kernel.lock().unwrap();
            kernel.is_asleep = false;
            let is_pending = std::mem::take(&mut kernel.is_pending);
            drop(kernel);
            if is_pending {
                self.relief.arrive(|_, _| yield_now());
            }
        }

        fn change(&self) {
            // SAFETY: see above.
            self.queue.with_mut(|queue| unsafe { *queue += 1 });
        }
    }

    /// The carrier sleeps in a fault, wakes up, changes its queue, and does so once more; meanwhile, it arrives in the handler of a tick. The host relieves it
    /// twice, at any time. `reads_again`: as it must be.
    fn check(reads_again: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let kernel = Mutex::new(Kernel { is_asleep: true, is_pending: false });
            let shared = Arc::new(Shared { relief: Relief::new(), kernel, queue: UnsafeCell::new(0) });
            let carrier = {
                let shared = shared.clone();
                spawn(move || {
                    shared.wake_up();
                    shared.change();
                    shared.relief.arrive(|_, _| yield_now());
                    shared.kernel.lock().unwrap().is_asleep = true;
                    shared.wake_up();
                    shared.change();
                })
            };
            let sleeps = || shared.kernel.lock().unwrap().is_asleep;
            for _ in 0..2 {
                if sleeps() {
                    shared.relief.want();
                    shared.kernel.lock().unwrap().is_pending = true;
                    if (!reads_again || sleeps()) && shared.relief.take() {
                        shared.change();
                        shared.relief.done(|_| {});
                    }
                }
            }
            carrier.join().unwrap();
        });
    }

    #[test]
    fn one_at_a_time_uses_the_queue() {
        check(true);
    }

    #[test]
    #[should_panic(expected = "oncurrent")]
    fn the_host_must_read_again_after_the_signal() {
        check(false);
    }
}
