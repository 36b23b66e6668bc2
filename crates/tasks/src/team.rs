//! A team: threads that share their ready tasks and meet at barriers.
//!
//! **Slots.** Each thread takes a slot (`Slot`): a member's, or a helper slot if it is no member. The slot brings a deque of ready tasks
//! (`ready`). Sleep is in `sleep`, barriers and the ends of regions are in `barrier`.
//!
//! Teams are never freed: a helper may look at a team at any time, without a lock.

mod barrier;
mod meeting;
mod sleep;

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use self::meeting::Meeting;
use crate::asking::somebody_asks;
use crate::deque::{CAPACITY, Deque};
use crate::held::Held;
use crate::icv::kept::OfRegion;
use crate::nesting::{Common, Nesting};
use crate::queues::Queues;
use crate::spare::boxed;
use crate::sync::{self, Ends, ends as ends_elsewhere, shared_ends};
use crate::task::{NOBODY, Task};
use crate::work::Work;

/// The slot of one thread in a team. The words that its own thread writes with every task (`own`) have cache lines of their own, because
/// thieves read the rest all the time.
#[repr(C, align(128))]
pub struct Slot {
    /// The slot's number: members' slots come first, then helper slots.
    number: u32,
    is_for_helper: bool,
    /// Number of the thread that has this slot.
    pub(crate) thread: AtomicU32,
    /// While the thread sleeps: it accepts only tasks below this one. Null: any task.
    sleeps_in: AtomicPtr<Task>,
    pub(crate) deque: Deque<Task>,
    pub(crate) own: Own,
    /// The member's implicit task.
    pub(crate) implicit: Task,
}

/// What the thread in a slot keeps there.
#[repr(align(128))]
pub(crate) struct Own {
    /// Tasks made here, and tasks ended here, since the team was made.
    made: AtomicU64,
    ended: AtomicU64,
    /// Tasks that may still run at once before the thread looks at its deque again, and whether the deque was full at the last look; see
    /// `ready`.
    pub left_at_once: AtomicU32,
    pub was_full: AtomicBool,
    /// Whether a task holds this slot's thread number; see `number`.
    pub number_is_held: Held,
    /// Generation of the barrier at which this member arrived last, plus one.
    came_to: AtomicU64,
}

/// Number of helper slots: for threads from outside the team. Their numbers begin behind the members' last word in `idle`, and the word
/// after it is theirs.
const HELPERS: usize = wire::umt::STANDBYS_AT_MOST as usize;

/// A team; see the module's documentation. Words that are written at every barrier or task are kept apart from those that are only read
/// there.
pub struct Team {
    slots: Box<[Slot]>,
    helpers: [OnceLock<Box<Slot>>; HELPERS],
    /// One bit for each helper slot in use, and the number of helper slots that were ever used.
    helpers_here: AtomicU64,
    helpers_ever: AtomicU32,
    /// Number of members of the current region, which have the first slots.
    size: AtomicU32,
    /// Generation of the last barrier of a cancelled region, plus one; 0 if the region is not cancelled.
    cancelled: AtomicU64,
    /// Whether a task was made since the region began.
    has_tasks: AtomicU32,
    /// Whether the region has tasks that only members may run. If so, no member leaves its tasks to standbys.
    needs_members: AtomicBool,
    /// Whether the region's end is no barrier: members that arrive there wait only while tasks are left. Other members may have left for
    /// good.
    lets_go: AtomicBool,
    idle: Box<[AtomicU64]>,
    /// Whether a region uses the team, or is about to. Written once per region; members never read it.
    in_use: Apart<AtomicBool>,
    meeting: Apart<Meeting>,
    generation: Apart<sync::AtomicU32>,
    /// Whether a thread looked for a task and found none, since a thread with enough tasks last read and cleared this flag.
    pub(crate) hungry: Apart<AtomicBool>,
    /// A sentinel below which there is no task.
    nobodys: Task,
    pub(crate) queues: Queues,
    /// Whether BPF can read the lengths of all queues of the team.
    is_shared: AtomicBool,
    /// Control variables with which the region began.
    pub(crate) icvs: OfRegion,
    /// The regions around the team's region; null if it is the outermost. Threads of the region, and helpers in its tasks, may read them.
    around: AtomicPtr<Nesting<Team>>,
    /// Values that the region and all regions within it share.
    pub common: Common,
    /// Length of a slot's deque from which on new tasks run at once.
    pub(crate) enough: usize,
}

/// A value alone on its cache line and on the neighbouring one, which processors prefetch together.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub T);

unsafe extern "C-unwind" fn implicit(_: *mut std::ffi::c_void) {}

impl Slot {
    fn new(number: u32, is_for_helper: bool, ends: Option<&'static Ends>) -> Slot {
        Slot {
            number,
            is_for_helper,
            thread: AtomicU32::new(NOBODY),
            sleeps_in: AtomicPtr::new(ptr::null_mut()),
            deque: Deque::new(ends.unwrap_or_else(ends_elsewhere)),
            own: Own {
                made: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                left_at_once: AtomicU32::new(0),
                was_full: AtomicBool::new(false),
                number_is_held: Held::new(),
                came_to: AtomicU64::new(0),
            },
            implicit: Task::new(implicit as Work, ptr::null_mut(), ptr::null()),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn is_for_helper(&self) -> bool {
        self.is_for_helper
    }

    /// Counts a task made here. Called by the slot's own thread only.
    #[inline]
    pub(crate) fn has_made(&self) {
        self.own.made.store(self.own.made.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a task ended here. Called by the slot's own thread only.
    #[inline]
    pub(crate) fn has_ended(&self) {
        // Release: a thread that sees this count also sees what the task did.
        self.own.ended.store(self.own.ended.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// Returns `shared`: whether BPF can read the queues. If blocked threads are noticed and it cannot, counts that for the report.
fn shares(shared: bool) -> bool {
    if !shared && umt_client::is_live() {
        umt_client::said().counts.0.unshared.fetch_add(1, Ordering::Relaxed);
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
            helpers: std::array::from_fn(|_| OnceLock::new()),
            helpers_here: AtomicU64::new(0),
            helpers_ever: AtomicU32::new(0),
            size: AtomicU32::new(0),
            cancelled: AtomicU64::new(0),
            has_tasks: AtomicU32::new(0),
            needs_members: AtomicBool::new(false),
            lets_go: AtomicBool::new(false),
            idle: (0..=words).map(|_| AtomicU64::new(0)).collect(),
            in_use: Apart(AtomicBool::new(false)),
            meeting: Apart(Meeting::new()),
            generation: Apart(sync::AtomicU32::new(0)),
            nobodys: Task::new(implicit as Work, ptr::null_mut(), ptr::null()),
            queues: Queues::new(end(slots), end(slots + 1)),
            is_shared: AtomicBool::new(shares(ends.is_some())),
            icvs: OfRegion::new(),
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

    /// Prepares the team for a region. No thread may be in another region of this team. With `has_none` the region probably has no tasks:
    /// then no member [waits](crate::worker::Worker::end_region) for tasks at its end.
    pub fn begin(&self, has_none: bool) {
        // All members read these words all the time, and a write makes each of them fetch the line anew: so a word is written only if it
        // changes.
        if self.has_tasks() {
            self.has_tasks.store(0, Ordering::Relaxed);
        }
        if self.is_cancelled() {
            // Members that the cancellation released from a barrier are still counted there; if the region's end was no barrier, no thread
            // has passed that one.
            let generation = self.generation();
            self.pass(generation);
            while !self.has_passed(generation) {
                // A helper that ended its last task late may be in the middle of passing the barrier.
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

    /// Sets the regions around the region that begins. To be called before the region has tasks.
    ///
    /// # Safety
    /// `around` stays valid until the region is over.
    pub unsafe fn is_within(&self, around: Option<&Nesting<Team>>) {
        let around = around.map_or(ptr::null(), ptr::from_ref).cast_mut();
        if self.around.load(Ordering::Relaxed) != around {
            self.around.store(around, Ordering::Release);
        }
    }

    /// Returns the regions around the team's region. For threads of the region and helpers in its tasks.
    pub fn around(&self) -> Option<&Nesting<Team>> {
        // SAFETY: valid until the region is over, and such a thread has left by then.
        unsafe { self.around.load(Ordering::Acquire).as_ref() }
    }

    /// Returns whether a region uses the team. The answer may be outdated.
    pub fn is_in_use(&self) -> bool {
        self.in_use.0.load(Ordering::Relaxed)
    }

    /// Takes the team for a region, if no other region uses it. Returns whether it did.
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

    /// Returns the member's slot of this number, if there is one.
    pub(crate) fn member(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number as usize)
    }

    /// Returns the member's slot of this number.
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
        // This thread alone has the bit, so no other thread makes the slot.
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

    /// Returns the slot of a bit in `idle`.
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

    /// Notes that a task is about to be made. Calls `first` before the region's first task is published; two members may call it at the same time.
    #[inline]
    pub(crate) fn note_task(&self, first: impl FnOnce()) {
        // Acquire: a thread that finds this member's task also sees what `first` did on another member.
        if self.has_tasks.load(Ordering::Acquire) == 0 {
            first();
            self.has_tasks.store(1, Ordering::Release);
        }
    }

    /// Returns whether a task was made since the region began. The flag is set before the task is put into any queue. So a thread reads
    /// true if it sees a task in a queue, was woken for one, or looks once more behind the fence before it sleeps.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed) != 0
    }

    /// Returns whether standbys, if there are any, may run all tasks of the team, and BPF sees all its queues.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed) && !somebody_asks()
    }

    /// Returns whether a member may leave its tasks to standbys. With more members than CPUs it may not: some of them might spin until
    /// others have done their work.
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
