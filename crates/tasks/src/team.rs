//! A team: threads with a seat each, that share their ready tasks and meet at barriers.
//!
//! **Seats.** A thread takes one, a member's or a guest's; with it comes a deque of ready tasks (`ready`). Its sleep is in `sleep`, barriers and the
//! ends of regions are in `barrier`.
//!
//! Teams are never given back to the system: who helps out looks at them without asking.

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

/// A member's place. What its own thread writes with every task lies on lines of its own: thieves look at the rest all the time.
#[repr(C, align(128))]
pub struct Seat {
    /// Which one it is: members' first, then guests'.
    number: u32,
    is_guests: bool,
    /// The thread that sits here.
    pub(crate) thread: AtomicU32,
    /// While it sleeps: tasks below this one only are for it; null: any.
    sleeps_in: AtomicPtr<Task>,
    pub(crate) deque: Deque<Task>,
    pub(crate) own: Own,
    /// The implicit task of the member.
    pub(crate) implicit: Task,
}

/// What the thread on a seat keeps there.
#[repr(align(128))]
pub(crate) struct Own {
    /// Tasks that were made, and that have ended here, since ever.
    made: AtomicU64,
    ended: AtomicU64,
    /// Tasks that are done at once before the deque is looked at again, and whether it was full; see `queues`.
    pub left_at_once: AtomicU32,
    pub was_full: AtomicBool,
    /// Somebody says that this is its number; see `number`.
    pub number_is_held: Held,
    /// One more than the generation of the barrier that this member has come to last.
    came_to: AtomicU64,
}

/// Seats of threads from outside the team that help it. Their numbers begin behind the last word of members in `idle`, which is theirs.
const GUESTS: usize = wire::umt::STANDBYS_AT_MOST as usize;

/// A team; see the module. Words that are written at every barrier or task lie apart from those that are read there.
pub struct Team {
    seats: Box<[Seat]>,
    guests: [OnceLock<Box<Seat>>; GUESTS],
    /// A bit for each guest's seat that is taken, and how many were ever taken.
    guests_here: AtomicU64,
    guests_ever: AtomicU32,
    /// Members of the present region, in the first seats.
    size: AtomicU32,
    /// 0, or one more than the generation of the last barrier of a cancelled region.
    cancelled: AtomicU64,
    /// Whether there has been a task since the region began.
    has_tasks: AtomicU32,
    /// Whether the region has tasks that only members may run: none of them leaves its tasks to standbys.
    needs_members: AtomicBool,
    /// Whether the region's end is no barrier: who comes there waits for tasks only, if there are any. Others may have gone for good.
    lets_go: AtomicBool,
    idle: Box<[AtomicU64]>,
    /// A region has it, or is about to. Written for each, and of no interest to members.
    in_use: Apart<AtomicBool>,
    meeting: Apart<Meeting>,
    generation: Apart<sync::AtomicU32>,
    /// Somebody has looked for a task and found none, since this was last heard by somebody who has enough.
    pub(crate) hungry: Apart<AtomicBool>,
    /// No task is below this one.
    nobodys: Task,
    pub(crate) queues: Queues,
    /// BPF sees all its queues.
    is_shared: AtomicBool,
    /// Control variables that the region has begun with.
    pub(crate) icvs: OfRegion,
    /// What is around its region; null: it is the outermost. Threads of the region and guests in tasks of it may look there.
    around: AtomicPtr<Nesting<Team>>,
    /// What is the same for its region and all regions within.
    pub common: Common,
    /// Ready tasks of one seat from which on new ones are done at once.
    pub(crate) enough: usize,
}

/// On a line of its own, with its neighbour, which processors fetch along.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub T);

unsafe extern "C-unwind" fn implicit(_: *mut std::ffi::c_void) {}

impl Seat {
    fn new(number: u32, is_guests: bool, ends: Option<&'static Ends>) -> Seat {
        Seat {
            number,
            is_guests,
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

    pub(crate) fn is_guests(&self) -> bool {
        self.is_guests
    }

    /// One more was made here. Its own thread only.
    #[inline]
    pub(crate) fn has_made(&self) {
        self.own.made.store(self.own.made.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One more has ended here. Its own thread only.
    #[inline]
    pub(crate) fn has_ended(&self) {
        // Release: what the task did is done when the sum says so.
        self.own.ended.store(self.own.ended.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// Whether queues are where BPF sees them; says so if they should be and are not.
fn shares(shared: bool) -> bool {
    if !shared && signal::is_live() {
        signal::said().counts.0.unshared.fetch_add(1, Ordering::Relaxed);
    }
    shared
}

impl Team {
    /// A team with so many seats, which has no members yet.
    pub fn new(seats: u32) -> Team {
        let ends = shared_ends(seats + 2);
        let end = |number: u32| ends.and_then(|ends| ends.get(number as usize));
        let words = seats.div_ceil(64);
        Team {
            seats: (0..seats).map(|number| Seat::new(number, false, end(number))).collect(),
            guests: std::array::from_fn(|_| OnceLock::new()),
            guests_here: AtomicU64::new(0),
            guests_ever: AtomicU32::new(0),
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
            queues: Queues::new(end(seats), end(seats + 1)),
            is_shared: AtomicBool::new(shares(ends.is_some())),
            icvs: OfRegion::new(),
            around: AtomicPtr::new(ptr::null_mut()),
            common: Common::default(),
            enough: (64 * seats as usize).min(CAPACITY),
            hungry: Apart(AtomicBool::new(false)),
        }
    }

    /// Seats there are.
    pub fn seats(&self) -> u32 {
        self.seats.len() as u32
    }

    /// Members of the present region.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// A region begins; nobody is in another one of this team. If it probably `has_none` of tasks, nobody
    /// [waits](crate::worker::Worker::end_region) for them at its end.
    pub fn begin(&self, has_none: bool) {
        // All members read these all the time: a line that is written has to be fetched anew.
        if self.has_tasks() {
            self.has_tasks.store(0, Ordering::Relaxed);
        }
        if self.is_cancelled() {
            // Who was let go from a barrier stays counted there, and where the end is none nobody has passed it.
            let generation = self.generation();
            self.pass(generation);
            while !self.has_passed(generation) {
                // A guest that was late is in the middle of it.
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

    /// A region begins that has this around it: to be said before it has tasks.
    ///
    /// # Safety
    /// It stays until the region is over.
    pub unsafe fn is_within(&self, around: Option<&Nesting<Team>>) {
        let around = around.map_or(ptr::null(), ptr::from_ref).cast_mut();
        if self.around.load(Ordering::Relaxed) != around {
            self.around.store(around, Ordering::Release);
        }
    }

    /// What is around its region, for a thread of the region or a guest in a task of it.
    pub fn around(&self) -> Option<&Nesting<Team>> {
        // SAFETY: it stays until the region is over, at whose end such a thread is no more.
        unsafe { self.around.load(Ordering::Acquire).as_ref() }
    }

    /// Whether a region has it, as far as can be seen.
    pub fn is_in_use(&self) -> bool {
        self.in_use.0.load(Ordering::Relaxed)
    }

    /// Takes the team for a region, if it has none. Whether it could.
    #[must_use]
    pub fn claim(&self) -> bool {
        !self.is_in_use() && !self.in_use.0.swap(true, Ordering::Acquire)
    }

    /// Its region is over.
    pub fn release(&self) {
        self.in_use.0.store(false, Ordering::Release);
    }

    /// The region has so many members: said by each of them, before it [enters](crate::worker::Worker::enter).
    pub fn has_members(&self, size: u32) {
        let size = size.min(self.seats());
        if self.size() != size {
            self.size.store(size, Ordering::Relaxed);
        }
    }

    /// Seats of the present region's members.
    pub(crate) fn members(&self) -> &[Seat] {
        &self.seats[..self.size() as usize]
    }

    /// A member's seat, if there is one of this number.
    pub(crate) fn member(&self, number: u32) -> Option<&Seat> {
        self.seats.get(number as usize)
    }

    /// A member's seat.
    pub(crate) fn seat(&self, number: u32) -> &Seat {
        &self.seats[number as usize]
    }

    /// A seat for a thread that is no member. `None`: all are taken, or there is no memory for another.
    pub(crate) fn take_guests_seat(&self) -> Option<&Seat> {
        let here = self
            .guests_here
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |here| (here != u64::MAX).then(|| here | (here + 1)));
        let at = here.ok()?.trailing_ones();
        let first = (self.idle.len() - 1) as u32 * 64;
        let place = &self.guests[at as usize];
        // Nobody else has this bit, so nobody else makes its seat.
        if place.get().is_none() {
            let new = boxed(|| {
                let ends = shared_ends(1).and_then(|ends| ends.first());
                if !shares(ends.is_some()) {
                    self.is_shared.store(false, Ordering::Relaxed);
                }
                Seat::new(first + at, true, ends)
            });
            let _ = new.map(|seat| place.set(seat));
        }
        let Some(seat) = place.get() else {
            self.guests_here.fetch_and(!(1 << at), Ordering::AcqRel);
            return None;
        };
        self.guests_ever.fetch_max(at + 1, Ordering::AcqRel);
        Some(seat)
    }

    /// A guest leaves.
    pub(crate) fn give_guests_seat_back(&self, seat: &Seat) {
        self.guests_here.fetch_and(!(1 << (seat.number % 64)), Ordering::AcqRel);
    }

    /// The seat of a bit in `idle`.
    fn seat_of_bit(&self, word: usize, bit: u32) -> Option<&Seat> {
        if word + 1 < self.idle.len() {
            self.seats.get(word * 64 + bit as usize)
        } else {
            self.guests[bit as usize].get().map(|seat| &**seat)
        }
    }

    /// Seats of guests that there have been.
    pub(crate) fn guests(&self) -> impl Iterator<Item = &Seat> {
        let ever = self.guests_ever.load(Ordering::Acquire) as usize;
        self.guests[..ever].iter().filter_map(|seat| seat.get().map(|seat| &**seat))
    }

    /// Notes that a task is about to be made. Calls `first` before the region's first task is published; two members may call it at the same time.
    #[inline]
    pub(crate) fn note_task(&self, first: impl FnOnce()) {
        // Acquire: who finds the task of this member sees what another that was the first has done.
        if self.has_tasks.load(Ordering::Acquire) == 0 {
            first();
            self.has_tasks.store(1, Ordering::Release);
        }
    }

    /// Whether there has been a task since the region began. Who sees one in a queue, or has been woken for one, or looks behind the fence
    /// before its sleep, sees this too: it is said before the task is put anywhere.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed) != 0
    }

    /// Whether standbys, if there are any, can run all tasks that there may be, and know of them.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed) && !somebody_asks()
    }

    /// Whether a member may leave its tasks to standbys: there are also no more members than CPUs, of which some might wait in a loop for what
    /// the others would do.
    #[inline]
    pub(crate) fn can_spare_members(&self) -> bool {
        self.is_served() && !self.needs_members.load(Ordering::Relaxed) && self.size() <= signal::cpus()
    }

    /// There will be tasks that [only members may run](crate::group::Group::is_for_members). Members that have left their tasks to standbys are
    /// wanted again.
    pub fn need_members(&self) {
        if !self.needs_members.load(Ordering::Relaxed) {
            self.needs_members.store(true, Ordering::Relaxed);
            self.alarm();
        }
    }
}
