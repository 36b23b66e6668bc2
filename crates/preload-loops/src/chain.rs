//! The instances of a team's loops, in the order in which each thread comes to them: who opens an instance, and when its memory may be used again.
//!
//! All threads of a team come to the same loops in the same order. A loop with `nowait` has no barrier, so a thread may be any number of loops ahead
//! of another. Each instance has a *slot*, and each slot points to the slot of the next instance: a chain. A thread *stands* at one slot. The threads
//! start at the *root*, a slot without an instance.
//!
//!  1. **Open.** A thread that goes on and finds no next slot sets the pointer to `OPENING`, by compare-and-swap. It takes a free slot, fills it, and
//!     stores its address in the pointer (release). Other threads that come meanwhile wait for this store; it takes less than a microsecond, unless
//!     the opening thread is preempted.
//!  2. **Join.** A thread that finds the address of a slot there (acquire) sees all that the opening thread has written.
//!  3. **Leave.** Only then, the thread leaves the slot at which it stood: it subtracts 1 from the number of threads that have yet to leave. It must
//!     not leave earlier, because it reads the pointer to the next slot. The last thread that leaves puts the slot on the stack of free slots. The
//!     subtraction is both acquire and release: all that others have done in the slot happens before its next use.
//!
//! Why the stack needs no counter against ABA: only a thread that opens an instance takes a slot from it, and there is one such thread at a time.
//! Instance g + 1 is opened by a thread that stands at g, so after g has been opened. So while this thread reads which slot is below the top,
//! nobody else can take the top and put it back. For the same reason, what belongs to the opening thread alone (the list of all slots, and the caller's
//! cache of plans) needs no lock: the release in step 1 and the acquire in step 2 hand it over from one opening thread to the next.
//!
//! A team of one thread stays at its first slot.
//!
//! A slot is allocated only if none is free: at a team's first loops, or if a thread is further ahead than any before.
//!
//! *Rejected:* a ring, in which a thread that is a whole ring ahead has to wait for the others. A thread may rely on the ahead one to continue: OpenMP
//! lets threads synchronise by other means between loops with `nowait`.

use std::ptr;

use crate::sync::{AtomicPtr, AtomicU32, Ordering, pause};

/// Number of threads that have yet to leave the root: it is never free.
const NEVER_FREE: u32 = u32::MAX;

/// The memory of an instance. `T` is what its threads share.
#[repr(C, align(128))]
pub struct Slot<T> {
    /// The slot of the next instance; null before it is opened, `OPENING` meanwhile.
    next: AtomicPtr<Slot<T>>,
    /// Threads that have yet to leave this slot.
    staying: AtomicU32,
    /// The slot below this one in the stack of free slots.
    below: AtomicPtr<Slot<T>>,
    /// The slot that was allocated before this one.
    older: AtomicPtr<Slot<T>>,
    /// What the threads of the instance share.
    pub content: T,
}

/// A team's slots.
#[repr(C)]
pub struct Chain<T> {
    root: Slot<T>,
    /// Top of the stack of free slots.
    free: AtomicPtr<Slot<T>>,
    /// The slot that was allocated last. Only an opening thread changes it.
    newest: AtomicPtr<Slot<T>>,
}

/// Value of [`Slot::next`] while a thread opens the next instance.
fn opening<T>() -> *mut Slot<T> {
    ptr::without_provenance_mut(1)
}

impl<T: Default> Slot<T> {
    fn new(staying: u32) -> Slot<T> {
        Slot {
            next: AtomicPtr::new(ptr::null_mut()),
            staying: AtomicU32::new(staying),
            below: AtomicPtr::new(ptr::null_mut()),
            older: AtomicPtr::new(ptr::null_mut()),
            content: T::default(),
        }
    }
}

impl<T: Default> Chain<T> {
    /// Returns a chain that consists of the root.
    pub fn new() -> Chain<T> {
        let none = || AtomicPtr::new(ptr::null_mut());
        Chain { root: Slot::new(NEVER_FREE), free: none(), newest: none() }
    }

    /// Returns where each thread starts.
    pub fn root(&self) -> *const Slot<T> {
        &raw const self.root
    }

    /// Takes a thread from the slot `at` to the next one. If no thread has been there, `open` is called with its content, before any other thread sees
    /// it. Then the calling thread leaves `at`.
    ///
    /// # Safety
    /// The calling thread stands at `at`, a slot of this chain. `threads` is the number of threads that come to each instance; each of them calls this
    /// function as often as the others until the chain is [reset](Chain::reset), or less often.
    #[inline]
    pub unsafe fn advance(&self, at: *const Slot<T>, threads: u32, open: impl FnOnce(&T)) -> *const Slot<T> {
        // SAFETY: slots live as long as the chain.
        let here = unsafe { &*at };
        if threads == 1 && at != self.root() {
            // Nobody else comes to this slot or has a reference to it: it is left and opened in one step.
            open(&here.content);
            return at;
        }
        let mut next = here.next.load(Ordering::Acquire);
        if next.is_null() {
            match here.next.compare_exchange(next, opening(), Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    let slot = self.take();
                    // SAFETY: as above. Nobody else uses a free slot, and only this thread opens an instance.
                    let opened = unsafe { &*slot };
                    opened.next.store(ptr::null_mut(), Ordering::Relaxed);
                    opened.staying.store(threads, Ordering::Relaxed);
                    open(&opened.content);
                    here.next.store(slot, Ordering::Release);
                    next = slot;
                }
                Err(other) => next = other,
            }
        }
        let mut attempt = 0;
        while next == opening() {
            pause(attempt);
            attempt = attempt.saturating_add(1);
            next = here.next.load(Ordering::Acquire);
        }
        if here.staying.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.put(here);
        }
        next
    }

    /// Makes all slots free, so that the chain consists of the root again, and calls `close` with the content of each. Returns whether there were
    /// instances.
    ///
    /// # Safety
    /// No thread stands in the chain, and what the threads have done there happens before this call.
    pub unsafe fn reset(&self, close: impl Fn(&T)) -> bool {
        if self.root.next.load(Ordering::Relaxed).is_null() {
            return false;
        }
        self.root.next.store(ptr::null_mut(), Ordering::Relaxed);
        self.root.staying.store(NEVER_FREE, Ordering::Relaxed);
        let mut slot = self.newest.load(Ordering::Relaxed);
        self.free.store(slot, Ordering::Relaxed);
        // SAFETY: slots live as long as the chain.
        while let Some(free) = unsafe { slot.as_ref() } {
            close(&free.content);
            slot = free.older.load(Ordering::Relaxed);
            free.below.store(slot, Ordering::Relaxed);
        }
        true
    }

    /// Takes a slot off the stack, or allocates one. Called by the opening thread.
    #[inline]
    fn take(&self) -> *mut Slot<T> {
        let mut top = self.free.load(Ordering::Acquire);
        // SAFETY: slots live as long as the chain.
        while let Some(slot) = unsafe { top.as_ref() } {
            let below = slot.below.load(Ordering::Relaxed);
            match self.free.compare_exchange(top, below, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return top,
                Err(newer) => top = newer,
            }
        }
        self.allocate()
    }

    #[cold]
    fn allocate(&self) -> *mut Slot<T> {
        let slot = Box::new(Slot::new(0));
        slot.older.store(self.newest.load(Ordering::Relaxed), Ordering::Relaxed);
        let slot = Box::into_raw(slot);
        self.newest.store(slot, Ordering::Relaxed);
        slot
    }

    /// Puts a slot on the stack that the last thread has left.
    #[inline]
    fn put(&self, slot: &Slot<T>) {
        let address = ptr::from_ref(slot).cast_mut();
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            slot.below.store(top, Ordering::Relaxed);
            match self.free.compare_exchange(top, address, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => top = newer,
            }
        }
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        let mut slot = self.newest.load(Ordering::Relaxed);
        while !slot.is_null() {
            // SAFETY: the slot was allocated by `allocate` and is in the list once.
            let dropped = unsafe { Box::from_raw(slot) };
            slot = dropped.older.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// An instance: its number, written by the opening thread only, and how many threads have come.
    struct Counted {
        number: UnsafeCell<u32>,
        came: AtomicU32,
    }

    impl Default for Counted {
        fn default() -> Counted {
            Counted { number: UnsafeCell::new(0), came: AtomicU32::new(0) }
        }
    }

    struct Shared(Chain<Counted>);
    // SAFETY: the protocol under test orders all accesses to the cells; loom checks that.
    unsafe impl Send for Shared {}
    // SAFETY: as above.
    unsafe impl Sync for Shared {}

    /// Goes through `instances` loops with `nowait`. Returns how often this thread was the last one to come.
    fn walk(chain: &Chain<Counted>, threads: u32, instances: u32) -> u32 {
        let mut at = chain.root();
        let mut completed = 0;
        for number in 1..=instances {
            // SAFETY: each thread of the model calls `walk` once, and so starts at the root.
            at = unsafe {
                chain.advance(at, threads, |counted| {
                    counted.number.with_mut(|place| *place = number);
                    counted.came.store(0, Ordering::Relaxed);
                })
            };
            // SAFETY: the slot lives as long as the chain, and this thread stands there.
            let counted = unsafe { &(*at).content };
            // SAFETY: only an opening thread writes it, and this thread has not left; loom checks that.
            counted.number.with(|place| assert_eq!(unsafe { *place }, number));
            completed += u32::from(counted.came.fetch_add(1, Ordering::Relaxed) + 1 == threads);
        }
        completed
    }

    fn model(threads: u32, instances: u32, preemptions: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 10_000;
        builder.check(move || {
            let shared = Arc::new(Shared(Chain::new()));
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || walk(&shared.0, threads, instances))
                })
                .collect();
            let mut completed = walk(&shared.0, threads, instances);
            completed += others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
            // Each instance was seen by all threads, whatever the distance between them.
            assert_eq!(completed, instances);
            // SAFETY: all threads have ended.
            assert!(unsafe { shared.0.reset(|_| ()) });
            assert_eq!(walk(&shared.0, 1, 2), 2);
        });
    }

    /// Four instances: one more than two threads next to each other need, so slots are used again.
    #[test]
    fn two_threads_use_slots_again() {
        model(2, 4, 3);
    }

    #[test]
    fn three_threads_see_the_same_instances() {
        model(3, 2, 1);
    }
}
