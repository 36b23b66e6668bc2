//! A team's queues of ready tasks, in addition to the deques of its slots.

use std::collections::{BinaryHeap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sync::{Ends, ends as ends_elsewhere};
use crate::task::Task;

/// A team's queues of ready tasks, in addition to the deques of its slots.
pub(crate) struct Queues {
    pub urgent: Queue<Urgents>,
    pub surplus: Queue<VecDeque<Ready>>,
    /// Ready tasks that helpers must not run: of functions that ask for their thread's number, or of constructs that only members begin.
    pub members_only: Queue<VecDeque<Ready>>,
}

impl Queues {
    /// Makes the queues. The arguments are the positions (begin and end) of the first two queues, in memory that BPF can read.
    pub fn new(urgent: Option<&'static Ends>, surplus: Option<&'static Ends>) -> Queues {
        Queues {
            urgent: Queue::new(Urgents::default(), urgent),
            surplus: Queue::new(VecDeque::new(), surplus),
            // BPF wakes standbys for the tasks in the queues that it sees. It need not see this queue: standbys must not run these tasks.
            members_only: Queue::new(VecDeque::new(), None),
        }
    }

    /// Takes the locks on all queues. No thread waits for another lock while it holds one of these, so there is no deadlock.
    pub fn hold(&'static self) -> HeldQueues {
        HeldQueues { _urgent: self.urgent.lock(), _others: [self.surplus.lock(), self.members_only.lock()] }
    }
}

/// A queue with a lock. Its length can be read without the lock.
pub(crate) struct Queue<Q> {
    /// `begin` stays 0, so `end` is the length of the queue. BPF may read it.
    ends: &'static Ends,
    queue: Mutex<Q>,
}

/// A ready task in a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready(pub NonNull<Task>);

// SAFETY: the thread that takes the task from the queue owns it.
unsafe impl Send for Ready {}

/// A heap of ready tasks, which threads search before all other queues.
#[derive(Default)]
pub(crate) struct Urgents {
    pub heap: BinaryHeap<Urgent>,
    /// Sequence number, which decreases with each task: of two tasks, the older one has the larger number.
    pub next: u64,
}

/// A task in the heap. Tasks are ordered by priority. Among tasks of the same priority, those that probably block come first, and older
/// ones before younger ones.
#[derive(PartialEq, Eq)]
pub(crate) struct Urgent {
    pub priority: i32,
    pub blocks: bool,
    pub before: u64,
    pub task: Ready,
}

/// Guards of a team's queues. While they exist, no other thread changes the queues.
pub struct HeldQueues {
    _urgent: MutexGuard<'static, Urgents>,
    _others: [MutexGuard<'static, VecDeque<Ready>>; 2],
}

impl<Q> Queue<Q> {
    fn lock(&self) -> MutexGuard<'_, Q> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(queue: Q, ends: Option<&'static Ends>) -> Queue<Q> {
        Queue { ends: ends.unwrap_or_else(ends_elsewhere), queue: Mutex::new(queue) }
    }

    /// Returns whether the queue is empty. Takes no lock, so the answer may be outdated.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.end.0.load(Ordering::Relaxed) == 0
    }

    /// Changes the queue under the lock. `change` returns the new length.
    pub fn with(&self, change: impl FnOnce(&mut Q) -> usize) {
        let mut queue = self.lock();
        let length = change(&mut queue);
        self.ends.end.0.store(length as i64, Ordering::Relaxed);
    }
}

impl Ord for Urgent {
    fn cmp(&self, other: &Urgent) -> std::cmp::Ordering {
        (self.priority, self.blocks, self.before).cmp(&(other.priority, other.blocks, other.before))
    }
}

impl PartialOrd for Urgent {
    fn partial_cmp(&self, other: &Urgent) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn held_queues_are_all_locked() {
        let queues: &Queues = Box::leak(Box::new(Queues::new(None, None)));
        let are_locked = || {
            [
                queues.urgent.queue.try_lock().is_err(),
                queues.surplus.queue.try_lock().is_err(),
                queues.members_only.queue.try_lock().is_err(),
            ]
        };
        let held = queues.hold();
        assert_eq!(are_locked(), [true; 3]);
        drop(held);
        assert_eq!(are_locked(), [false; 3]);
    }
}
