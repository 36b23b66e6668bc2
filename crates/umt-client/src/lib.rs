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
mod descriptors;
pub mod futex;
pub mod leader;
mod pages;
mod preempted;
pub mod protocol;
pub mod records;
mod rest;
pub mod sentinel;
mod shared;
pub mod slices;
pub mod standby;
mod thread;
mod together;

use std::sync::atomic::{AtomicU32, Ordering};

use pages::{Pages, is_crowded_by};
use protocol::Words;
use thread::tid;
use wire::umt::{How, PROBES, place};

pub use shared::{cpus, has_blocked, has_ready, how, is_live, queues, said, seen, was_ever_live};
pub use thread::{leave_once, now_ns};

/// Times that a standby lets others go first before it parks. A pipeline (`workloads/blocked`) was at 0.96 of the best number of threads by hand
/// with 0, at 0.98 with 1 and at 0.99 with 2; other programs did not differ.
const YIELDS: u32 = 2;

/// After fork, in the child: the pages are its parent's, and so are logs.
pub fn forked() {
    records::forked();
    shared::leave_to_parent();
    end();
}

/// Nobody counts any more: the session has ended. Whether its pages were used until now.
pub fn end() -> bool {
    let was_live = shared::end();
    sentinel::dismiss();
    was_live
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

/// Sleeps for want of work, by [`futex::wait`] or the like: nobody is to be woken for it.
pub fn rest(sleep: impl FnOnce()) {
    if how() == How::Records && is_live() { rest::rest(sleep) } else { sleep() }
}

/// Whether another thread that counts waits for the caller's CPU, and there is no other for it: a standby should leave. Without the second,
/// a standby that the scheduler has put beside another of its kind, since a stranger has the other CPU, would leave, be rung for that CPU, be put
/// there again, and so on.
#[inline]
#[must_use]
pub fn is_crowded() -> bool {
    match how() {
        How::Bpf => seen().is_some_and(is_crowded_by),
        How::Sentinels => preempted::was_preempted(),
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
