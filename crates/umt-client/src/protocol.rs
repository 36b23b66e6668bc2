//! The steps of the doorbell protocol, without the shared pages and the kernel, so that a model checker can test them. The crate's documentation
//! explains why no task is lost.

/// What the steps of the protocol read and write: the words that the program shares with the kernel side.
pub trait Words {
    /// Returns whether fewer threads are runnable than there are CPUs.
    fn has_free_cpu(&self) -> bool;
    /// Returns whether another thread wants the caller's CPU.
    fn is_crowded(&self) -> bool;
    /// Returns whether any queue has a task.
    fn has_ready(&self) -> bool;
    /// Returns the doorbells at which a standby is parked, one bit for each doorbell.
    fn parked(&self) -> u64;
    /// Sets the bit of `bell`: a standby is parked there.
    fn park(&self, bell: u32);
    /// Clears the bit of `bell`, so that no other thread rings it. Returns whether the bit was set, that is, whether a standby was parked there.
    fn take(&self, bell: u32) -> bool;
    /// Executes a full memory fence.
    fn fence(&self);
}

/// Called after a task was put into a queue. Returns the doorbell that the caller has to ring, if a CPU is free and a standby is parked.
#[inline]
pub fn announce(words: &impl Words) -> Option<u32> {
    words.fence();
    if words.has_free_cpu() { take_any(words) } else { None }
}

/// Called by a thread that has no work and is about to sleep, after it has marked itself as resting. When a resting thread blocks, the kernel does
/// not check the queues, so the thread checks them here. Returns the doorbell that the caller has to ring, if any.
pub fn look_before_rest(words: &impl Words) -> Option<u32> {
    words.fence();
    if words.has_ready() { announce(words) } else { None }
}

/// Chooses a parked standby and clears its bit, so that no other thread rings it, too. Returns the number of its doorbell, which the caller has to
/// ring; `None` if no standby is parked.
pub fn take_any(words: &impl Words) -> Option<u32> {
    loop {
        let parked = words.parked();
        if parked == 0 {
            return None;
        }
        // Always prefers the doorbell with the lowest number: the memory of that standby is in the caches, and the others sleep on.
        let bell = parked.trailing_zeros();
        if words.take(bell) {
            return Some(bell);
        }
    }
}

/// Called by a standby (a thread that runs tasks while others are blocked) before it sleeps: marks it as parked at its doorbell, which has the number
/// `bell`. Returns whether it may sleep. If not, there is work for it, although its doorbell was not rung.
pub fn settle(words: &impl Words, bell: u32) -> bool {
    words.park(bell);
    // When the standby blocks, the kernel side looks at the task queues as well, after a fence. Looking here first avoids a sleep that would end
    // immediately.
    words.fence();
    // The standby may sleep in three cases. No task is queued. Or another thread wants this CPU (`is_crowded`) and will use it; if another CPU is
    // free, the kernel side rings a standby. Or the standby's own bit is already cleared: its doorbell was rung, so its sleep ends immediately.
    !words.has_ready() || words.is_crowded() || !words.take(bell)
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
    use loom::thread::spawn;

    use super::*;

    const CPUS: i32 = 2;

    /// The words of the two pages, with a single queue, and the doorbells that were rung.
    struct Model {
        runnable: AtomicI32,
        parked: AtomicU64,
        tasks: AtomicU32,
        rung: AtomicU64,
    }

    impl Words for Model {
        fn has_free_cpu(&self) -> bool {
            self.runnable.load(Ordering::Relaxed) < CPUS
        }

        /// Returns whether more threads are runnable than there are CPUs. This loom model does not know which CPU each thread uses, so
        /// it assumes that one of them wants the caller's CPU.
        fn is_crowded(&self) -> bool {
            self.runnable.load(Ordering::Relaxed) > CPUS
        }

        fn has_ready(&self) -> bool {
            self.tasks.load(Ordering::Relaxed) > 0
        }

        fn parked(&self) -> u64 {
            self.parked.load(Ordering::Relaxed)
        }

        fn park(&self, bell: u32) {
            self.parked.fetch_or(1 << bell, Ordering::AcqRel);
        }

        fn take(&self, bell: u32) -> bool {
            self.parked.fetch_and(!(1 << bell), Ordering::AcqRel) & 1 << bell != 0
        }

        fn fence(&self) {
            fence(Ordering::SeqCst);
        }
    }

    impl Model {
        fn ring(&self, bell: Option<u32>) {
            if let Some(bell) = bell {
                self.rung.fetch_or(1 << bell, Ordering::AcqRel);
            }
        }

        /// Queues a task, and then does what `umt_client::has_put` does.
        fn put(&self) {
            self.tasks.fetch_add(1, Ordering::Relaxed);
            self.ring(announce(self));
        }

        /// Does what the kernel does when a thread blocks: `overlap_switch` and `ring` in overlap.bpf.h.
        fn blocks(&self) {
            self.runnable.fetch_sub(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            if self.has_ready() && self.has_free_cpu() {
                self.ring(take_any(self));
            }
        }

        /// A standby parks at doorbell 0. If it may sleep, it blocks. Returns whether it may sleep.
        fn parks(&self) -> bool {
            let sleeps = settle(self, 0);
            if sleeps {
                self.blocks();
            }
            sleeps
        }
    }

    /// One thread queues a task while another one goes to rest (sleeps because it has no work), which frees a CPU: one of the two threads rings the
    /// standby.
    #[test]
    fn who_goes_to_rest_overlooks_no_task() {
        loom::model(|| {
            let model = Arc::new(Model {
                runnable: AtomicI32::new(CPUS),
                parked: AtomicU64::new(1),
                tasks: AtomicU32::new(0),
                rung: AtomicU64::new(0),
            });
            let puts = Arc::clone(&model);
            let puts = spawn(move || puts.put());
            // Other threads count a resting thread as not runnable, so the model decrements `runnable`. In contrast to `blocks`, no kernel code with
            // a fence of its own runs when a thread goes to rest. So the fence in `look_before_rest` has to suffice.
            model.runnable.fetch_sub(1, Ordering::Release);
            model.ring(look_before_rest(&*model));
            puts.join().unwrap();
            assert_ne!(model.rung.load(Ordering::Relaxed), 0, "a task, a CPU, a standby, and nobody is told");
        });
    }

    /// One thread queues a task, another one blocks, and a standby parks: in the end a CPU is free, so the standby is at work or was rung.
    #[test]
    fn no_task_is_left_while_a_cpu_is_free() {
        loom::model(|| {
            let model = Arc::new(Model {
                runnable: AtomicI32::new(3),
                parked: AtomicU64::new(0),
                tasks: AtomicU32::new(0),
                rung: AtomicU64::new(0),
            });
            let (puts, blocks) = (Arc::clone(&model), Arc::clone(&model));
            let puts = spawn(move || puts.put());
            let blocks = spawn(move || blocks.blocks());
            let sleeps = model.parks();
            puts.join().unwrap();
            blocks.join().unwrap();
            let rung = model.rung.load(Ordering::Relaxed) != 0;
            assert!(!sleeps || rung, "asleep, with {} of {CPUS} CPUs in use", model.runnable.load(Ordering::Relaxed));
        });
    }
}
