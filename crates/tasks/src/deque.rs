//! Ready tasks of one slot (one thread's place in a team): the thread in the slot, the owner, pushes and pops at the bottom. All other
//! threads steal at the top.
//!
//! The deque of Chase and Lev (SPAA 2005) with the memory orders of Lê, Pop, Cohen and Zappa Nardelli (PPoPP 2013), on a ring that does not
//! grow. It need not grow, because a thread whose deque has enough tasks runs new ones immediately (`ready`), as other OpenMP runtimes do.
//! With a fixed ring, stealing needs no memory reclamation.
//!
//! 1. The owner writes the ring slot, then `bottom`: a thread that sees the new bottom also sees the task.
//! 2. The owner takes a task by lowering `bottom` first and reading `top` afterwards. A thief reads `top` first and `bottom` afterwards.
//!    Both have a full fence in between, so at least one of them sees that they want the same last task.
//! 3. The thread that increments `top` by compare-and-swap owns the task that was at the top. `top` never falls. So whatever a thief has
//!    read of the ring slot and of the task *before* its successful swap was still true at the swap: no thread had taken the task, so none
//!    had run or freed it. This lets a thief look at a task before it takes it ([`Deque::steal_if`]).

use crate::sync::{AtomicPtr, Ends, Ordering, fence};

/// Number of ring slots of a deque. This many ready tasks are enough for thieves.
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 1024 };

/// A work-stealing deque of at most `N` pointers, `N` a power of two.
pub struct Deque<T, const N: usize = CAPACITY> {
    /// The deque's two positions: `begin` is the top, which thieves increment, and `end` is the bottom. They may lie in memory that BPF can
    /// read.
    ends: &'static Ends,
    ring: [AtomicPtr<T>; N],
}

/// The result of an attempt to steal.
#[derive(Debug, PartialEq, Eq)]
pub enum Stolen<T> {
    /// A task, which belongs to the thief now.
    Task(*mut T),
    /// The deque was empty, or `wanted` refused the task.
    Nothing,
    /// Another thread took the task first. There may be more tasks.
    Retry,
}

impl<T, const N: usize> Deque<T, N> {
    /// Makes an empty deque. `ends`: memory for its two positions, which no other queue uses. The two must be equal: the queue is empty.
    pub fn new(ends: &'static Ends) -> Deque<T, N> {
        assert!(N.is_power_of_two());
        Deque { ends, ring: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())) }
    }

    fn slot(&self, at: i64) -> &AtomicPtr<T> {
        &self.ring[at as usize & (N - 1)]
    }

    /// Returns the number of tasks. The answer may be outdated.
    #[inline]
    pub fn len(&self) -> usize {
        let bottom = self.ends.end.0.load(Ordering::Relaxed);
        (bottom - self.ends.begin.0.load(Ordering::Relaxed)).max(0) as usize
    }

    /// Puts a task at the bottom. Called by the owner only.
    ///
    /// # Errors
    /// Returns the task if there is no room.
    #[inline]
    pub fn push(&self, task: *mut T) -> Result<(), *mut T> {
        let bottom = self.ends.end.0.load(Ordering::Relaxed);
        let top = self.ends.begin.0.load(Ordering::Acquire);
        if bottom - top >= N as i64 {
            return Err(task);
        }
        self.slot(bottom).store(task, Ordering::Relaxed);
        self.ends.end.0.store(bottom + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the task that was pushed last. Called by the owner only.
    #[inline]
    pub fn pop(&self) -> Option<*mut T> {
        let bottom = self.ends.end.0.load(Ordering::Relaxed) - 1;
        // Without this check, each look at an empty deque would cost a fence.
        if self.ends.begin.0.load(Ordering::Relaxed) > bottom {
            return None;
        }
        // Every store to `bottom` is a Release store, not only that of `push`: a thief that reads the value stored here must also see the
        // tasks that earlier calls of `push` have written to the ring.
        self.ends.end.0.store(bottom, Ordering::Release);
        fence(Ordering::SeqCst);
        let top = self.ends.begin.0.load(Ordering::Relaxed);
        if top > bottom {
            self.ends.end.0.store(bottom + 1, Ordering::Release);
            return None;
        }
        let task = self.slot(bottom).load(Ordering::Relaxed);
        if top < bottom {
            return Some(task);
        }
        // The last task: thieves may be taking it.
        let won = self.ends.begin.0.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        self.ends.end.0.store(bottom + 1, Ordering::Release);
        won.then_some(task)
    }

    /// Takes the oldest task if `wanted` returns true for it. Any thread may call this.
    ///
    /// While `wanted` looks at the task, other threads may take the task, run it and reuse its memory. So `wanted` must read only atomics of
    /// the task, and must terminate whatever it reads. Its answer counts only if no other thread took the task before this thread's
    /// compare-and-swap.
    #[inline]
    pub fn steal_if(&self, wanted: impl FnOnce(*mut T) -> bool) -> Stolen<T> {
        let top = self.ends.begin.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let bottom = self.ends.end.0.load(Ordering::Acquire);
        if top >= bottom {
            return Stolen::Nothing;
        }
        let task = self.slot(top).load(Ordering::Relaxed);
        if !wanted(task) {
            return Stolen::Nothing;
        }
        match self.ends.begin.0.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Stolen::Task(task),
            Err(_) => Stolen::Retry,
        }
    }

    /// Returns the youngest task, or null if there is none. Another thread may take it meanwhile. Called by the owner only.
    #[inline]
    pub fn youngest(&self) -> *mut T {
        let bottom = self.ends.end.0.load(Ordering::Relaxed);
        let top = self.ends.begin.0.load(Ordering::Relaxed);
        if top < bottom { self.slot(bottom - 1).load(Ordering::Relaxed) } else { std::ptr::null_mut() }
    }

    /// Returns the oldest task, or null if there was none. Another thread may have taken it by now.
    pub fn oldest(&self) -> *mut T {
        let top = self.ends.begin.0.load(Ordering::Acquire);
        let bottom = self.ends.end.0.load(Ordering::Acquire);
        if top < bottom { self.slot(top).load(Ordering::Relaxed) } else { std::ptr::null_mut() }
    }
}

#[cfg(test)]
impl<T, const N: usize> Default for Deque<T, N> {
    fn default() -> Deque<T, N> {
        Deque::new(crate::sync::ends())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    fn task(number: usize) -> *mut u8 {
        std::ptr::without_provenance_mut(number)
    }

    #[test]
    fn the_owner_takes_the_youngest_and_a_thief_the_oldest() {
        let deque: Deque<u8, 8> = Deque::default();
        (1..=3).for_each(|number| deque.push(task(number)).unwrap());
        assert_eq!(deque.len(), 3);
        assert_eq!(deque.steal_if(|_| true), Stolen::Task(task(1)));
        assert_eq!(deque.pop(), Some(task(3)));
        assert_eq!(deque.pop(), Some(task(2)));
        assert_eq!((deque.pop(), deque.steal_if(|_| true)), (None, Stolen::Nothing));
        assert_eq!(deque.len(), 0);
    }

    #[test]
    fn a_full_one_gives_the_task_back() {
        let deque: Deque<u8, 4> = Deque::default();
        (1..=4).for_each(|number| deque.push(task(number)).unwrap());
        assert_eq!(deque.push(task(5)), Err(task(5)));
        assert_eq!(deque.steal_if(|_| true), Stolen::Task(task(1)));
        deque.push(task(5)).unwrap();
        assert_eq!((2..=5).map(|_| deque.pop()).collect::<Vec<_>>(), [5, 4, 3, 2].map(|number| Some(task(number))));
    }

    #[test]
    fn a_thief_may_leave_what_it_does_not_want() {
        let deque: Deque<u8, 4> = Deque::default();
        deque.push(task(7)).unwrap();
        assert_eq!(deque.steal_if(|seen| seen != task(7)), Stolen::Nothing);
        assert_eq!(deque.steal_if(|seen| seen == task(7)), Stolen::Task(task(7)));
    }

    #[test]
    fn everything_is_taken_once() {
        const TASKS: usize = if cfg!(miri) { 300 } else { 200_000 };
        let deque: Arc<Deque<AtomicUsize, 16>> = Arc::default();
        let taken: Arc<Vec<AtomicUsize>> = Arc::new((0..TASKS).map(|_| AtomicUsize::new(0)).collect());
        let over = Arc::new(AtomicBool::new(false));
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                let (deque, over) = (deque.clone(), over.clone());
                std::thread::spawn(move || {
                    let mut stolen = 0;
                    while !over.load(Ordering::Acquire) || deque.len() > 0 {
                        if let Stolen::Task(task) = deque.steal_if(|_| true) {
                            // SAFETY: `task` points into `taken`, which outlives the threads.
                            unsafe { (*task).fetch_add(1, Ordering::Relaxed) };
                            stolen += 1;
                        }
                    }
                    stolen
                })
            })
            .collect();
        for (number, task) in taken.iter().enumerate() {
            if deque.push(std::ptr::from_ref(task).cast_mut()).is_err() {
                task.fetch_add(1, Ordering::Relaxed);
            }
            if number % 3 == 0 {
                // SAFETY: `task` points into `taken`, which outlives the threads.
                deque.pop().into_iter().for_each(|task| unsafe { _ = (*task).fetch_add(1, Ordering::Relaxed) });
            }
        }
        over.store(true, Ordering::Release);
        let stolen: usize = thieves.into_iter().map(|thief| thief.join().unwrap()).sum();
        assert!(taken.iter().all(|task| task.load(Ordering::Relaxed) == 1));
        assert!(stolen > 0, "nobody ever stole: this has shown nothing");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::explore;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// An owner pushes `pushes` tasks and pops as many, while each thief tries to steal one task.
    fn each_once(pushes: usize, thieves: usize) {
        explore(move || {
            let deque: Arc<Deque<AtomicUsize, 2>> = Arc::default();
            let tasks: Vec<*mut AtomicUsize> =
                (0..pushes).map(|_| Box::into_raw(Box::new(AtomicUsize::new(0)))).collect();
            let take = |task: *mut AtomicUsize| {
                // SAFETY: the tasks are freed only at the end of this function.
                unsafe { (*task).fetch_add(1, Ordering::Relaxed) };
            };
            let thieves: Vec<_> = (0..thieves)
                .map(|_| {
                    let deque = deque.clone();
                    loom::thread::spawn(move || {
                        if let Stolen::Task(task) = deque.steal_if(|_| true) {
                            take(task);
                        }
                    })
                })
                .collect();
            for task in &tasks {
                deque.push(*task).unwrap();
            }
            for _ in 0..pushes {
                deque.pop().into_iter().for_each(take);
            }
            thieves.into_iter().for_each(|thief| thief.join().unwrap());
            assert_eq!(deque.len(), 0);
            for task in tasks {
                // SAFETY: the task was made above by `Box::into_raw`, and all other threads have ended.
                let task = unsafe { Box::from_raw(task) };
                assert_eq!(task.load(Ordering::Relaxed), 1);
            }
        });
    }

    #[test]
    fn the_last_task_is_taken_once() {
        each_once(1, 2);
    }

    #[test]
    fn two_tasks_are_taken_once_each() {
        each_once(2, 1);
        each_once(2, 2);
    }
}
