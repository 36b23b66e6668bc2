//! Notices blocked threads without privileges, by the kernel's own log of a thread's switches (PERF_RECORD_SWITCH, Linux 4.17;
//! `perf_event_paranoid` ≤ 2).
//!
//! Each tracked thread has a *log*: a perf event of its own, and a ring that only the kernel writes. The ring is mapped read-only, so it is never
//! full: the kernel overwrites old records, and no reader has to advance a position. The last record tells the thread's state:
//!
//! | last record | the thread |
//! |---|---|
//! | in | runs |
//! | out, preempted | waits for a CPU |
//! | out | is blocked, or was woken and waits for a CPU: the log does not distinguish these |
//!
//! Thus reading a thread's state takes no system call, and a wrong state is corrected at the thread's next switch. All records have 32 bytes, and
//! they alternate between out and in. With a watermark of 64 bytes, the kernel wakes the watcher (a standby, or the leader) at each *out* and at no
//! *in*: the kernel keeps a mark; if more than 64 bytes were written since the mark, it wakes the watcher and advances the mark by 64 bytes
//! (kernel/events/ring_buffer.c, `__perf_output_begin`). If it woke the watcher at *in* as well, the watcher would take the thread's CPU, which
//! causes an out and an in, and so on.
//!
//! A thread that sleeps because it has nothing to do (`rest`) stops its log meanwhile, since no standby has to be woken.
//!
//! The rings are mapped into an arena, which is divided into *places* of a fixed size, one for each log. When a log is closed, zeros are mapped over
//! its place. A thread that still reads there then finds no record, so no lock is needed.

use std::cell::Cell;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::bindings::{perf_event_attr, perf_event_mmap_page};
use perf_event_open_sys::perf_event_open;

use crate::descriptors::{out_of_the_way, owned};
use crate::shared::{has_ready, is_live, kernel_page, program_page, was_ever_live};
use crate::thread::Errno;
use crate::wait_set;

const PAGE: usize = 4096;
/// Bytes in the arena for the log of one thread: one page with the kernel's write position, and one page of records.
const PLACE: usize = 2 * PAGE;
/// Maximum number of tracked threads.
pub const PLACES: usize = 256;
const RECORD: u64 = size_of::<Record>() as u64;
/// Number of logged bytes after which the kernel wakes a standby (or the leader): two records, which is once for each switch-out.
const WATERMARK: u32 = 2 * RECORD as u32;
/// `PERF_EVENT_IOC_ENABLE` and `_DISABLE` (include/uapi/linux/perf_event.h).
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;

/// A record in a ring: a header without a body, and the fields that `sample_id_all` adds.
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

/// One switch of a thread into or out of a CPU, as recorded in the thread's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The kind of switch.
    pub kind: Kind,
    /// The CPU on which the thread was switched.
    pub cpu: u32,
    /// Time of the switch, nanoseconds on CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// Kinds of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The thread was switched in.
    In,
    /// The thread was switched out although it was still runnable.
    Preempted,
    /// The thread was switched out because it waits for something.
    Blocked,
}

/// A reader's position in a log, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position(u64);

/// The state of a tracked thread, as shown by the last record in its log of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// True if the thread runs or waits for a CPU.
    pub is_runnable: bool,
    /// The CPU on which the thread runs or ran last.
    pub cpu: u32,
    /// Time of the thread's last switch, nanoseconds on CLOCK_MONOTONIC; 0 while the thread sleeps because it has no work (`rest`).
    pub since_ns: u64,
}

/// Address of the arena, in which the logs of all tracked threads are mapped; null until [`begin`] has reserved it.
static ARENA: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Number of places in the arena that have ever held a thread's log. They are the first ones.
static USED: AtomicU32 = AtomicU32::new(0);
static TAKEN: [AtomicU64; PLACES / 64] = [const { AtomicU64::new(0) }; PLACES / 64];
/// One word for each log in the arena: 1 while the log's thread sleeps because it has no work (`rest`), otherwise 0. While the word is 1, the log is
/// stopped.
static RESTS: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
/// Time at which the most recently blocked thread blocked, as far as any caller of [`left`] has seen.
static LAST_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The calling thread's place in the arena of logs, and the descriptor of its log.
    static OWN: Cell<Option<(u32, RawFd)>> = const { Cell::new(None) };
    /// The calling thread's last call of `is_crowded`: the length of the thread's log at that time, in bytes, and the result.
    static LOOKED: Cell<(u64, bool)> = const { Cell::new((0, false)) };
}

/// Tests whether the kernel lets this user open perf events that log the switches of the user's own threads.
///
/// # Errors
/// The kernel's error, if it refuses.
pub fn probe() -> io::Result<()> {
    open().map(drop)
}

/// Reserves memory for logs, if none is reserved yet. Must not be called by two threads at the same time. Returns `None` if there is no memory.
pub fn begin() -> Option<()> {
    if !ARENA.load(Ordering::Acquire).is_null() {
        return Some(());
    }
    // SAFETY: the call makes a new mapping, at an address that the kernel chooses. It is never unmapped.
    let place = unsafe {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(ptr::null_mut(), PLACES * PLACE, libc::PROT_READ, kind, -1, 0)
    };
    (place != libc::MAP_FAILED).then(|| ARENA.store(place.cast(), Ordering::Release))
}

/// Opens a log for the calling thread. Returns `false` if the kernel refuses, or if all places are taken.
pub fn enlist() -> bool {
    if OWN.get().is_some() {
        return true;
    }
    let Some(place) = take_place() else { return false };
    // If no high descriptor number is free, a low one is used.
    let log = open().and_then(out_of_the_way).or_else(|_| open());
    let Some(log) = log.ok().filter(|log| cover(place, log.as_raw_fd())) else {
        // A failed mapping of the ring may have removed what was mapped there before. Readers must find zeros.
        cover(place, -1);
        give_back(place);
        return false;
    };
    RESTS[place as usize].store(0, Ordering::Relaxed);
    USED.fetch_max(place + 1, Ordering::AcqRel);
    wait_set::watch(log.as_raw_fd());
    OWN.set(Some((place, log.into_raw_fd())));
    true
}

/// Returns the place of the calling thread's log in the arena, and the log's descriptor, which becomes readable when the thread is switched out.
/// `None` if the thread has no log.
#[must_use]
pub fn own() -> Option<(u32, RawFd)> {
    OWN.get()
}

/// Closes the calling thread's log.
pub fn discharge() {
    let Some((place, log)) = OWN.take() else { return };
    cover(place, -1);
    // After the end of a session, the descriptor is not closed: the program may have closed it already, and may have a file of its own under this
    // number.
    if is_live() || !was_ever_live() {
        // SAFETY: `enlist` opened this descriptor, and no other code closes it. Closing it also removes it from the epoll set.
        unsafe { libc::close(log) };
    }
    give_back(place);
}

/// Forgets all logs of thread switches in a forked child: they belong to the parent's threads.
pub(crate) fn forked() {
    ARENA.store(ptr::null_mut(), Ordering::Release);
    USED.store(0, Ordering::Relaxed);
    TAKEN.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    OWN.set(None);
}

/// The mark of a thread that sleeps because it has no work (`rest`). A thread without a log has no mark.
pub(crate) struct Resting(Option<(u32, RawFd)>);

impl Resting {
    /// Sets the calling thread's mark before it sleeps: other threads no longer count it as runnable.
    pub(crate) fn begin() -> Resting {
        let resting = Resting(OWN.get());
        resting.says(1);
        resting
    }

    /// Stops the thread's log of switches, so that the kernel does not wake a standby when the thread begins to sleep.
    pub(crate) fn stop_log(&self) {
        self.tell(DISABLE);
    }

    /// Called when the thread has work again: starts its log again, and removes the mark.
    pub(crate) fn end(self) {
        self.tell(ENABLE);
        self.says(0);
    }

    fn says(&self, rests: u32) {
        self.0.iter().for_each(|(place, _)| RESTS[*place as usize].store(rests, Ordering::Release));
    }

    fn tell(&self, what: libc::c_ulong) {
        let Some((_, log)) = self.0 else { return };
        let _errno = Errno::keep();
        // SAFETY: `log` is this thread's own perf event, and the request takes no argument.
        unsafe { libc::ioctl(log, what, 0) };
    }
}

/// Returns whether fewer threads are runnable than there are CPUs.
pub(crate) fn has_free_cpu() -> bool {
    let cpus = program_page().cpus.load(Ordering::Relaxed) as usize;
    states().filter(|state| state.is_runnable).take(cpus).count() < cpus
}

/// Returns whether another thread wants the calling thread's CPU, and no other CPU is free.
pub(crate) fn is_crowded() -> bool {
    // If no thread wants this CPU, that stays true until the calling thread's log grows. Another thread counts as waiting for this CPU only if the
    // last record of its log names this CPU, so it must have been switched in here. For that, the calling thread must have been switched out, which
    // adds a record to the calling thread's log.
    let written = OWN.get().map_or(0, |(place, _)| written(place));
    let (looked, was) = LOOKED.get();
    let is = (written != looked || was) && is_crowded_now();
    LOOKED.set((written, is));
    is
}

pub(crate) fn is_crowded_now() -> bool {
    // SAFETY: the call takes no arguments; the C library reads the number from memory.
    let cpu = unsafe { libc::sched_getcpu() } as u32;
    let (mut all, mut here) = (0, 0);
    states().filter(|state| state.is_runnable).for_each(|state| {
        all += 1;
        here += u32::from(state.cpu == cpu);
    });
    all > program_page().cpus.load(Ordering::Relaxed) && here > 1
}

/// Looks for work on behalf of the standby or leader that the kernel has woken because a tracked thread left its CPU. If there is a task and a free
/// CPU for it, returns the time at which the most recently blocked thread blocked, nanoseconds on CLOCK_MONOTONIC; otherwise `None`.
pub(crate) fn left() -> Option<u64> {
    fence(Ordering::SeqCst);
    let last = states().filter(|state| !state.is_runnable).max_by_key(|state| state.since_ns)?;
    if LAST_NS.fetch_max(last.since_ns, Ordering::AcqRel) < last.since_ns {
        kernel_page()?.blocks.fetch_add(1, Ordering::Relaxed);
    }
    let is_left = || !states().any(|state| state.is_runnable && state.cpu == last.cpu);
    (has_ready() && (has_free_cpu() || is_left())).then_some(last.since_ns)
}

/// Returns the states of all tracked threads that have a log with a record.
fn states() -> impl Iterator<Item = ThreadState> {
    (0..USED.load(Ordering::Acquire)).filter_map(state)
}

/// Returns the state of the thread whose log is at this place of the arena; `None` if the log has no record.
#[must_use]
pub fn state(place: u32) -> Option<ThreadState> {
    // The kernel overwrites a log's last record only after 127 more switches, so reading it needs no check.
    let last = switch(place, written(place).checked_sub(RECORD)?)?;
    let rests = RESTS[place as usize].load(Ordering::Acquire) != 0;
    let since_ns = if rests { 0 } else { last.time_ns };
    Some(ThreadState { is_runnable: !rests && last.kind != Kind::Blocked, cpu: last.cpu, since_ns })
}

/// Returns the kernel's write position in the log at this place of the arena.
#[must_use]
pub fn end(place: u32) -> Position {
    Position(written(place))
}

/// Calls `each` for every switch in the log at this place that was logged after position `from`, and advances `from`. Returns false if some switches
/// were missed, because the kernel overwrites records that are older than 127 switches.
pub fn follow(place: u32, from: &mut Position, mut each: impl FnMut(Switch)) -> bool {
    let mut is_whole = true;
    while from.0 < written(place) {
        let read = switch(place, from.0);
        // The end is read again after the record, to find out whether the record was overwritten. The kernel may already be writing one record beyond
        // that end.
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

/// Returns the switch whose record begins at byte `at` of the log at this place of the arena.
fn switch(place: u32, at: u64) -> Option<Switch> {
    let arena = ARENA.load(Ordering::Acquire);
    if arena.is_null() {
        return None;
    }
    let at = place as usize * PLACE + PAGE + at as usize % PAGE;
    // SAFETY: the address is within the arena, whose places are mapped to zeros or to a ring. It is aligned, as all records are.
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

/// Returns how many bytes the kernel has written so far to the log at this place of the arena.
fn written(place: u32) -> u64 {
    let arena = ARENA.load(Ordering::Acquire);
    if arena.is_null() {
        return 0;
    }
    let at = place as usize * PLACE + std::mem::offset_of!(perf_event_mmap_page, data_head);
    // SAFETY: the word is within the arena and aligned, and the kernel writes it in one store.
    unsafe { arena.add(at).cast::<AtomicU64>().as_ref() }.map_or(0, |head| head.load(Ordering::Acquire))
}

/// Opens the perf event of the calling thread's log.
fn open() -> io::Result<OwnedFd> {
    // SAFETY: an attribute of zeros is valid and requests nothing.
    let mut attr: perf_event_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attr.type_ = abi::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(abi::PERF_COUNT_SW_DUMMY);
    attr.size = size_of::<perf_event_attr>() as u32;
    // These fields make each record 32 bytes long.
    attr.sample_type = u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.__bindgen_anon_2.wakeup_watermark = WATERMARK;
    attr.set_watermark(1);
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_context_switch(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    // SAFETY: the attribute outlives the call. The event writes only to rings that are mapped for it.
    unsafe { owned(perf_event_open(&raw mut attr, 0, -1, -1, abi::PERF_FLAG_FD_CLOEXEC.into())) }
}

/// Maps the ring of a log, whose perf event is `log`, into the place number `place` of the arena. If `log` is negative, maps zeros there. Returns
/// whether the mapping succeeded.
fn cover(place: u32, log: RawFd) -> bool {
    let kind = if log < 0 { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
    // SAFETY: the replaced mapping is within the arena, which only this module uses.
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
