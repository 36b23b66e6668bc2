//! A carrier that sleeps in a page fault is relieved: the ULPs that wait for it go home, and run there on their own kernel tasks.
//!
//! 1. A sentinel finds that the carrier's CPU is idle although the carrier runs a ULP, and tells the host (`sentinel`). Until there are sentinels, the host
//!    looks from time to time.
//! 2. The host reads in /proc whether the carrier sleeps because of a fault in a ULP's code. If so, it says that it wants to relieve the carrier, sends it a
//!    signal, and reads again.
//! 3. If the carrier still sleeps there, the handler of that signal is what it does next when it wakes up. So the host takes the run queue, unless the
//!    carrier has arrived in a handler meanwhile. It empties the queue and the inbox, and sends all ULPs home.
//! 4. A carrier that arrives in a handler while the host has the queue waits until the host is done.
//! 5. The handler sends the ULP that has faulted home: a fault that the signal has interrupted happens again there, and stops nobody else.
//!
//! The signal must be sent before the second reading. Otherwise the carrier could go on between the reading and the signal, and change its queue at the
//! same time as the host.

use std::fs;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::carrier::Carrier;
use super::sync::{AtomicU32, Ordering};
use super::{Carriers, home, machine, sentinel};

/// The signal that makes a carrier arrive (SIGRTMAX - 2).
pub(super) const SIGNAL: i32 = 62;

const IDLE: u32 = 0;
/// The host wants the queue, and the signal is pending or about to be sent.
const WANTED: u32 = 1;
/// The host has the queue.
const TAKEN: u32 = 2;

/// Who may use the run queue of a carrier that sleeps in a page fault: the carrier or the host.
#[derive(Debug)]
pub(super) struct Relief(AtomicU32);

impl Relief {
    pub fn new() -> Relief {
        Relief(AtomicU32::new(IDLE))
    }

    /// Says that the host wants the queue. Returns whether it must send the signal. For the host.
    pub fn want(&self) -> bool {
        self.0.compare_exchange(IDLE, WANTED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Forgets it, because the signal cannot be sent. For the host.
    pub fn forget(&self) {
        let _ = self.0.compare_exchange(WANTED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the queue, unless the carrier has arrived. Only if the carrier has slept since the signal was sent. For the host.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(WANTED, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives the queue back. `wake` wakes the carrier, if it waits on the word. For the host, after `take`.
    pub fn done(&self, wake: impl FnOnce(&AtomicU32)) {
        // The signal is still pending.
        self.0.store(WANTED, Ordering::Release);
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

/// How long after its start the host first looks whether a carrier sleeps in a page fault; from then on, ever more seldom.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Who watches the carriers: the host, which looks from time to time, until it finds one that sleeps in a page fault; then, sentinels do, too.
///
/// Most programs never wait for storage on carriers, and need no sentinels.
#[derive(Debug)]
pub(super) struct Watch {
    has_sentinels: bool,
    last_look: Instant,
    pause: Duration,
}

impl Watch {
    pub fn new() -> Watch {
        Watch { has_sentinels: false, last_look: Instant::now(), pause: FIRST_LOOK }
    }

    /// Returns how long the host may wait; `None`: it need not look.
    fn patience(&self) -> Option<Duration> {
        (!self.has_sentinels).then(|| self.pause.saturating_sub(self.last_look.elapsed()))
    }

    /// Whether it is time to look. Then, the next time is later.
    fn is_due(&mut self) -> bool {
        let is_due = self.patience().is_some_and(|patience| patience.is_zero());
        if is_due {
            self.last_look = Instant::now();
            self.pause = (2 * self.pause).min(LONGEST);
        }
        is_due
    }
}

/// Whether a sentinel has found a carrier that may sleep in a page fault since the host last looked.
static IS_ALARMED: AtomicBool = AtomicBool::new(false);

/// Tells the host that a carrier may sleep in a page fault. For a sentinel.
pub(super) fn alarm() {
    IS_ALARMED.store(true, Ordering::Release);
    // SAFETY: no pointers. The host waits for this signal.
    unsafe { libc::kill(libc::getpid(), libc::SIGCHLD) };
}

impl Carriers {
    /// Returns how long the host may wait before it calls [`Carriers::relieve`]; `None`: until a signal comes.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        if self.carriers.is_empty() { None } else { self.watch.patience() }
    }

    /// Relieves the carriers that sleep in page faults. `ulps`: all addresses at which ULPs have code. For the host's main thread, whenever it has waited.
    pub fn relieve(&mut self, ulps: &Range<u64>) {
        let is_due = self.watch.is_due();
        if !IS_ALARMED.swap(false, Ordering::AcqRel) && !is_due {
            return;
        }
        // SAFETY: carriers are never freed.
        let asleep = self.carriers.iter().filter(|carrier| unsafe { relieve(**carrier, ulps) }).count();
        if asleep > 0 && !self.watch.has_sentinels {
            self.watch.has_sentinels = true;
            for (cpu, carrier) in self.cpus.iter().zip(&self.carriers) {
                // Without it, ULPs wait for a carrier that sleeps.
                let _ = sentinel::start(*cpu, *carrier);
            }
        }
    }
}

/// Sends home all ULPs that wait for a carrier, if it sleeps in a page fault of the one that it runs. Returns whether it sleeps.
unsafe fn relieve(carrier: *mut Carrier, ulps: &Range<u64>) -> bool {
    // SAFETY: carriers are never freed. The queue is used only while the host has it.
    unsafe {
        let tid = (*carrier).tid.load(Ordering::Relaxed);
        if !sleeps_in_fault(tid, ulps) {
            return false;
        }
        let relief = &(*carrier).relief;
        if relief.want() {
            let pid = libc::getpid();
            if machine::call4(libc::SYS_tgkill, pid as u64, tid as u64, SIGNAL as u64, 0) != 0 {
                relief.forget();
                return true;
            }
        }
        if !sleeps_in_fault(tid, ulps) || !relief.take() {
            return true;
        }
        (*carrier).inbox.set_stuck(true);
        let all = Carrier::drain(carrier);
        relief.done(machine::wake);
        (*carrier).relieved.fetch_add(all.len() as u64, Ordering::Relaxed);
        for record in all {
            home::send(record);
        }
        true
    }
}

/// Whether a thread of this process sleeps in a page fault of code in this range.
fn sleeps_in_fault(tid: i32, code: &Range<u64>) -> bool {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap_or_default();
    instruction_of_fault(&text).is_some_and(|instruction| code.contains(&instruction))
}

/// Returns the instruction that has faulted, if a thread sleeps in a fault. `text`: its file /proc/PID/syscall, as proc(5) says: -1 in place of a system
/// call, the stack pointer and the instruction pointer.
fn instruction_of_fault(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let (call, _, instruction) = (words.next()?, words.next()?, words.next()?);
    (call == "-1").then(|| u64::from_str_radix(instruction.strip_prefix("0x")?, 16).ok()).flatten()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_sleeps_in_a_fault_has_an_instruction() {
        assert_eq!(instruction_of_fault("-1 0x7ffd3c 0x55d1a0\n"), Some(0x55_d1a0));
        for text in ["running\n", "", "202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd3c 0x7f01\n", "-1 0x7ffd3c", "-1 1 2"] {
            assert_eq!(instruction_of_fault(text), None, "{text}");
        }
    }

    #[test]
    fn who_has_arrived_keeps_the_queue() {
        let relief = Relief::new();
        relief.arrive(|_, _| panic!("nobody has the queue"));
        assert!(!relief.take() && relief.want() && !relief.want());
        relief.arrive(|_, _| panic!("nobody has the queue"));
        assert!(!relief.take() && relief.want() && relief.take());
        let mut waits = 0;
        relief.arrive(|_, _| {
            waits += 1;
            relief.done(|_| {});
        });
        assert_eq!((waits, relief.want()), (1, true));
        relief.forget();
        assert!(relief.want());
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

    /// The carrier sleeps in a fault, wakes up, changes its queue, and does so once more. The host relieves it at any time. `reads_again`: as it must be.
    fn check(reads_again: bool) {
        loom::model(move || {
            let kernel = Mutex::new(Kernel { is_asleep: true, is_pending: false });
            let shared = Arc::new(Shared { relief: Relief::new(), kernel, queue: UnsafeCell::new(0) });
            let carrier = {
                let shared = shared.clone();
                spawn(move || {
                    for _ in 0..2 {
                        shared.wake_up();
                        shared.change();
                        shared.kernel.lock().unwrap().is_asleep = true;
                    }
                })
            };
            let sleeps = || shared.kernel.lock().unwrap().is_asleep;
            if sleeps() {
                if shared.relief.want() {
                    shared.kernel.lock().unwrap().is_pending = true;
                }
                if (!reads_again || sleeps()) && shared.relief.take() {
                    shared.change();
                    shared.relief.done(|_| {});
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
    #[should_panic]
    fn the_host_must_read_again_after_the_signal() {
        check(false);
    }
}
