//! A loop divided into tasks, its *parts*, of which nearly none need be made.
//!
//! A *range* is a task that stands for some parts of a loop and does them one after the other, each in a frame (`frame`), as if it had been made
//! and done at once.
//!
//! 1. Who has a range first splits its upper half off, and puts that where others find it, until few parts are left; does these, and finds
//!    the next range where he has put it.
//! 2. How many are *few* is learned: one at the beginning, then as many as take `UNSEEN_NS`. Nobody else can have them meanwhile, also
//!    while their thread is blocked in one of them; so this bounds what is held up by that, as far as parts are alike.
//! 3. They are not always. So between two parts, or every few if they are short, he asks whether somebody has found nothing to do, or sleeps, or a
//!    CPU is free, and then splits what he has left once more.
//!
//! What is split off is a child of the range's parent, as parts are: it may be waited for by that one alone.
//!
//! *Turned down:* a counter that all take parts from, which sees every part, and is one line that all write (some 50 ns for each part, where
//! the loop's own code takes 5); splitting in halves only when somebody is idle (lazy binary splitting, Tzannes et al., PPoPP 2010), which
//! leaves nothing to be found for BPF when a thread blocks.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::learned::Learned;
use crate::pool::Needs;
use crate::task::{FINAL, RANGE, Task};
use crate::work::Work;
use crate::worker::Worker;

/// What the parts that are done without another look should take. A task that is split off costs less than a tenth of this.
const UNSEEN_NS: u64 = 4000;
/// The most of them.
const MOST_UNSEEN: u64 = 256;

/// How often somebody may ask for more meanwhile: a question is a few loads of what others write.
const QUESTIONS: u64 = 16;

/// Loops that there have been.
static LOOPS: AtomicU64 = AtomicU64::new(1);

/// A loop's parts.
#[derive(Clone, Copy)]
pub struct Parts {
    /// The body of each.
    pub work: Work,
    /// Its arguments, of which the first two words are the bounds of a part.
    pub data: *mut c_void,
    /// Size of the arguments.
    pub bytes: usize,
    /// Their alignment.
    pub align: usize,
    /// Larger is sooner.
    pub priority: i32,
    /// Where the first part begins.
    pub start: u64,
    /// From one iteration to the next.
    pub step: u64,
    /// So many parts of so many iterations, and behind them so many of so many others.
    pub sizes: [(u64, u64); 2],
}

/// The data of a range: behind it lie the arguments.
#[derive(Clone, Copy)]
struct Range {
    parts: Parts,
    /// Which loop, by [`LOOPS`].
    of: u64,
    from: u64,
    to: u64,
    /// How many were few when it was split off.
    few: u64,
}

impl Parts {
    /// How many there are.
    fn count(&self) -> u64 {
        self.sizes[0].0 + self.sizes[1].0
    }

    /// Where a part begins, and that before it ends.
    fn bound(&self, part: u64) -> u64 {
        let [(longer, first), (_, rest)] = self.sizes;
        let iterations = part.min(longer) * first + part.saturating_sub(longer) * rest;
        self.start.wrapping_add(self.step.wrapping_mul(iterations))
    }
}

impl Worker {
    /// Has the parts of a loop done, by this thread and whoever has time, as children of the present task. Others may still be at it when this
    /// comes back. In a region, and in no final task.
    ///
    /// # Safety
    /// `parts` describes a loop as the compiler does: a body that takes such arguments, copied byte by byte.
    pub unsafe fn make_parts(&self, parts: &Parts) {
        let of = LOOPS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.do_parts(Range { parts: *parts, of, from: 0, to: parts.count(), few: 1 }, None) };
    }

    /// Runs a range's parts.
    ///
    /// # Safety
    /// A task that `put_parts` has made.
    #[cold]
    pub(crate) unsafe fn run_range(&self, task: &Task) {
        // SAFETY: written by `put_parts`, with the arguments behind it.
        unsafe { self.do_parts(task.data.get().cast::<Range>().read(), Some(task)) };
    }

    /// Does a range, of the present task if it has no task of its own.
    ///
    /// # Safety
    /// As the compiler describes it; nobody else uses the arguments.
    unsafe fn do_parts(&self, mut range: Range, task: Option<&Task>) {
        let mut few = if self.learned.get().of == range.of { self.learned.get().few } else { range.few };
        let most_between = few.div_ceil(QUESTIONS);
        if self.has_enough() {
            few = u64::MAX;
        }
        while range.to - range.from > few && self.split(&mut range, task, few) {}
        let Range { parts, of, from, .. } = range;
        // Soon at first: parts may be longer than those that it was learned from.
        let (mut part, mut between_questions, mut next_question) = (from, 1, from + 1);
        let begin_ns = signal::now_ns();
        while part < range.to && !self.is_cancelled() {
            if self.leaves_to_members(parts.work) {
                // Found out by the first parts: not for guests. Without memory it has to do.
                range.from = part;
                if self.put_parts(&range, task, part, if few == u64::MAX { 1 } else { few }, true) {
                    return;
                }
            }
            // SAFETY: the caller's promise: the arguments begin with the bounds.
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
        let each_ns = (signal::now_ns() - begin_ns) / (part - from).max(1);
        few = (UNSEEN_NS / each_ns.max(1)).clamp(1, (part - from).saturating_mul(2).clamp(1, MOST_UNSEEN));
        self.learned.set(Learned { of, few });
    }

    /// Whether parts that nobody can find should be found.
    fn somebody_wants_work(&self) -> bool {
        self.team().is_some_and(|team| team.has_somebody_without_work()) || signal::wants_more()
    }

    /// Splits a range's upper half off, or all of a single part. Whether it did: there was memory.
    fn split(&self, range: &mut Range, task: Option<&Task>, few: u64) -> bool {
        let middle = range.from + (range.to - range.from) / 2;
        let done = self.put_parts(range, task, middle, few, false);
        if done {
            range.to = middle;
        }
        done
    }

    /// Puts the parts from `from` on where others find them. `task`: the range's own.
    fn put_parts(&self, range: &Range, task: Option<&Task>, from: u64, few: u64, for_members: bool) -> bool {
        let (Some((team, seat)), Some(present)) = (self.place(), self.current()) else { return false };
        let parts = &range.parts;
        let align = parts.align.max(align_of::<Range>());
        let data_at = size_of::<Range>().next_multiple_of(align);
        let parent = match task {
            // SAFETY: a parent's memory stays until all its children, of which the range is one, have ended.
            Some(task) => unsafe { task.parent.load(Ordering::Relaxed).as_ref() }.unwrap_or(present),
            None => present,
        };
        let Some(made) = self.pool.make(parts.work, parent, Needs { bytes: data_at + parts.bytes, align, edges: 0 })
        else {
            return false;
        };
        // SAFETY: room for both, aligned for both.
        unsafe {
            let data = made.arguments.byte_add(data_at);
            ptr::copy_nonoverlapping(parts.data.cast::<u8>(), data.cast(), parts.bytes);
            let parts = Parts { data, ..*parts };
            made.arguments.cast::<Range>().write(Range { parts, from, few, ..*range });
        }
        // SAFETY: just made.
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
            team.put(seat, made.task);
        }
        true
    }

    /// A task that was just made is a child of the parent of the task that runs here, in its group, and counts.
    fn becomes_sibling(&self, new: &Task, task: &Task, parent: &Task) {
        new.depth.store(task.depth.load(Ordering::Relaxed), Ordering::Relaxed);
        new.flags.set(task.flags.get() & FINAL);
        new.group.set(task.group.get());
        // The parent may have other values by now, and run elsewhere.
        self.inherit_icvs(new, task);
        // The task has not ended, so the count of what the parent waits for cannot come to its end meanwhile.
        if parent.own.seat.load(Ordering::Relaxed) == self.thread {
            parent.own.made.set(parent.own.made.get().wrapping_add(1));
        } else {
            parent.others.tally.expect_one();
        }
        // SAFETY: not over before all its tasks are.
        if let Some(group) = unsafe { task.group.get().as_ref() } {
            group.tally.expect_one();
        }
        if let Some((_, seat)) = self.place() {
            seat.has_made();
        }
    }
}
