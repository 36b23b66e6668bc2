//! Atomics, locks and sleep, by way of loom when its checker runs (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use wire::umt::{Line, Queue as Ends};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

#[cfg(not(loom))]
type AtomicI64 = std::sync::atomic::AtomicI64;

/// As [`wire::umt::Line`].
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Line(pub AtomicI64);

/// As [`wire::umt::Queue`].
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Ends {
    pub begin: Line,
    pub end: Line,
}

/// Of an empty queue that only threads look at. They stay, as teams do.
pub(crate) fn ends() -> &'static Ends {
    Box::leak(Box::new(Ends { begin: Line(AtomicI64::new(0)), end: Line(AtomicI64::new(0)) }))
}

/// Of so many queues, where BPF sees them too, if there is room.
#[cfg(not(loom))]
pub(crate) fn shared_ends(count: u32) -> Option<&'static [Ends]> {
    signal::queues(count)
}

/// The checker's words are not shared with anybody.
#[cfg(loom)]
pub(crate) fn shared_ends(_: u32) -> Option<&'static [Ends]> {
    None
}

/// A word that a thread sleeps on, by futex(2).
#[cfg(not(loom))]
pub(crate) struct Futex {
    pub word: AtomicU32,
}

#[cfg(not(loom))]
impl Futex {
    pub const fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value) }
    }

    /// Sleeps while the word is `value`; may end for no reason.
    pub fn wait(&'static self, value: u32) {
        signal::futex::wait(&self.word, value);
    }

    /// Wakes one who sleeps.
    pub fn wake(&'static self) {
        signal::futex::wake(&self.word, 1);
    }
}

/// The same to the checker: the kernel compares the word and puts the thread to sleep under a lock that who wakes takes, too.
#[cfg(loom)]
pub(crate) struct Futex {
    pub word: AtomicU32,
    kernel: Mutex<()>,
    sleeps: loom::sync::Condvar,
}

#[cfg(loom)]
impl Futex {
    pub fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value), kernel: Mutex::new(()), sleeps: loom::sync::Condvar::new() }
    }

    pub fn wait(&self, value: u32) {
        let held = self.kernel.lock().unwrap();
        if self.word.load(Ordering::Relaxed) == value {
            drop(self.sleeps.wait(held));
        }
    }

    pub fn wake(&self) {
        let _held = self.kernel.lock().unwrap();
        self.sleeps.notify_one();
    }
}
