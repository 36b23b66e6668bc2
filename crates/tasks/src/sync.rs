//! Atomics, locks and futexes: those of the standard library and the kernel, or loom's if its model checker runs (`--cfg loom`).

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

/// Replaces [`wire::umt::Line`] when loom's model checker runs.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Line(pub AtomicI64);

/// Replaces [`wire::umt::Queue`] when loom's model checker runs.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Ends {
    pub begin: Line,
    pub end: Line,
}

/// Makes the two positions (begin and end) of an empty queue that BPF does not see. They are never freed, because teams are not.
pub(crate) fn ends() -> &'static Ends {
    Box::leak(Box::new(Ends { begin: Line(AtomicI64::new(0)), end: Line(AtomicI64::new(0)) }))
}

/// Returns the positions (begin and end) of `count` queues in memory that BPF can read, if there is room.
#[cfg(not(loom))]
pub(crate) fn shared_ends(count: u32) -> Option<&'static [Ends]> {
    umt_client::queues(count)
}

/// The model checker's words are not shared with BPF.
#[cfg(loom)]
pub(crate) fn shared_ends(_: u32) -> Option<&'static [Ends]> {
    None
}

/// A word on which threads sleep with futex(2).
#[cfg(not(loom))]
pub(crate) struct Futex {
    pub word: AtomicU32,
}

#[cfg(not(loom))]
impl Futex {
    pub const fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value) }
    }

    /// Sleeps while the word has the value `value`. May return without a wake-up.
    pub fn wait(&'static self, value: u32) {
        umt_client::futex::wait(&self.word, value);
    }

    /// Wakes one thread that sleeps on the word.
    pub fn wake(&'static self) {
        umt_client::futex::wake(&self.word, 1);
    }
}

/// Models futex(2) for loom: the kernel compares the word and queues the sleeping thread under a lock, and a waking thread takes the same
/// lock.
#[cfg(loom)]
pub(crate) struct Futex {
    pub word: AtomicU32,
    lock: Mutex<()>,
    sleepers: loom::sync::Condvar,
}

#[cfg(loom)]
impl Futex {
    pub fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value), lock: Mutex::new(()), sleepers: loom::sync::Condvar::new() }
    }

    pub fn wait(&self, value: u32) {
        let guard = self.lock.lock().unwrap();
        if self.word.load(Ordering::Relaxed) == value {
            drop(self.sleepers.wait(guard));
        }
    }

    pub fn wake(&self) {
        let _guard = self.lock.lock().unwrap();
        self.sleepers.notify_one();
    }
}

/// Runs `model` in each order of its threads' steps that has at most three preemptions. Two preemptions are enough for nearly all faults
/// (Musuvathi and Qadeer, PLDI 2007).
#[cfg(all(test, loom))]
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
