//! A loop divided into tasks, its *parts*. Nearly all parts run without being created as tasks.
//!
//! A *range* is a task that stands for some parts of a loop. The thread that runs it does the parts one after the other, each in a frame
//! (`frame`), as if each had been created as a task and run immediately.
//!
//! 1. The thread that runs a range first splits off its upper half and puts that into a queue, again and again until few parts are left. It
//!    does these, and then takes the next range, which it usually finds in its own deque.
//! 2. The number of parts that counts as *few* is learned: one part at first, then as many as take `UNSEEN_NS`. No other thread can take
//!    these parts, even while the thread is blocked in one of them. So the limit bounds the work that is delayed while the thread is
//!    blocked, if all parts take about the same time.
//! 3. Parts may differ. So after each part, or after several short ones, the thread checks whether another thread has no work or sleeps, or
//!    whether a CPU is free. If so, it splits the rest of its range once more.
//!
//! A range that is split off is a child of the first range's parent, as the parts are, because only that parent may wait for it.
//!
//! *Rejected alternatives:* A shared counter from which all threads take parts. All threads would write its cache line, which costs about
//! 50 ns for each part, although the loop's own code may take only 5 ns. Or splitting only when a thread is idle (lazy binary splitting,
//! Tzannes et al., PPoPP 2010). Then the queues would have no task that BPF can see when a thread blocks.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pool::Needs;
use crate::task::{FINAL, RANGE, Task, Work};
use crate::worker::{Learned, Worker};

/// Time, ns, that a thread should take for the parts that it runs between two splits of a loop's range. A split (making a task of half of
/// the range) costs less than a tenth of this.
const UNSEEN_NS: u64 = 4000;
/// Largest number of a loop's parts that a thread runs between two splits of its range.
const MOST_UNSEEN: u64 = 256;

/// Between two splits of its range of parts, a thread checks about this many times whether other threads want work. A check loads a few
/// words that other threads write.
const QUESTIONS: u64 = 16;

/// Sequence number that the next loop which is divided into parts will get.
static LOOPS: AtomicU64 = AtomicU64::new(1);

/// A loop that is divided into parts, which run as tasks.
#[derive(Clone, Copy)]
pub struct Parts {
    /// The body of each part.
    pub work: Work,
    /// The body's arguments. Their first two words are the bounds of a part.
    pub data: *mut c_void,
    /// Size of the arguments.
    pub bytes: usize,
    /// Alignment of the arguments.
    pub align: usize,
    /// Priority of the tasks: larger values run first.
    pub priority: i32,
    /// Start of the first part.
    pub start: u64,
    /// Step from one iteration to the next.
    pub step: u64,
    /// The parts form two groups, one after the other. For each group: the number of parts, and the number of iterations of each part.
    pub sizes: [(u64, u64); 2],
}

/// The data of a range, which is a task that runs several parts of a loop. The arguments of the loop's body follow it in memory.
#[derive(Clone, Copy)]
struct Range {
    parts: Parts,
    /// Number of the loop, from [`LOOPS`].
    of: u64,
    from: u64,
    to: u64,
    /// Limit for splitting: a range with at most this many parts is not split further. A thread uses it until it has learned its own limit
    /// for this loop.
    few: u64,
}

impl Parts {
    /// Returns the number of parts.
    fn count(&self) -> u64 {
        self.sizes[0].0 + self.sizes[1].0
    }

    /// Returns the loop bound at which this part begins and the part before it ends.
    fn bound(&self, part: u64) -> u64 {
        let [(longer, first), (_, rest)] = self.sizes;
        let iterations = part.min(longer) * first + part.saturating_sub(longer) * rest;
        self.start.wrapping_add(self.step.wrapping_mul(iterations))
    }
}

impl Worker {
    /// Runs the parts of a loop as children of the current task, on this thread and on others that have no work. Other threads may still
    /// run parts when this returns. Must be called in a region, outside of final tasks.
    ///
    /// # Safety
    /// `parts` describes a loop of the program. Its field `data` points to arguments of the loop's body, with the size `bytes` and the alignment
    /// `align`, which may be copied byte by byte.
    pub unsafe fn make_parts(&self, parts: &Parts) {
        let of = LOOPS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { self.do_parts(Range { parts: *parts, of, from: 0, to: parts.count(), few: 1 }, None) };
    }

    /// Runs a range: a task that stands for several parts of a loop.
    ///
    /// # Safety
    /// `put_parts` has made the task.
    #[cold]
    pub(crate) unsafe fn run_range(&self, task: &Task) {
        // SAFETY: `put_parts` has written the range into the task's data, and the arguments of the loop's body after it.
        unsafe { self.do_parts(task.data.get().cast::<Range>().read(), Some(task)) };
    }

    /// Runs the parts of a loop that `range` contains. `task`: the task that was made for this range; `None` if the current task began the loop.
    ///
    /// # Safety
    /// The loop's body takes the arguments that the range contains, and no other thread uses these arguments.
    unsafe fn do_parts(&self, mut range: Range, task: Option<&Task>) {
        let mut few = if self.learned.get().of == range.of { self.learned.get().few } else { range.few };
        let most_between = few.div_ceil(QUESTIONS);
        if self.has_enough() {
            few = u64::MAX;
        }
        while range.to - range.from > few && self.split(&mut range, task, few) {}
        let Range { parts, of, from, .. } = range;
        // The first check whether other threads want work comes after one part: the parts may be longer than those from which `few` was
        // learned.
        let (mut part, mut between_questions, mut next_question) = (from, 1, from + 1);
        let begin_ns = umt_client::now_ns();
        while part < range.to && !self.is_cancelled() {
            if self.leaves_to_members(parts.work) {
                // This thread is a helper, and by now the function is known to ask for its thread's number: helpers must not run it. So the
                // rest of the range goes to members. If there is no memory for a new task, this helper continues.
                range.from = part;
                if self.put_parts(&range, task, part, if few == u64::MAX { 1 } else { few }, true) {
                    return;
                }
            }
            // SAFETY: guaranteed by the caller: the arguments begin with the bounds.
            unsafe {
                parts.data.cast::<[u64; 2]>().write([parts.bound(part), parts.bound(part + 1)]);
                self.run_in_frame(parts.work, parts.data);
            }
            part += 1;
            if part == next_question {
                between_questions = most_between.min(2 * between_questions);
                next_question += between_questions;
                if part < range.to && self.somebody_wants_work() {
                    range.from = part;
                    self.split(&mut range, task, 1);
                }
            }
        }
        let each_ns = (umt_client::now_ns() - begin_ns) / (part - from).max(1);
        few = (UNSEEN_NS / each_ns.max(1)).clamp(1, (part - from).saturating_mul(2).clamp(1, MOST_UNSEEN));
        self.learned.set(Learned { of, few });
    }

    /// Returns whether another thread wants work, so that parts should be put into a queue.
    fn somebody_wants_work(&self) -> bool {
        self.team().is_some_and(|team| team.has_somebody_without_work()) || umt_client::wants_more()
    }

    /// Splits off the upper half of `range` (several parts of a loop) and queues it as a task; if the range has a single part, queues that.
    /// `task`: the task that was made for the range, or `None`. `few`: limit for further splits of the new task's range. Returns false if there
    /// was no memory.
    fn split(&self, range: &mut Range, task: Option<&Task>, few: u64) -> bool {
        let middle = range.from + (range.to - range.from) / 2;
        let done = self.put_parts(range, task, middle, few, false);
        if done {
            range.to = middle;
        }
        done
    }

    /// Makes a task of the loop's parts from number `from` to the end of `range`, and queues it; with `for_members`, in the queue that only
    /// members search. `task`: the task that was made for `range`; `None` if the current task began the loop. `few`: limit for further splits
    /// of the new task's range. Returns false if there was no memory.
    fn put_parts(&self, range: &Range, task: Option<&Task>, from: u64, few: u64, for_members: bool) -> bool {
        let (Some((team, slot)), Some(present)) = (self.place(), self.current()) else { return false };
        let parts = &range.parts;
        let align = parts.align.max(align_of::<Range>());
        let data_at = size_of::<Range>().next_multiple_of(align);
        let parent = match task {
            // SAFETY: a parent's memory is not freed before all its children have ended, and its child `task` still runs.
            Some(task) => unsafe { task.parent.load(Ordering::Relaxed).as_ref() }.unwrap_or(present),
            None => present,
        };
        let Some(made) = self.pool.make(parts.work, parent, Needs { bytes: data_at + parts.bytes, align, edges: 0 })
        else {
            return false;
        };
        // SAFETY: the memory has room for the range and the arguments, and is aligned for both.
        unsafe {
            let data = made.arguments.byte_add(data_at);
            ptr::copy_nonoverlapping(parts.data.cast::<u8>(), data.cast(), parts.bytes);
            let parts = Parts { data, ..*parts };
            made.arguments.cast::<Range>().write(Range { parts, from, few, ..*range });
        }
        // SAFETY: the task has just been made, so it is valid.
        let new = unsafe { made.task.as_ref() };
        match task {
            Some(task) => self.becomes_sibling(new, task, parent),
            None => self.becomes_child(new, parent),
        }
        new.priority.set(parts.priority);
        new.flags.set(new.flags.get() | RANGE);
        if for_members {
            team.put_for_members(made.task);
        } else {
            team.put(slot, made.task);
        }
        true
    }

    /// Makes a new task a sibling of `task`, which runs on this thread: a child of the same parent, in the same taskgroup. Also counts the new
    /// task.
    fn becomes_sibling(&self, new: &Task, task: &Task, parent: &Task) {
        new.depth.store(task.depth.load(Ordering::Relaxed), Ordering::Relaxed);
        new.flags.set(task.flags.get() & FINAL);
        new.group.set(task.group.get());
        // The control variables are copied from `task`, not from the parent. The parent may have changed its variables since `task` was
        // created; and if the parent runs on another thread, that thread may be changing them now.
        self.inherit_icvs(new, task);
        // Count the new task as an unfinished child. Until then `task` is an unfinished child of the same parent. So the parent's count cannot
        // reach zero before this: the parent neither stops waiting nor is freed.
        if parent.own.slot.load(Ordering::Relaxed) == self.thread {
            parent.own.made.set(parent.own.made.get().wrapping_add(1));
        } else {
            parent.others.tally.expect_one();
        }
        // SAFETY: the group stays valid until all its tasks have ended.
        if let Some(group) = unsafe { task.group.get().as_ref() } {
            group.tally.expect_one();
        }
        if let Some((_, slot)) = self.place() {
            slot.has_made();
        }
    }
}
