//! Blocks noticed without privileges: the kernel's own log of a thread's switches (PERF_RECORD_SWITCH, Linux 4.17; `perf_event_paranoid` ≤ 2).
//!
//! Each thread that counts has a *log*: an event of its own, and a ring that only the kernel writes. The ring is mapped for reading only, hence
//! never full: old records are written over, and nobody has to move on. Its last record says where the thread is:
//!
//! | last record | the thread |
//! |---|---|
//! | in | runs |
//! | out, preempted | waits for a CPU |
//! | out | is blocked, or has been woken and waits for a CPU: the log does not tell |
//!
//! So state is a load, and is never wrong for longer than until the next switch. All records have 32 bytes, and they alternate, out and in. With a
//! watermark of 64 the kernel wakes who watches at each *out* and at no *in*: it does so when more than the watermark was written since, and
//! then advances its mark by the watermark (kernel/events/ring_buffer.c, `__perf_output_begin`). Woken at *in*, too, the watcher would take the
//! thread's CPU, which is an out and an in, and so on.
//!
//! A thread that sleeps because it has nothing to do (`rest`) stops its log for so long: nobody has to be told.
//!
//! Logs lie in an arena of places of a fixed size. One that is given back is covered with zeros, so a reader who comes late reads that nobody is there,
//! and no lock is needed.

use std::cell::Cell;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::bindings::{perf_event_attr, perf_event_mmap_page};
use perf_event_open_sys::perf_event_open;

use crate::descriptors::out_of_the_way;
use crate::shared::{has_ready, is_live, said, seen, was_ever_live};
use crate::together;

const PAGE: usize = 4096;
/// A page for where the kernel is, and one of records.
const PLACE: usize = 2 * PAGE;
/// Threads that count, at most.
pub const PLACES: usize = 256;
const RECORD: u64 = size_of::<Record>() as u64;
/// Bytes behind which who watches is woken: once for each pair of records.
const WATERMARK: u32 = 2 * RECORD as u32;
/// `PERF_EVENT_IOC_ENABLE` and `_DISABLE` (include/uapi/linux/perf_event.h).
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;

/// What is in a ring: a header without content, and what `sample_id_all` adds.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    kind: u32,
    misc: u16,
    bytes: u16,
    pid: u32,
    tid: u32,
    time_ns: u64,
    cpu: u32,
    pad: u32,
}

/// What a thread did, as its log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// What it was.
    pub kind: Kind,
    /// On which CPU.
    pub cpu: u32,
    /// When, on CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// Kinds of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was given a CPU.
    In,
    /// It was taken off, and wants to run on.
    Preempted,
    /// It left, to wait for something.
    Blocked,
}

/// How far a log has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(u64);

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// It runs, or waits for a CPU.
    pub is_runnable: bool,
    /// Where it runs, or ran last.
    pub cpu: u32,
    /// Since when, on CLOCK_MONOTONIC.
    pub since_ns: u64,
}

/// The first place.
static ARENA: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Places that have ever been given, from the first on.
static USED: AtomicU32 = AtomicU32::new(0);
static TAKEN: [AtomicU64; PLACES / 64] = [const { AtomicU64::new(0) }; PLACES / 64];
/// Whether the thread of a place rests: its log is stopped.
static RESTS: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
/// When a thread blocked last, as far as was looked.
static LAST_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The calling thread's place and descriptor.
    static OWN: Cell<Option<(u32, RawFd)>> = const { Cell::new(None) };
    /// What had been written of its log when it last asked whether it is crowded, and the answer.
    static LOOKED: Cell<(u64, bool)> = const { Cell::new((0, false)) };
}

/// Whether the kernel lets this user have logs of its own threads.
///
/// # Errors
/// What the kernel says instead.
pub fn probe() -> io::Result<()> {
    open().map(drop)
}

/// Makes room for logs, if there is none yet. By one thread at a time. `None`: there is no memory.
pub fn begin() -> Option<()> {
    if !ARENA.load(Ordering::Acquire).is_null() {
        return Some(());
    }
    // SAFETY: a new mapping, at an address of the kernel's choice, which stays.
    let place = unsafe {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(ptr::null_mut(), PLACES * PLACE, libc::PROT_READ, kind, -1, 0)
    };
    (place != libc::MAP_FAILED).then(|| ARENA.store(place.cast(), Ordering::Release))
}

/// The calling thread has a log from here on. `false`: the kernel gives it none, or all places are taken.
pub fn enlist() -> bool {
    if OWN.get().is_some() {
        return true;
    }
    let Some(place) = take_place() else { return false };
    // A low number is better than none.
    let log = open().and_then(out_of_the_way).or_else(|_| open());
    let Some(log) = log.ok().filter(|log| cover(place, log.as_raw_fd())) else {
        // A ring that is refused may have taken away what was there: readers are to find zeros.
        cover(place, -1);
        give_back(place);
        return false;
    };
    RESTS[place as usize].store(0, Ordering::Relaxed);
    USED.fetch_max(place + 1, Ordering::AcqRel);
    together::watch(log.as_raw_fd());
    let log = std::mem::ManuallyDrop::new(log);
    OWN.set(Some((place, log.as_raw_fd())));
    true
}

/// The calling thread's place among logs, and the descriptor that is ready behind its switches.
#[must_use]
pub fn own() -> Option<(u32, RawFd)> {
    OWN.get()
}

/// The calling thread's log ends.
pub fn discharge() {
    let Some((place, log)) = OWN.take() else { return };
    cover(place, -1);
    // Where a session has ended the program may have closed it, and have a file of its own of this number.
    if is_live() || !was_ever_live() {
        // SAFETY: made by `enlist`, and nobody else's; closing it takes it from those that are watched.
        unsafe { libc::close(log) };
    }
    give_back(place);
}

/// After fork, in the child: logs are of the parent's threads.
pub(crate) fn forked() {
    ARENA.store(ptr::null_mut(), Ordering::Release);
    USED.store(0, Ordering::Relaxed);
    TAKEN.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    OWN.set(None);
}

/// The calling thread while it rests; without a log nothing is to be said of it.
pub(crate) struct Resting(Option<(u32, RawFd)>);

impl Resting {
    /// It is about to rest: to others it is not runnable any more.
    pub(crate) fn begin() -> Resting {
        let resting = Resting(OWN.get());
        resting.says(1);
        resting
    }

    /// Stops its log: nobody is woken for its sleep.
    pub(crate) fn stop_log(&self) {
        self.tell(DISABLE);
    }

    /// It has work again, and its log goes on.
    pub(crate) fn end(self) {
        self.tell(ENABLE);
        self.says(0);
    }

    fn says(&self, rests: u32) {
        self.0.iter().for_each(|(place, _)| RESTS[*place as usize].store(rests, Ordering::Release));
    }

    fn tell(&self, what: libc::c_ulong) {
        let Some((_, log)) = self.0 else { return };
        // SAFETY: an event of this thread's own, and no argument; errno is put back, the program has called nothing that sets it.
        unsafe {
            let errno = *libc::__errno_location();
            libc::ioctl(log, what, 0);
            *libc::__errno_location() = errno;
        }
    }
}

/// Whether fewer threads are runnable than there are CPUs.
pub(crate) fn has_free_cpu() -> bool {
    let cpus = said().cpus.load(Ordering::Relaxed) as usize;
    stands().filter(|stand| stand.is_runnable).take(cpus).count() < cpus
}

/// Whether another thread wants the calling thread's CPU, and there is no other for it.
pub(crate) fn is_crowded() -> bool {
    // Whoever wants this CPU and is known has run on it before: this thread was switched out since.
    let written = OWN.get().map_or(0, |(place, _)| written(place));
    let (looked, was) = LOOKED.get();
    let is = (written != looked || was) && is_crowded_now();
    LOOKED.set((written, is));
    is
}

pub(crate) fn is_crowded_now() -> bool {
    // SAFETY: asks for a number: a load, where the C library keeps it.
    let cpu = unsafe { libc::sched_getcpu() } as u32;
    let (mut all, mut here) = (0, 0);
    stands().filter(|stand| stand.is_runnable).for_each(|stand| {
        all += 1;
        here += u32::from(stand.cpu == cpu);
    });
    all > said().cpus.load(Ordering::Relaxed) && here > 1
}

/// Behind a wake-up by the kernel: whether there is a task and a CPU for it, and since when the last thread to block has been blocked.
pub(crate) fn left() -> Option<u64> {
    fence(Ordering::SeqCst);
    let last = stands().filter(|stand| !stand.is_runnable).max_by_key(|stand| stand.since_ns)?;
    if LAST_NS.fetch_max(last.since_ns, Ordering::AcqRel) < last.since_ns {
        seen()?.blocks.fetch_add(1, Ordering::Relaxed);
    }
    let is_left = || !stands().any(|stand| stand.is_runnable && stand.cpu == last.cpu);
    (has_ready() && (has_free_cpu() || is_left())).then_some(last.since_ns)
}

/// Where threads are, that count.
fn stands() -> impl Iterator<Item = Stand> {
    (0..USED.load(Ordering::Acquire)).filter_map(stand)
}

/// Where the thread of a place is; `None`: nobody is there.
#[must_use]
pub fn stand(place: u32) -> Option<Stand> {
    // A record that is written over meanwhile is 127 switches old.
    let last = switch(place, written(place).checked_sub(RECORD)?)?;
    let rests = RESTS[place as usize].load(Ordering::Acquire) != 0;
    let since_ns = if rests { 0 } else { last.time_ns };
    Some(Stand { is_runnable: !rests && last.kind != Kind::Blocked, cpu: last.cpu, since_ns })
}

/// How far the log of a place has been written.
#[must_use]
pub fn end(place: u32) -> Position {
    Position(written(place))
}

/// Goes through what was written behind a position, and moves it. Whether nothing was missed: what is older than 127 switches is written over.
pub fn follow(place: u32, from: &mut Position, mut each: impl FnMut(Switch)) -> bool {
    let mut is_whole = true;
    while from.0 < written(place) {
        let read = switch(place, from.0);
        // Only now: behind what is written the kernel may be at work on the next record.
        fence(Ordering::Acquire);
        let oldest = (written(place) + RECORD).saturating_sub(PAGE as u64);
        if from.0 < oldest {
            (from.0, is_whole) = (oldest, false);
            continue;
        }
        read.into_iter().for_each(&mut each);
        from.0 += RECORD;
    }
    is_whole
}

/// The record at a byte of a place's log.
fn switch(place: u32, at: u64) -> Option<Switch> {
    let arena = ARENA.load(Ordering::Acquire);
    if arena.is_null() {
        return None;
    }
    let at = place as usize * PLACE + PAGE + at as usize % PAGE;
    // SAFETY: within the arena, whose places are zeros or a ring; aligned as all records are.
    let record = unsafe { arena.add(at).cast::<Record>().read_volatile() };
    if record.kind != abi::PERF_RECORD_SWITCH || u64::from(record.bytes) != RECORD {
        return None;
    }
    let misc = u32::from(record.misc);
    let kind = if misc & abi::PERF_RECORD_MISC_SWITCH_OUT == 0 {
        Kind::In
    } else if misc & abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0 {
        Kind::Preempted
    } else {
        Kind::Blocked
    };
    Some(Switch { kind, cpu: record.cpu, time_ns: record.time_ns })
}

/// Bytes that the kernel has written to a place's ring.
fn written(place: u32) -> u64 {
    let arena = ARENA.load(Ordering::Acquire);
    if arena.is_null() {
        return 0;
    }
    let at = place as usize * PLACE + std::mem::offset_of!(perf_event_mmap_page, data_head);
    // SAFETY: within the arena, aligned, and written by the kernel at once.
    unsafe { arena.add(at).cast::<AtomicU64>().as_ref() }.map_or(0, |head| head.load(Ordering::Acquire))
}

/// An event of the calling thread.
fn open() -> io::Result<OwnedFd> {
    // SAFETY: all zero asks for nothing.
    let mut attr: perf_event_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attr.type_ = abi::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(abi::PERF_COUNT_SW_DUMMY);
    attr.size = size_of::<perf_event_attr>() as u32;
    // What makes a record one of 32 bytes.
    attr.sample_type = u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.__bindgen_anon_2.wakeup_watermark = WATERMARK;
    attr.set_watermark(1);
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_context_switch(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    // SAFETY: lives through the call; the event writes to no memory of the user's but to rings that are mapped for it.
    let fd = unsafe { perf_event_open(&raw mut attr, 0, -1, -1, abi::PERF_FLAG_FD_CLOEXEC.into()) };
    // SAFETY: just made.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Puts a ring, or zeros, in a place. Whether it could.
fn cover(place: u32, log: RawFd) -> bool {
    let kind = if log < 0 { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
    // SAFETY: within the arena, which is nobody else's.
    unsafe {
        let at = ARENA.load(Ordering::Acquire).add(place as usize * PLACE);
        libc::mmap(at.cast(), PLACE, libc::PROT_READ, kind | libc::MAP_FIXED, log, 0) != libc::MAP_FAILED
    }
}

fn take_place() -> Option<u32> {
    if ARENA.load(Ordering::Acquire).is_null() {
        return None;
    }
    TAKEN.iter().enumerate().find_map(|(at, word)| {
        let before = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| {
            (taken != u64::MAX).then(|| taken | (taken + 1))
        });
        before.ok().map(|taken| at as u32 * 64 + taken.trailing_ones())
    })
}

fn give_back(place: u32) {
    TAKEN[place as usize / 64].fetch_and(!(1 << (place % 64)), Ordering::AcqRel);
}

#[cfg(all(test, not(loom)))]
mod tests;
