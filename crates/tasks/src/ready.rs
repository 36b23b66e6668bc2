//! Ready tasks: the queue that each is put into, and the order in which threads look through the queues.
//!
//! A task that becomes ready goes into the deque of the thread that made it ready. Threads without a task steal from other deques. Three
//! more queues belong to the team. Tasks with a priority, and those that probably block, are in a heap, which threads search first. Tasks
//! for which a deque had no room are in a queue that threads search after the deques. Tasks that helpers must not run are in a queue that
//! only members search, last of all.

use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

use crate::blocking::BLOCKING;
use crate::deque::Stolen;
use crate::event::Home;
use crate::queues::{Queue, Ready, Urgent, Urgents};
use crate::task::Task;
use crate::team::{Slot, Team};

/// Number of tasks that a thread runs immediately before it reads the length of its deque again.
const UNSEEN: u32 = 16;

impl Team {
    /// Returns whether this slot's deque has so many tasks that its thread should run new ones immediately.
    ///
    /// If so, the thread runs the next [`UNSEEN`] tasks without reading the deque's length again, unless another thread reports that it
    /// found no task (`hungry`). The thread refills the deque only when half of its tasks have been taken. The reason is the cost: reading
    /// the length loads the cache line that thieves write, and queueing a task costs several more such accesses. Thieves can empty the
    /// deque before the length is read again only if their tasks are much shorter than the tasks of this thread; then they find no task,
    /// and report that.
    #[inline]
    pub(crate) fn has_enough(&self, slot: &Slot) -> bool {
        let left = slot.own.left_at_once.load(Ordering::Relaxed);
        if left > 0 && !self.hungry.0.load(Ordering::Relaxed) {
            slot.own.left_at_once.store(left - 1, Ordering::Relaxed);
            return true;
        }
        self.is_full(slot)
    }

    fn is_full(&self, slot: &Slot) -> bool {
        self.hears_hungry();
        let enough = if slot.own.was_full.load(Ordering::Relaxed) { self.enough / 2 } else { self.enough };
        let full = slot.deque.len() >= enough;
        slot.own.was_full.store(full, Ordering::Relaxed);
        slot.own.left_at_once.store(if full { UNSEEN } else { 0 }, Ordering::Relaxed);
        full
    }

    /// Returns whether a thread has reported, since the last call, that it found no task.
    #[inline]
    fn hears_hungry(&self) -> bool {
        let is = self.hungry.0.load(Ordering::Relaxed);
        if is {
            self.hungry.0.store(false, Ordering::Relaxed);
        }
        is
    }

    /// Returns whether a thread has found no task, or sleeps. The answer may be outdated.
    #[inline]
    pub(crate) fn has_somebody_without_work(&self) -> bool {
        self.hears_hungry() || self.has_sleepers()
    }

    /// Puts a ready task into a queue, and wakes a sleeping thread if there is one. Called by the thread in `slot`.
    #[inline]
    pub(crate) fn put(&self, slot: &Slot, task: NonNull<Task>) {
        // SAFETY: no other thread has the task yet.
        let this = unsafe { task.as_ref() };
        let priority = this.priority.get();
        let is_urgent = priority > 0 || BLOCKING.has(this.work.get());
        if !(is_urgent && self.put_urgent(priority, Ready(task))) {
            self.put_behind(slot, task);
        }
        self.announce(task);
    }

    /// Puts a task into the deque of the calling thread, which is in `slot`, or into the surplus queue if the deque is full.
    #[inline]
    fn put_behind(&self, slot: &Slot, task: NonNull<Task>) {
        if slot.deque.push(task.as_ptr()).is_err() {
            self.put_surplus(task);
        }
    }

    /// Puts a task into the heap, which threads search before the deques. Called by the thread in `slot`. Returns false if there was no
    /// memory for that: then the task is in this thread's deque.
    #[cold]
    pub(crate) fn put_first(&self, slot: &Slot, task: NonNull<Task>) -> bool {
        // SAFETY: no other thread has the task yet.
        let is_first = self.put_urgent(unsafe { task.as_ref() }.priority.get().max(0), Ready(task));
        if !is_first {
            self.put_behind(slot, task);
        }
        self.announce(task);
        is_first
    }

    /// Moves the tasks of this slot's deque into the heap. Called when the slot's thread gives its CPU to another thread. Other tasks may
    /// wait for the moved tasks. In the deque these would be found late, because a thread searches another thread's deque only when its own
    /// is empty; all threads search the heap first.
    #[cold]
    pub(crate) fn leave_behind(&self, slot: &Slot) {
        while let Some(task) = slot.deque.pop().and_then(NonNull::new) {
            if !self.put_first(slot, task) {
                return;
            }
        }
    }

    /// Puts a task into the heap. Returns false, and does nothing, if there is no memory.
    #[cold]
    fn put_urgent(&self, priority: i32, task: Ready) -> bool {
        // SAFETY: no other thread has the task yet.
        let blocks = BLOCKING.has(unsafe { task.0.as_ref() }.work.get());
        let mut is_room = false;
        self.queues.urgent.with(|urgents| {
            is_room = urgents.heap.try_reserve(1).is_ok();
            if is_room {
                urgents.next = urgents.next.wrapping_sub(1);
                urgents.heap.push(Urgent { priority, blocks, before: urgents.next, task });
            }
            urgents.heap.len()
        });
        is_room
    }

    #[cold]
    fn put_surplus(&self, task: NonNull<Task>) {
        self.queues.surplus.with(|queue| {
            queue.push_back(Ready(task));
            queue.len()
        });
    }

    /// Puts a task that the calling thread has taken, but must not run, into the queue that only members of the team search.
    #[cold]
    pub(crate) fn put_for_members(&self, task: NonNull<Task>) {
        self.queues.members_only.with(|queue| {
            queue.push_back(Ready(task));
            queue.len()
        });
        fence(Ordering::SeqCst);
        // A member may have left its tasks to standbys and gone to sleep before this task's function was known to be for members only. If
        // a thread of another team found that out, it woke only members of its own team. So wake a member of this team here.
        self.wake_member_for(task);
    }

    /// Returns the tasks in the team's queues, without those in deques.
    pub(crate) fn queued(&self) -> Vec<NonNull<Task>> {
        let mut queued = Vec::new();
        self.queues.urgent.with(|urgents| {
            queued.extend(urgents.heap.iter().map(|urgent| urgent.task.0));
            urgents.heap.len()
        });
        for queue in [&self.queues.surplus, &self.queues.members_only] {
            queue.with(|queue| {
                queued.extend(queue.iter().map(|ready| ready.0));
                queue.len()
            });
        }
        queued
    }

    /// Takes a ready task for the thread in `slot`; with `within`, only a descendant of that task. `random`: state of the random number
    /// generator that chooses the first deque to steal from.
    #[inline]
    pub(crate) fn find(&self, slot: &Slot, within: Option<&Task>, random: &mut u32) -> Option<NonNull<Task>> {
        if !self.has_tasks() {
            return None;
        }
        if !self.queues.urgent.is_empty()
            && let Some(task) = self.take_urgent(within)
        {
            return Some(task);
        }
        let deque = &slot.deque;
        // Check the task before taking it. If it were taken and put back, it would be in no queue for a moment. Another thread, in its last
        // search before it sleeps, could miss the task at that moment.
        let fits = |within: &Task| {
            let youngest = NonNull::new(deque.youngest());
            // SAFETY: the memory of a task that has ended is not freed (`pool`), and `is_below` reads atomics only.
            youngest.is_some_and(|task| unsafe { task.as_ref() }.is_below(within))
        };
        if within.is_none_or(fits)
            && let Some(task) = deque.pop().and_then(NonNull::new)
        {
            return Some(task);
        }
        if let Some(task) = self.steal(slot, within, random).or_else(|| take_from(&self.queues.surplus, within)) {
            return Some(task);
        }
        let last = if slot.is_for_helper { None } else { take_from(&self.queues.members_only, within) };
        if last.is_none() && !self.hungry.0.load(Ordering::Relaxed) {
            self.hungry.0.store(true, Ordering::Relaxed);
        }
        last
    }

    /// Steals from other slots' deques, beginning at a random one.
    fn steal(&self, own: &Slot, within: Option<&Task>, random: &mut u32) -> Option<NonNull<Task>> {
        let members = self.members();
        *random = random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let first = ((u64::from(*random) * members.len() as u64) >> 32) as usize;
        // SAFETY: the memory of a task that has ended is not freed (`pool`), and `is_below` reads atomics only.
        let wanted = |task: *mut Task| within.is_none_or(|within| unsafe { &*task }.is_below(within));
        loop {
            let mut again = false;
            let (before, behind) = members.split_at(first);
            for victim in behind.iter().chain(before).chain(self.helpers()).filter(|victim| !ptr::eq(*victim, own)) {
                match victim.deque.steal_if(wanted) {
                    Stolen::Task(task) => return NonNull::new(task),
                    Stolen::Retry => again = true,
                    Stolen::Nothing => {}
                }
            }
            if !again {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    #[cold]
    fn take_urgent(&self, within: Option<&Task>) -> Option<NonNull<Task>> {
        let mut taken = None;
        self.queues.urgent.with(|Urgents { heap, .. }| {
            // SAFETY: a task in the heap has not ended, so it has not been freed.
            let fits = |urgent: &Urgent| within.is_none_or(|within| unsafe { urgent.task.0.as_ref() }.is_below(within));
            if heap.peek().is_some_and(fits) {
                taken = heap.pop();
            } else if heap.iter().any(fits) {
                // The wanted task is not at the top of the heap. This is rare, and takes time proportional to the heap's length.
                let mut all = std::mem::take(heap).into_sorted_vec();
                taken = all.iter().rposition(fits).map(|at| all.remove(at));
                *heap = all.into();
            }
            heap.len()
        });
        taken.map(|urgent| urgent.task.0)
    }
}

impl Home<Task> for Team {
    /// Queues a task again whose body has run and whose event has been fulfilled since. The thread that takes it only ends the task.
    #[cold]
    fn put_back(&self, task: NonNull<Task>) {
        if !self.put_urgent(i32::MAX, Ready(task)) {
            self.put_surplus(task);
        }
        self.announce(task);
    }
}

fn take_from(queue: &Queue<VecDeque<Ready>>, within: Option<&Task>) -> Option<NonNull<Task>> {
    if queue.is_empty() {
        return None;
    }
    let mut taken = None;
    queue.with(|queue| {
        // SAFETY: a task in the queue has not ended, so it has not been freed.
        let fits = |ready: &Ready| within.is_none_or(|within| unsafe { ready.0.as_ref() }.is_below(within));
        taken = queue.iter().position(fits).and_then(|at| queue.remove(at));
        queue.len()
    });
    taken.map(|ready| ready.0)
}
