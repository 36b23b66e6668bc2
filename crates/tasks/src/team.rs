//! A team: threads with a seat each, that share their ready tasks and meet at barriers.
//!
//! **Seats.** A thread takes one, a member's or a guest's; with it comes a deque of ready tasks (`queues`).
//!
//! **Sleep.** Who finds nothing says so in `idle` and looks once more; who has put a task somewhere looks at `idle` and wakes one.
//! Between writing and looking both have a fence (`fence`), so one of the two sees the other.
//!
//! **Barrier.** It is passed when all members have come and no task of the team is left. Tasks are counted by seat,
//! those made and those ended, in words that only grow and that only their seat writes. They are added up *ended
//! first*: at any moment no more have ended than were made, so if the sums are equal, they were equal in the moment
//! between the two; and as all members have come, nobody was there who could make another. It is added up by whoever
//! has just come last, or has just run out of tasks; both have a full fence before, so the last of them sees all.
//!
//! **Cancellation.** Who cancels a region is at no barrier, so the one that members come to next cannot be passed before it comes
//! there, which it does at the region's end: everybody's last barrier is that one. Who waits there already is let go, stays counted,
//! and comes to the end without being counted again. No task begins any more, so nobody who is counted makes one.
//!
//! **Ends of regions.** Where nobody is expected to make tasks the end is no barrier (`lets_go`): who has made some after all stays until none is
//! left, and so does who comes later. Nobody is counted as come, so one that was let go from a cancelled barrier is forgotten when the next
//! region begins.
//!
//! Teams are never given back to the system: who helps out looks at them without asking.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crate::begun::Taker;
use crate::deque::{CAPACITY, Deque};
use crate::fence;
use crate::held::Held;
use crate::icv::OfRegion;
use crate::nesting::{Common, Nesting};
use crate::number::somebody_asks;
use crate::park::bed;
use crate::queues::Queues;
use crate::spare::boxed;
use crate::sync::{self, Ends, ends as ends_elsewhere, shared_ends};
use crate::task::{NOBODY, Task, Work};

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
    around: AtomicPtr<Nesting>,
    /// What is the same for its region and all regions within.
    pub common: Common,
    /// Ready tasks of one seat from which on new ones are done at once.
    pub(crate) enough: usize,
}

/// What members write who come to a barrier.
struct Meeting {
    arrived: AtomicU32,
    /// The generation that somebody has let pass, or is about to.
    passing: AtomicU32,
    /// Those that stay at a region's end that is no barrier.
    staying: AtomicU32,
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
            meeting: Apart(Meeting {
                arrived: AtomicU32::new(0),
                passing: AtomicU32::new(0),
                staying: AtomicU32::new(0),
            }),
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
    pub unsafe fn is_within(&self, around: Option<&Nesting>) {
        let around = around.map_or(ptr::null(), ptr::from_ref).cast_mut();
        if self.around.load(Ordering::Relaxed) != around {
            self.around.store(around, Ordering::Release);
        }
    }

    /// What is around its region, for a thread of the region or a guest in a task of it.
    pub fn around(&self) -> Option<&Nesting> {
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

    /// Whether members go on from the region's end when there is no task, though others may still be to come.
    #[inline]
    pub(crate) fn lets_go(&self) -> bool {
        self.lets_go.load(Ordering::Relaxed)
    }

    /// Cancels the region, by a member in its implicit task: no task begins any more, and who waits at a barrier that may be
    /// cancelled goes on.
    pub fn cancel(&self) {
        self.cancelled.store(u64::from(self.generation()) + 1, Ordering::Release);
        fence::light();
        self.wake_all();
    }

    /// Whether the region was cancelled.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) != 0
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

    /// There will be a task.
    #[inline]
    pub(crate) fn note_task(&self) {
        if !self.has_tasks() {
            // Release: control variables of the region have been noted.
            self.has_tasks.store(1, Ordering::Release);
        }
    }

    /// Whether there has been a task since the region began. Who sees one in a queue, or has been woken for one, or looks behind the fence
    /// before its sleep, sees this too: it is said before the task is put anywhere.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed) != 0
    }

    /// A task was put somewhere.
    #[inline]
    pub(crate) fn announce(&self, task: NonNull<Task>) {
        fence::light();
        if self.has_sleepers() {
            self.wake_for(task);
        }
        signal::has_put();
    }

    /// Whether somebody sleeps, or is about to.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.idle.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Wakes one who sleeps and may run this task.
    #[cold]
    pub(crate) fn wake_for(&self, task: NonNull<Task>) {
        // SAFETY: memory of tasks stays; a task that is gone is below nobody, or it wakes the wrong one.
        let may_run = |within: NonNull<Task>| unsafe { task.as_ref().is_below(within.as_ref()) };
        self.wake_one(|within| within.is_none_or(may_run));
    }

    /// Wakes one who may run this task, which is for members: also one that has left its tasks to standbys.
    #[cold]
    pub(crate) fn wake_member_for(&self, task: NonNull<Task>) {
        // SAFETY: as above.
        let may_run = |within: NonNull<Task>| unsafe { task.as_ref().is_below(within.as_ref()) };
        if !self.wake_one(|within| within.is_none_or(may_run)) {
            self.wake_one(|within| within.is_some_and(|within| ptr::eq(within.as_ptr(), &raw const self.nobodys)));
        }
    }

    /// Wakes one whose sleep is `wanted`: it is asked for tasks below one, or any. Whether there was one.
    fn wake_one(&self, wanted: impl Fn(Option<NonNull<Task>>) -> bool) -> bool {
        for (at, word) in self.idle.iter().enumerate() {
            let mut left = word.load(Ordering::Acquire);
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left &= !bit;
                let Some(seat) = self.seat_of_bit(at, bit.trailing_zeros()) else { continue };
                let within = NonNull::new(seat.sleeps_in.load(Ordering::Acquire));
                if wanted(within) && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    bed(seat.thread.load(Ordering::Relaxed)).wake();
                    return true;
                }
            }
        }
        false
    }

    fn wake_all(&self) {
        for (at, word) in self.idle.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut left = word.swap(0, Ordering::AcqRel);
            while left != 0 {
                let seat = self.seat_of_bit(at, left.trailing_zeros());
                seat.into_iter().for_each(|seat| bed(seat.thread.load(Ordering::Relaxed)).wake());
                left &= left - 1;
            }
        }
    }

    /// The thread on this seat is about to sleep, for tasks below one or for any: to be said before it looks for the last time.
    pub(crate) fn lie_down(&self, seat: &Seat, within: Option<&Task>) {
        let within = within.map_or(ptr::null(), ptr::from_ref);
        seat.sleeps_in.store(within.cast_mut(), Ordering::Release);
        self.idle[seat.number as usize / 64].fetch_or(1 << (seat.number % 64), Ordering::AcqRel);
        fence::heavy();
    }

    /// The thread on this seat is about to sleep, and no task is for it.
    pub(crate) fn lie_down_for_good(&self, seat: &Seat) {
        self.lie_down(seat, Some(&self.nobodys));
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

    /// Whether a thread that has taken a task which only members may run has begun its construct.
    #[inline]
    pub(crate) fn has_begun(&self, taker: Taker) -> bool {
        taker.has_begun(&self.generation.0)
    }

    /// Wakes all who sleep, whatever for: they look again.
    pub fn alarm(&self) {
        fence(Ordering::SeqCst);
        self.wake_all();
    }

    /// It does not sleep, or no longer. If somebody has woken it for a task and it is `busy` with something else, that task is
    /// somebody else's now.
    pub(crate) fn get_up(&self, seat: &Seat, busy: bool) {
        let bit = 1 << (seat.number % 64);
        let was_woken = self.idle[seat.number as usize / 64].fetch_and(!bit, Ordering::AcqRel) & bit == 0;
        if was_woken && busy {
            self.pass_on();
        }
    }

    /// Wakes somebody for each task that somebody could take now.
    #[cold]
    fn pass_on(&self) {
        let oldest = self.seats.iter().chain(self.guests()).filter_map(|seat| NonNull::new(seat.deque.oldest()));
        let queued = self.queued();
        oldest.chain(queued).for_each(|task| self.wake_for(task));
    }

    /// Whether the region is cancelled, and has no barrier behind this one.
    pub(crate) fn is_last_barrier(&self, generation: u32) -> bool {
        self.cancelled.load(Ordering::Acquire) == u64::from(generation) + 1
    }

    /// A member comes to the barrier: which one it is, and whether it has to ask if all have come.
    #[inline]
    pub(crate) fn arrive(&self, seat: &Seat) -> (u32, bool) {
        let last = self.cancelled.load(Ordering::Acquire);
        if last != 0 && seat.own.came_to.load(Ordering::Relaxed) == last {
            return ((last - 1) as u32, true);
        }
        let generation = self.generation.0.load(Ordering::Relaxed);
        seat.own.came_to.store(u64::from(generation) + 1, Ordering::Relaxed);
        (generation, self.meeting.0.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size())
    }

    /// The barrier that members come to next, or wait at.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.0.load(Ordering::Acquire)
    }

    /// Whether this barrier has been passed.
    #[inline]
    pub(crate) fn has_passed(&self, generation: u32) -> bool {
        self.generation.0.load(Ordering::Acquire) != generation
    }

    /// Lets all members pass if all have come and no task is left: to be asked by who has come last, and by who has ended a task
    /// and finds no other.
    #[inline]
    pub(crate) fn try_to_pass(&self, generation: u32) {
        fence(Ordering::SeqCst);
        if self.meeting.0.arrived.load(Ordering::Acquire) != self.size() {
            if self.meeting.0.staying.load(Ordering::Relaxed) > 0 {
                self.let_go_if_quiet();
            }
            return;
        }
        if !self.is_quiet() {
            return;
        }
        self.pass(generation);
    }

    /// Ends a barrier. Several may have seen that it is time: one of them is first, and only then is the count of the next barrier begun. Nobody
    /// comes to that one before it has seen the generation change.
    fn pass(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        if self.meeting.0.passing.compare_exchange(generation, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.meeting.0.arrived.store(0, Ordering::Relaxed);
            self.generation.0.store(next, Ordering::Release);
            fence::light();
            self.wake_all();
        }
    }

    /// A member stays at the end of a region that [lets go](Team::lets_go), until no task is left: to be said before it looks.
    pub(crate) fn begin_to_stay(&self) {
        self.meeting.0.staying.fetch_add(1, Ordering::AcqRel);
    }

    /// … and goes on.
    pub(crate) fn end_to_stay(&self) {
        self.meeting.0.staying.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wakes those that stay if no task is left. Whether none is.
    pub(crate) fn let_go_if_quiet(&self) -> bool {
        fence(Ordering::SeqCst);
        let is_quiet = self.is_quiet();
        if is_quiet {
            self.wake_all();
        }
        is_quiet
    }

    /// Whether no task is left.
    pub(crate) fn is_quiet(&self) -> bool {
        if !self.has_tasks() {
            return true;
        }
        let sum = |word: fn(&Seat) -> &AtomicU64| -> u64 {
            let words = self.seats.iter().chain(self.guests()).map(|seat| word(seat).load(Ordering::Acquire));
            words.fold(0, u64::wrapping_add)
        };
        let ended = sum(|seat| &seat.own.ended);
        ended == sum(|seat| &seat.own.made)
    }
}
