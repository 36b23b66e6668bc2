//! A team: threads that share their ready tasks and meet at barriers.
//!
//! **Slots.** Each thread that runs the team's tasks has a slot (`Slot`): a member has a member's slot, any other thread a helper slot.
//! Each slot has a deque of ready tasks (`ready`). The module `sleep` implements sleeping and waking; `barrier` implements barriers and the
//! ends of regions.
//!
//! Teams are never freed: a helper may read a team at any time, without a lock.

mod barrier;
mod sleep;

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use wire::umt::Apart;

use crate::asking::somebody_asks;
use crate::biased_lock::BiasedLock;
use crate::deque::{CAPACITY, Deque};
use crate::icv::kept::OfRegion;
use crate::nesting::{Common, Nesting};
pub use crate::queues::HeldQueues;
use crate::queues::Queues;
use crate::spare::boxed;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ends, Ordering, ends as ends_elsewhere, shared_ends};
use crate::task::{NOBODY, Task, nothing};

/// The slot of one thread in a team. The words that its own thread writes for each task (`own`) are on cache lines of their own, because
/// thieves often read the other words.
#[repr(C, align(128))]
pub struct Slot {
    /// The slot's number: members' slots come first, then helper slots.
    pub(crate) number: u32,
    pub(crate) is_for_helper: bool,
    /// The thread that has this slot: its number among all threads that run tasks.
    pub(crate) thread: AtomicU32,
    /// While the thread sleeps: the task whose descendants it accepts. Null: it accepts any task.
    sleeps_in: AtomicPtr<Task>,
    pub(crate) deque: Deque<Task>,
    pub(crate) own: SlotState,
    /// The member's implicit task.
    pub(crate) implicit: Task,
}

/// State of the slot's own thread.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct SlotState {
    /// Number of tasks that the threads in this slot have created since the team was made.
    made: AtomicU64,
    /// Number of tasks that the threads in this slot have ended since the team was made.
    ended: AtomicU64,
    /// Number of new tasks that the thread may still run immediately, instead of queueing them. At 0 it reads the length of its deque again;
    /// see `ready`.
    pub left_at_once: AtomicU32,
    /// Whether the deque had enough tasks when the thread last read its length.
    pub was_full: AtomicBool,
    /// Whether a task holds this slot's thread number; see `number`.
    pub number_is_held: BiasedLock,
    /// Number of the barrier at which this member arrived last, plus one.
    came_to: AtomicU64,
}

/// Number of helper slots, for threads from outside the team. `idle` has one bit for each slot: helper slots have the last word, and
/// members' slots have the words before it. So the first helper slot has the number 64 × (length of `idle` − 1).
const HELPERS: usize = wire::umt::STANDBYS_AT_MOST as usize;

/// A team; see the module's documentation. Words that are written at every barrier or task are not on the same cache lines as words that
/// are only read there.
pub struct Team {
    slots: Box<[Slot]>,
    helpers: [OnceLock<Box<Slot>>; HELPERS],
    /// One bit for each helper slot (slot of a thread that is no member), set while a thread has it.
    helpers_here: AtomicU64,
    /// One more than the highest index of a helper slot that was ever used; 0 if none was.
    helpers_ever: AtomicU32,
    /// Number of members of the current region. They have the first slots.
    size: AtomicU32,
    /// Number of the last barrier of a cancelled region, plus one; 0 if the region is not cancelled.
    cancelled: AtomicU64,
    /// Whether a task was made since the region began.
    has_tasks: AtomicU32,
    /// Whether the region has tasks that only members may run. If so, no member leaves its tasks to standbys (additional threads, which are
    /// not members).
    needs_members: AtomicBool,
    /// Whether the region ends without a barrier: members that arrive at its end wait only while tasks are left, and other members may
    /// already have left the region.
    lets_go: AtomicBool,
    /// One bit for each slot, set while the slot's thread sleeps or is about to sleep; see `sleep`.
    idle: Box<[AtomicU64]>,
    /// Whether a region uses the team, or is about to. Written once per region; members never read it.
    in_use: Apart<AtomicBool>,
    pub(crate) meeting: Apart<Meeting>,
    pub(crate) generation: Apart<AtomicU32>,
    /// Set by a thread that looks for a task and finds none. A thread that creates tasks reads and clears it.
    pub(crate) hungry: Apart<AtomicBool>,
    /// A placeholder task that never has descendants. A sleeping thread that accepts only descendants of this task is therefore never woken
    /// to run a task.
    nobodys: Task,
    pub(crate) queues: Queues,
    /// Whether BPF can read the lengths of all queues of the team.
    is_shared: AtomicBool,
    /// Control variables with which the region began.
    pub(crate) icvs: OfRegion,
    /// The regions that enclose the team's region; null if it is the outermost region. The region's threads may read them, and helpers
    /// while they run its tasks.
    around: AtomicPtr<Nesting<Team>>,
    /// Values that the region and all regions within it share.
    pub common: Common,
    /// If a slot's deque has at least this many tasks, the slot's thread runs new tasks immediately instead of queueing them.
    pub(crate) enough: usize,
}

/// Words that members write when they arrive at a barrier.
#[derive(Default)]
pub(crate) struct Meeting {
    arrived: AtomicU32,
    /// Number of the current barrier. Several threads may find that the barrier can be passed. The one that increments this word lets the
    /// members pass.
    passing: AtomicU32,
    /// If the region ends [without a barrier](Team::lets_go): number of members that wait at its end until no task is left.
    pub staying: AtomicU32,
}

impl Slot {
    fn new(number: u32, is_for_helper: bool, ends: Option<&'static Ends>) -> Slot {
        Slot {
            number,
            is_for_helper,
            thread: AtomicU32::new(NOBODY),
            sleeps_in: AtomicPtr::new(ptr::null_mut()),
            deque: Deque::new(ends.unwrap_or_else(ends_elsewhere)),
            own: SlotState::default(),
            implicit: Task::new(nothing, ptr::null_mut(), ptr::null()),
        }
    }

    /// Counts a task that the slot's thread has created. Only that thread calls this.
    #[inline]
    pub(crate) fn has_made(&self) {
        self.own.made.store(self.own.made.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a task that the slot's thread has ended. Only that thread calls this.
    #[inline]
    pub(crate) fn has_ended(&self) {
        // Release: a thread that sees this count also sees what the task did.
        self.own.ended.store(self.own.ended.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// Returns its argument: whether BPF can read the queues. If BPF cannot, although the session notices blocked threads, counts this for the
/// report.
fn shares(shared: bool) -> bool {
    if !shared && umt_client::is_live() {
        umt_client::program_page().counts.0.unshared.fetch_add(1, Ordering::Relaxed);
    }
    shared
}

impl Team {
    /// Makes a team with this number of members' slots, and no members yet.
    pub fn new(slots: u32) -> Team {
        let ends = shared_ends(slots + 2);
        let end = |number: u32| ends.and_then(|ends| ends.get(number as usize));
        let words = slots.div_ceil(64);
        Team {
            slots: (0..slots).map(|number| Slot::new(number, false, end(number))).collect(),
            helpers: [const { OnceLock::new() }; HELPERS],
            helpers_here: AtomicU64::new(0),
            helpers_ever: AtomicU32::new(0),
            size: AtomicU32::new(0),
            cancelled: AtomicU64::new(0),
            has_tasks: AtomicU32::new(0),
            needs_members: AtomicBool::new(false),
            lets_go: AtomicBool::new(false),
            idle: (0..=words).map(|_| AtomicU64::new(0)).collect(),
            in_use: Apart(AtomicBool::new(false)),
            meeting: Apart(Meeting::default()),
            generation: Apart(AtomicU32::new(0)),
            nobodys: Task::new(nothing, ptr::null_mut(), ptr::null()),
            queues: Queues::new(end(slots), end(slots + 1)),
            is_shared: AtomicBool::new(shares(ends.is_some())),
            icvs: OfRegion::default(),
            around: AtomicPtr::new(ptr::null_mut()),
            common: Common::default(),
            enough: (64 * slots as usize).min(CAPACITY),
            hungry: Apart(AtomicBool::new(false)),
        }
    }

    /// Returns the number of members' slots.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of members of the current region.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// Takes the locks on the team's queues: see [`forking`](crate::forking).
    #[must_use]
    pub fn hold_queues(&'static self) -> HeldQueues {
        self.queues.hold()
    }

    /// Prepares the team for a region. No thread may be in another region of this team. With `has_none` the region probably has no tasks:
    /// then its [end](crate::worker::Worker::end_region) is no barrier.
    pub fn begin(&self, has_none: bool) {
        // All members often read these words, and a write makes each of them fetch the cache line again. So a word is written only if its
        // value changes.
        if self.has_tasks() {
            self.has_tasks.store(0, Ordering::Relaxed);
        }
        if self.is_cancelled() {
            // Members that the cancellation released from a barrier are still counted as arrived. If the region ended without a barrier, no
            // thread has passed that barrier. So it is passed here, which resets the count of arrived members.
            let generation = self.generation();
            self.pass(generation);
            while !self.has_passed(generation) {
                // A helper whose last task ended late may be executing `pass` for the same barrier: wait until it has finished.
                std::hint::spin_loop();
            }
            self.cancelled.store(0, Ordering::Relaxed);
        }
        if self.needs_members.load(Ordering::Relaxed) {
            self.needs_members.store(false, Ordering::Relaxed);
        }
        if self.lets_go.load(Ordering::Relaxed) != has_none {
            self.lets_go.store(has_none, Ordering::Relaxed);
        }
    }

    /// Sets the regions that enclose the region that begins. Must be called before the region has tasks.
    ///
    /// # Safety
    /// `around` stays valid until the region is over.
    pub unsafe fn is_within(&self, around: Option<&Nesting<Team>>) {
        let around = around.map_or(ptr::null(), ptr::from_ref).cast_mut();
        if self.around.load(Ordering::Relaxed) != around {
            self.around.store(around, Ordering::Release);
        }
    }

    /// Returns the regions that enclose the team's region. Only threads of the region may call this, and helpers while they run its tasks.
    pub fn around(&self) -> Option<&Nesting<Team>> {
        // SAFETY: the pointer is null, or valid until the region is over. The calling thread leaves the region before that.
        unsafe { self.around.load(Ordering::Acquire).as_ref() }
    }

    /// Returns whether a region uses the team. The answer may be outdated.
    pub fn is_in_use(&self) -> bool {
        self.in_use.0.load(Ordering::Relaxed)
    }

    /// Takes the team for a region, if no other region uses it. Returns whether the team was taken.
    #[must_use]
    pub fn claim(&self) -> bool {
        !self.is_in_use() && !self.in_use.0.swap(true, Ordering::Acquire)
    }

    /// Gives the team back: its region is over.
    pub fn release(&self) {
        self.in_use.0.store(false, Ordering::Release);
    }

    /// Sets the number of members of the region. Each member calls it before it [enters](crate::worker::Worker::enter).
    pub fn has_members(&self, size: u32) {
        let size = size.min(self.slots());
        if self.size() != size {
            self.size.store(size, Ordering::Relaxed);
        }
    }

    /// Returns the slots of the current region's members.
    pub(crate) fn members(&self) -> &[Slot] {
        &self.slots[..self.size() as usize]
    }

    /// Returns the slot of the member with this number, if there is one.
    pub(crate) fn member(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number as usize)
    }

    /// Returns the slot of the member with this number. Panics if there is none.
    pub(crate) fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize]
    }

    /// Takes a helper slot for a thread that is no member. `None`: all are taken, or there is no memory for another.
    pub(crate) fn take_helper_slot(&self) -> Option<&Slot> {
        let here = self
            .helpers_here
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |here| (here != u64::MAX).then(|| here | (here + 1)));
        let at = here.ok()?.trailing_ones();
        let first = (self.idle.len() - 1) as u32 * 64;
        let place = &self.helpers[at as usize];
        // This thread has set the slot's bit, so no other thread creates this slot at the same time.
        if place.get().is_none() {
            let new = boxed(|| {
                let ends = shared_ends(1).and_then(|ends| ends.first());
                if !shares(ends.is_some()) {
                    self.is_shared.store(false, Ordering::Relaxed);
                }
                Slot::new(first + at, true, ends)
            });
            let _ = new.map(|slot| place.set(slot));
        }
        let Some(slot) = place.get() else {
            self.helpers_here.fetch_and(!(1 << at), Ordering::AcqRel);
            return None;
        };
        self.helpers_ever.fetch_max(at + 1, Ordering::AcqRel);
        Some(slot)
    }

    /// Gives a helper slot back.
    pub(crate) fn give_helper_slot_back(&self, slot: &Slot) {
        self.helpers_here.fetch_and(!(1 << (slot.number % 64)), Ordering::AcqRel);
    }

    /// Returns the slot to which a bit of `idle` belongs; `idle` has one bit for each slot.
    fn slot_of_bit(&self, word: usize, bit: u32) -> Option<&Slot> {
        if word + 1 < self.idle.len() {
            self.slots.get(word * 64 + bit as usize)
        } else {
            self.helpers[bit as usize].get().map(|slot| &**slot)
        }
    }

    /// Returns the helper slots that were ever used.
    pub(crate) fn helpers(&self) -> impl Iterator<Item = &Slot> {
        let ever = self.helpers_ever.load(Ordering::Acquire) as usize;
        self.helpers[..ever].iter().filter_map(|slot| slot.get().map(|slot| &**slot))
    }

    /// Called when a task is about to be created. If the region has no task yet, calls `first`, before the task is published. Two members
    /// may do this at the same time.
    #[inline]
    pub(crate) fn note_task(&self, first: impl FnOnce()) {
        // Acquire: if another member has already called `first`, this thread sees the writes of that call, and so does every thread that
        // finds this thread's task.
        if self.has_tasks.load(Ordering::Acquire) == 0 {
            first();
            self.has_tasks.store(1, Ordering::Release);
        }
    }

    /// Returns whether a task was created since the region began. The flag is set before the task is put into a queue, so a thread that
    /// sees a task in a queue, or was woken for a task, reads true. A thread that is about to sleep must read the flag again after its
    /// fence.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed) != 0
    }

    /// Returns whether BPF sees all queues of the team, and standbys (if there are any) may run all of its tasks.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed) && !somebody_asks()
    }

    /// Returns whether a member may leave its tasks to standbys (additional threads, which run tasks in its place). If there are more
    /// members than CPUs it may not: some members might spin until others have done their work.
    #[inline]
    pub(crate) fn can_spare_members(&self) -> bool {
        self.is_served() && !self.needs_members.load(Ordering::Relaxed) && self.size() <= umt_client::cpus()
    }

    /// Announces tasks that [only members may run](crate::group::Group::is_for_members). Wakes the members that left their tasks to
    /// standbys.
    pub fn need_members(&self) {
        if !self.needs_members.load(Ordering::Relaxed) {
            self.needs_members.store(true, Ordering::Relaxed);
            self.alarm();
        }
    }
}
