//! Queues of ready tasks that a team has besides its seats' deques.

use std::collections::{BinaryHeap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::sync::{Ends, ends as ends_elsewhere};
use crate::task::Task;

/// Those of a team besides its seats' deques.
pub(crate) struct Queues {
    pub urgent: Queue<Urgents>,
    pub surplus: Queue<VecDeque<Ready>>,
    /// Ready tasks that guests must not run: of functions that ask for their thread's number.
    pub members_only: Queue<VecDeque<Ready>>,
}

impl Queues {
    /// The ends of the first two, where BPF sees them.
    pub fn new(urgent: Option<&'static Ends>, surplus: Option<&'static Ends>) -> Queues {
        Queues {
            urgent: Queue::new(Urgents::default(), urgent),
            surplus: Queue::new(VecDeque::new(), surplus),
            // BPF need not look there: who it could ring could not help.
            members_only: Queue::new(VecDeque::new(), None),
        }
    }
}

/// Behind a lock, with a length that can be seen without it.
pub(crate) struct Queue<Q> {
    /// `end` is the length: BPF may look at it.
    ends: &'static Ends,
    queue: Mutex<Q>,
}

/// A ready task in a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready(pub NonNull<Task>);

// SAFETY: whoever takes it from the queue has it alone.
unsafe impl Send for Ready {}

/// Tasks that come first.
#[derive(Default)]
pub(crate) struct Urgents {
    pub heap: BinaryHeap<Urgent>,
    /// Falls with each that comes.
    pub next: u64,
}

/// By priority; of the same, those that probably block first, and of these the oldest.
#[derive(PartialEq, Eq)]
pub(crate) struct Urgent {
    pub priority: i32,
    pub blocks: bool,
    pub before: u64,
    pub task: Ready,
}

impl<Q> Queue<Q> {
    fn new(queue: Q, ends: Option<&'static Ends>) -> Queue<Q> {
        Queue { ends: ends.unwrap_or_else(ends_elsewhere), queue: Mutex::new(queue) }
    }

    /// Whether there is anything in it, as far as can be seen without the lock.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.end.0.load(Ordering::Relaxed) == 0
    }

    /// Changes the queue; `change` says how long it is then.
    pub fn with(&self, change: impl FnOnce(&mut Q) -> usize) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
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
