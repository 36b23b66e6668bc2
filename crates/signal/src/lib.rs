//! Which of a program's threads block, as the kernel says, and doorbells that it rings: the side inside the program.
//!
//! A *standby* is a thread that has nothing to do as long as the program's own threads keep their CPUs busy. It is parked at
//! a doorbell. When a thread blocks while tasks are pending, and fewer are runnable than there are CPUs, BPF rings one (`watch/src/bpf/prog/overlap.bpf.h`).
//!
//! Nobody asks the kernel for any of this: both sides map the same memory ([`wire::umt`]).
//!
//! Without privileges there are two other ways. The kernel's records of a thread's own switches wake a parked standby, which looks itself
//! ([`records`]; [`leader`]: they wake one thread that rings). Or the kernel shows that a CPU is idle by running a thread of the idle class there
//! ([`sentinel`]), whose ring is in the place of BPF's.
//!
//! # The protocol
//!
//! Three parties write one word and then read another's; each has a full fence in between.
//!
//! 1. A thread that has put a task into a queue reads `runnable`. Are there fewer runnable threads than CPUs, it takes a bit of `parked` and
//!    rings that bell itself ([`has_put`]).
//! 2. BPF counts `runnable`, and who is ready on its CPU, down when a thread blocks, and then looks at the queues. Is there a task, and no other
//!    thread on that CPU, or are fewer threads runnable than there are CPUs, it takes a bit of `parked` and rings that bell. It looks, too, when a
//!    stranger leaves a CPU idle. A CPU that goes idle looks at about 1024 queues; others come next time.
//! 3. A standby sets its bit in `parked`, and then looks at the queues once more ([`standby::park`]). To the kernel its sleep is a block
//!    like others: 2.
//!
//! With records, 2 is done by whoever the kernel wakes at a switch-out: the record was written before, and what it reads of the queues it reads behind
//! a full fence (`records::left`). The sleep of a standby, and of a member without work, wakes nobody; so they look in the kernel's place once they are
//! seen to rest, again behind a full fence ([`rest`]).
//!
//! A standby gives way to whoever has unblocked *on its CPU*, at the next scheduling point ([`is_crowded`]). On its CPU, because the scheduler is slow
//! to move a thread that waits elsewhere to a CPU that has just gone idle: with `runnable` alone CPUs were idle for 6 % of the time while threads
//! waited for others.
//!
//! *No task is left while a CPU is free and a standby is parked.* A CPU becomes free for us when a thread blocks, a task when it is put.
//! Whichever was second has seen the other, by 1 or 2. A standby that parks meanwhile is one of those who can be rung then, or it
//! sees the task by 3. `protocol` says this in code, and a model checker plays all orders of it.
//!
//! *Turned down:* a word that says whether tasks are pending at all, which would save the fence in 1 while it is set. Somebody has to clear it,
//! and whoever puts a task while it is set falsely does not look for a free CPU; the model checker found the order in which all others are
//! blocked by then.
//!
//! Words that are wrong, because an event was lost, or because the session that counted is dead, cost time and no task: queues
//! are looked at by the program's own threads as ever.

pub mod bell;
pub mod connect;
pub mod futex;
pub mod leader;
mod pages;
pub mod protocol;
pub mod records;
pub mod sentinel;
pub mod slices;
pub mod standby;
mod together;

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use wire::umt::{How, PROBES, Queue, Said, Seen, place};

use pages::Pages;
use protocol::Words;

/// Times that a thread tries to leave its CPU.
const LEAVES: u32 = 100;

/// Times that a standby lets others go first before it parks. A pipeline (`workloads/blocked`) was at 0.96 of the best number of threads by hand
/// with 0, at 0.98 with 1 and at 0.99 with 2; other programs did not differ.
const YIELDS: u32 = 2;

/// Without a session.
static ALONE: Said = Said::new();

static SAID: AtomicPtr<Said> = AtomicPtr::new((&raw const ALONE).cast_mut());
static SEEN: AtomicPtr<Seen> = AtomicPtr::new(ptr::null_mut());
/// The page of the session that there is, or was; null: never.
static PAGE: AtomicPtr<Said> = AtomicPtr::new(ptr::null_mut());
/// Its page is no session's any more: it is a child's.
static IS_OWN: AtomicBool = AtomicBool::new(false);
/// By whom: a [`How`].
static HOW: AtomicU32 = AtomicU32::new(How::Bpf as u32);

/// Whether standbys may have run tasks of this process, also if they do no more: what tasks were told must stay true.
#[inline]
#[must_use]
pub fn was_ever_live() -> bool {
    !PAGE.load(Ordering::Relaxed).is_null()
}

/// What this process says.
#[inline]
#[must_use]
pub fn said() -> &'static Said {
    // SAFETY: a static, or a mapping that stays.
    unsafe { &*SAID.load(Ordering::Relaxed) }
}

/// What the kernel says; `None` where there is no session.
#[inline]
#[must_use]
pub fn seen() -> Option<&'static Seen> {
    // SAFETY: null, or a mapping that stays.
    unsafe { SEEN.load(Ordering::Relaxed).as_ref() }
}

/// Whether blocking is noticed: there is somebody who says so.
#[inline]
#[must_use]
pub fn is_live() -> bool {
    seen().is_some()
}

/// The pages are there. Before the first task, by one thread.
pub(crate) fn begin(said: &'static Said, seen: &'static Seen, how: How) {
    HOW.store(how as u32, Ordering::Release);
    SAID.store(ptr::from_ref(said).cast_mut(), Ordering::Release);
    PAGE.store(ptr::from_ref(said).cast_mut(), Ordering::Release);
    // Last: from here on it is live.
    SEEN.store(ptr::from_ref(seen).cast_mut(), Ordering::Release);
}

/// After fork, in the child: the pages are its parent's, and so are logs.
pub fn forked() {
    records::forked();
    // A child's child has its own already.
    if was_ever_live() && !IS_OWN.swap(true, Ordering::Relaxed) {
        become_own(PAGE.load(Ordering::Relaxed).cast());
    }
    end();
}

/// Puts a page of the child's own, in which nothing is said, where its parent's is. The child may be in the middle of a task, and go on with its
/// team: ends of queues in there would be those of its parent's queues.
fn become_own(page: *mut libc::c_void) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: a mapping of this size (`connect`), of which nobody else in this process knows. All zero are words like others.
    let own = unsafe { libc::mmap(page, size_of::<Said>(), access, kind, -1, 0) };
    if own == libc::MAP_FAILED {
        // Without a page of its own it must not touch its parent's.
        let why = b"cox: no memory for a child of a program that runs with overlap: it ends\n";
        // SAFETY: so many bytes; and ends the process.
        unsafe {
            libc::write(2, why.as_ptr().cast(), why.len());
            libc::_exit(libc::EXIT_FAILURE)
        };
    }
}

/// Nobody counts any more: the session has ended. The pages stay mapped, since threads may be looking at them. Whether they were used until now.
pub fn end() -> bool {
    let was_live = !SEEN.swap(ptr::null_mut(), Ordering::AcqRel).is_null();
    SAID.store((&raw const ALONE).cast_mut(), Ordering::Release);
    sentinel::dismiss();
    was_live
}

/// Ends of so many queues, which lie side by side and stay; BPF looks at them. `None`: there is no room, and they can be anywhere: tasks in
/// them are seen by threads only.
#[must_use]
pub fn queues(count: u32) -> Option<&'static [Queue]> {
    claim(said(), count).filter(|_| is_live())
}

/// So many queues of a page that nobody has yet. The page can be written by others: how many are used may be any number.
fn claim(said: &Said, count: u32) -> Option<&[Queue]> {
    let end = |first: u32| first.checked_add(count).filter(|end| *end as usize <= said.queue.len());
    let first = said.queues.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end).ok()?;
    said.queue.get(first as usize..end(first)? as usize)
}

/// Whether the kernel has seen a thread of this process block, the calling one not least.
#[must_use]
pub fn has_blocked(seen: &Seen) -> bool {
    // Again, if need be: on a busy machine a sleep may be over before it has begun, or begin with a preemption.
    (0..100).any(|_| {
        let has = seen.blocks.load(Ordering::Acquire) > 0;
        if !has {
            sleep_ns(50_000);
        }
        has
    })
}

fn sleep_ns(ns: libc::c_long) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: a time to sleep, and nowhere to write what is left of it.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// CPUs that this process may use; 0: not known.
#[inline]
#[must_use]
pub fn cpus() -> u32 {
    said().cpus.load(Ordering::Relaxed)
}

/// A task was put into a queue: rings a standby if there is a CPU for it.
#[inline]
pub fn has_put() {
    let (Some(seen), said) = (seen(), said()) else { return };
    let how = how();
    if how == How::Sentinels {
        return sentinel::has_put();
    }
    if let Some(bell) = protocol::announce(&Pages { said, seen }) {
        said.counts.0.own_rings.fetch_add(1, Ordering::Relaxed);
        if how == How::Records { together::ring() } else { bell::ring(bell) }
    }
}

/// Whether there is a CPU, and a standby, for one more task, as far as can be seen without a fence: for who could make more tasks.
#[inline]
#[must_use]
pub fn wants_more() -> bool {
    seen().is_some_and(|seen| {
        let is_free = || {
            if how() == How::Sentinels { sentinel::is_one_idle() } else { Pages { said: said(), seen }.has_free_cpu() }
        };
        // First what is one word.
        said().parked.0.load(Ordering::Relaxed) != 0 && is_free()
    })
}

/// By whom blocked threads are noticed.
#[inline]
#[must_use]
pub fn how() -> How {
    How::from_number(HOW.load(Ordering::Relaxed))
}

/// Sleeps for want of work, by [`futex::wait`] or the like: nobody is to be woken for it.
pub fn rest(sleep: impl FnOnce()) {
    if how() == How::Records && is_live() { records::rest(sleep) } else { sleep() }
}

/// Whether a queue that BPF looks at has a task.
#[must_use]
pub fn has_ready() -> bool {
    let said = said();
    let used = (said.queues.load(Ordering::Acquire) as usize).min(said.queue.len());
    said.queue[..used].iter().any(|queue| queue.begin.0.load(Ordering::Relaxed) < queue.end.0.load(Ordering::Relaxed))
}

/// Whether another thread that counts waits for the caller's CPU, and there is no other for it: a standby should leave. Without the second,
/// a standby that the scheduler has put beside another of its kind, since a stranger has the other CPU, would leave, be rung for that CPU, be put
/// there again, and so on.
#[inline]
#[must_use]
pub fn is_crowded() -> bool {
    match how() {
        How::Bpf => seen().is_some_and(is_crowded_by),
        How::Sentinels => sentinel::was_preempted(),
        How::Records | How::Leader => is_live() && records::is_crowded(),
    }
}

/// The same for a thread of the program's own, which nobody rings: it leaves its work to standbys only while there is one.
#[inline]
#[must_use]
pub fn may_leave() -> bool {
    is_live() && how() != How::Sentinels && is_crowded() && said().parked.0.load(Ordering::Relaxed) != 0
}

/// Lets the other threads that wait for the caller's CPU go first, and asks again. Returns whether the CPU [is crowded](is_crowded) all the same.
///
/// To park costs a doorbell later, and some 20 us in which a CPU is idle; where threads block often, those that wait are soon gone.
#[must_use]
pub fn is_crowded_after_yielding() -> bool {
    let yields = if how() == How::Bpf { YIELDS } else { 0 };
    (0..yields).all(|_| {
        // SAFETY: gives the CPU away for a while.
        unsafe { libc::sched_yield() };
        is_crowded()
    })
}

fn is_crowded_by(seen: &Seen) -> bool {
    if seen.runnable.load(Ordering::Relaxed) <= said().cpus.load(Ordering::Relaxed) as i32 {
        return false;
    }
    // SAFETY: asks for a number: a load, where the C library keeps it.
    let cpu = unsafe { libc::sched_getcpu() };
    seen.cpu.get(cpu as usize).is_some_and(|there| there.moves().ready() > 1)
}

/// The calling thread counts from now on, until [`discharge`]. `false`: there is no room for it.
pub fn enlist() -> bool {
    if !is_live() {
        return false;
    }
    // With BPF, standbys are those that stand back.
    if how() != How::Bpf {
        slices::shorten();
    }
    register()
}

/// The same for a thread whose scheduling is somebody else's to say.
pub fn register() -> bool {
    if !is_live() {
        return false;
    }
    if how().has_logs() {
        let is_seen = records::enlist();
        leave_once();
        return is_seen;
    }
    let (said, tid) = (said(), tid());
    let free = (0..PROBES)
        .find(|n| said.tids[place(tid, *n)].compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    said.generation.fetch_add(1, Ordering::AcqRel);
    leave_once();
    free.is_some()
}

/// Returns where the kernel counts how often the calling thread has blocked. `None`: it is not enlisted, or only BPF would count that.
#[must_use]
pub fn own_blocks() -> Option<&'static AtomicU32> {
    let (said, seen, tid) = (said(), seen()?, tid());
    let own = (0..PROBES).map(|n| place(tid, n)).find(|at| said.tids[*at].load(Ordering::Relaxed) == tid);
    own.filter(|_| how() == How::Bpf).map(|at| &seen.thread_blocks[at])
}

/// A thread is noticed, enlisted or discharged, when it next leaves its CPU: now.
pub fn leave_once() {
    let before = sleeps();
    // The time may be over before the thread has gone to sleep.
    for _ in 0..LEAVES {
        sleep_ns(1);
        if sleeps() != before {
            return;
        }
    }
}

/// How often the calling thread has gone to sleep.
fn sleeps() -> libc::c_long {
    usage().ru_nvcsw
}

/// What the kernel counts of the calling thread.
fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: a place for it, and a call that cannot fail.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// The calling thread counts no more.
pub fn discharge() {
    records::discharge();
    let (said, tid) = (said(), tid());
    for n in 0..PROBES {
        let _ = said.tids[place(tid, n)].compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    said.generation.fetch_add(1, Ordering::AcqRel);
}

/// Nobody counts any more, whom BPF knows: each thread from when it next leaves its CPU.
pub fn discharge_all() {
    let said = said();
    said.tids.iter().for_each(|word| word.store(0, Ordering::Release));
    said.generation.fetch_add(1, Ordering::AcqRel);
}

/// The time, on the clock that BPF has.
#[must_use]
pub fn now_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: a place for the time.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn tid() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() as u32 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wire::umt::QUEUES;

    use super::*;

    #[test]
    fn queues_are_claimed_once_whatever_the_page_says() {
        let said = Box::new(Said::new());
        let all = QUEUES as u32;
        let first = claim(&said, 3).map(<[Queue]>::as_ptr);
        assert_eq!(first, Some(said.queue.as_ptr()));
        assert_eq!(claim(&said, all - 3).map(<[Queue]>::as_ptr), Some(said.queue[3..].as_ptr()));
        assert!(claim(&said, 1).is_none(), "all are taken");
        for used in [all + 1, u32::MAX - 1, u32::MAX] {
            said.queues.store(used, Ordering::Relaxed);
            for count in [1, 2, all, u32::MAX] {
                assert!(claim(&said, count).is_none(), "{used} are used, {count} wanted");
            }
        }
    }
}
