//! The program's side of the doorbells: which threads of the program are blocked, and how a standby is woken.
//!
//! A *standby* is a thread that has nothing to do as long as the program's own threads keep their CPUs busy. It is parked at a doorbell. If a
//! thread blocks while tasks are pending, and fewer threads are runnable than there are CPUs, BPF rings one doorbell
//! (`watch/src/bpf/prog/overlap.bpf.h`).
//!
//! No system call is needed to exchange this state: the kernel side and the program map the same memory ([`wire::umt`]).
//!
//! Without privileges there are two other methods. *Records*: the kernel logs each thread's switches, and a new record wakes a parked standby, which
//! then looks for work itself ([`records`]); with [`leader`], a new record wakes one leader thread instead, which rings the standbys. *Sentinels*:
//! each CPU has a thread of the class SCHED_IDLE, which runs only if the CPU is otherwise idle, and then rings a standby in place of BPF
//! ([`sentinel`]).
//!
//! # The protocol
//!
//! Three parties each write one word and then read a word that another party writes, with a full fence in between.
//!
//! 1. A thread that has put a task into a queue reads `runnable`. If fewer threads are runnable than there are CPUs, it clears a bit of `parked`
//!    (which has one bit for each doorbell) and rings that doorbell itself ([`has_put`]).
//! 2. When a thread blocks, BPF decrements `runnable` and the count of ready threads on that CPU, and then looks at the queues. If a task is pending,
//!    and either no other thread is on that CPU or fewer threads are runnable than there are CPUs, BPF takes a bit of `parked` and rings that
//!    doorbell. BPF also looks at the queues when an untracked thread leaves a CPU idle. BPF looks at about 1024 queues at a time; the next time it
//!    looks at the others.
//! 3. A standby sets its bit in `parked`, and then looks at the queues once more ([`standby::park`]). The kernel treats the standby's sleep as a
//!    block like any other, so step 2 applies to it.
//!
//! With records, the thread that the kernel wakes at a switch-out does step 2. The kernel has written the record before it wakes the thread, and the
//! thread reads the queues after a full fence (`records::left`). If a standby, or a tracked thread without work, begins to sleep, no thread is woken.
//! Therefore such a thread looks at the queues itself, in the kernel's place: it first marks itself as resting, and then reads the queues after a
//! full fence ([`rest`]).
//!
//! At the next scheduling point, a standby leaves its CPU to a thread that has unblocked *on that CPU* ([`is_crowded`]). It is not enough to compare
//! `runnable` with the number of CPUs: the scheduler is slow to move a waiting thread to a CPU that has just gone idle, and with `runnable` alone
//! CPUs were idle for 6 % of the time while threads waited elsewhere.
//!
//! *No task is left while a CPU is free and a standby is parked.* A CPU becomes free when a thread blocks; a task becomes pending when it is put into
//! a queue. Whichever event is second sees the first one, by step 1 or 2. A standby that parks meanwhile either has set its bit by then, so that it
//! can be rung, or sees the task in step 3. The module `protocol` contains these steps without the kernel, and a model checker tests all their
//! interleavings.
//!
//! *Rejected alternative:* a word that says whether any task is pending. While this word is set, step 1 would need no fence. But some thread has to
//! clear that word, and a thread that queues a task while the word is stale does not look for a free CPU. The model checker found an interleaving in
//! which all other threads are blocked when this happens, so no standby is rung for the task.
//!
//! If the shared words are wrong, because an event was lost or the session has died, this costs time, but no task is lost: the program's own threads
//! look at the queues as usual.

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
mod wait_set;

use std::sync::atomic::{AtomicU32, Ordering};

use pages::{Pages, is_crowded_by};
use protocol::Words;
use thread::tid;
use wire::umt::{How, PROBES, place};

pub use descriptors::owned;
pub use shared::{cpus, has_blocked, has_ready, how, is_live, kernel_page, program_page, queues, was_ever_live};
pub use thread::{Errno, leave_once, now_ns};

/// Number of times that a standby yields before it parks. With 0, 1 and 2 yields, a pipeline (`workloads/blocked`) reached 0.96, 0.98 and 0.99 of the
/// speed that it has with the best hand-tuned number of threads. For other programs the number of yields made no difference.
const YIELDS: u32 = 2;

/// Detaches a forked child from the session: the pages and the logs belong to its parent.
pub fn forked() {
    records::forked();
    shared::leave_to_parent();
    end();
}

/// Stops using the pages that this process shares with the session, and wakes the sentinels so that they end. Call this if the session does not
/// count, or no longer counts, this process's threads. Returns whether the pages were in use until now.
pub fn end() -> bool {
    let was_live = shared::end();
    sentinel::wake_all();
    was_live
}

/// Called after a task was put into a queue. Rings a standby if there is a free CPU for it.
#[inline]
pub fn has_put() {
    let (Some(kernel_page), program_page) = (kernel_page(), program_page()) else { return };
    let how = how();
    if how == How::Sentinels {
        return sentinel::has_put();
    }
    if let Some(bell) = protocol::announce(&Pages { program_page, kernel_page }) {
        program_page.counts.0.own_rings.fetch_add(1, Ordering::Relaxed);
        if how == How::Records { wait_set::ring() } else { bell::ring(bell) }
    }
}

/// Returns whether a CPU is free for one more task, and a standby is parked (sleeps) that could run it. Reads without a fence, so the answer is only
/// a hint: it is meant for callers that could create more tasks.
#[inline]
#[must_use]
pub fn wants_more() -> bool {
    kernel_page().is_some_and(|kernel_page| {
        let is_free = || {
            if how() == How::Sentinels {
                sentinel::is_one_idle()
            } else {
                Pages { program_page: program_page(), kernel_page }.has_free_cpu()
            }
        };
        // The cheaper test, of one word, comes first.
        program_page().parked.0.load(Ordering::Relaxed) != 0 && is_free()
    })
}

/// Calls `sleep` (usually [`futex::wait`]), in which the calling thread waits for work. The kernel does not wake a standby when this sleep begins.
pub fn rest(sleep: impl FnOnce()) {
    if how() == How::Records && is_live() { rest::rest(sleep) } else { sleep() }
}

/// Returns whether a standby should leave its CPU: another tracked thread waits for that CPU, and no other CPU is free.
///
/// The second condition prevents a loop. Suppose an untracked thread occupies CPU A, so the scheduler puts a standby on CPU B, where another standby
/// runs. Without the condition, the standby would leave B. Its doorbell would wake it again, because A counts as free: no tracked thread runs there.
/// The scheduler would put it on B again, and so on.
#[inline]
#[must_use]
pub fn is_crowded() -> bool {
    match how() {
        How::Bpf => kernel_page().is_some_and(is_crowded_by),
        How::Sentinels => preempted::was_preempted(),
        How::Records | How::Leader => is_live() && records::is_crowded(),
    }
}

/// Returns whether one of the program's own threads should leave its CPU, and its tasks to standbys: [`is_crowded`] is true, and a standby is parked.
/// The parked standby is required because the program's thread has no doorbell that would wake it for the tasks.
#[inline]
#[must_use]
pub fn may_leave() -> bool {
    is_live() && how() != How::Sentinels && is_crowded() && program_page().parked.0.load(Ordering::Relaxed) != 0
}

/// Yields to the threads that wait for the caller's CPU. Returns whether, even after that, another thread waits for it ([`is_crowded`]).
///
/// Yields first, because parking is expensive: a doorbell has to be rung later, and a CPU is idle for about 20 us. If threads block often, those that
/// wait for the CPU soon leave it again.
#[must_use]
pub fn is_crowded_after_yielding() -> bool {
    let yields = if how() == How::Bpf { YIELDS } else { 0 };
    (0..yields).all(|_| {
        // SAFETY: the call takes no arguments; it gives up the CPU for a while.
        unsafe { libc::sched_yield() };
        is_crowded()
    })
}

/// Registers the calling thread as a tracked thread until [`discharge`]. Unless BPF rings the doorbells, also asks for short scheduler slices for
/// this thread. Returns `false` if there is no session, or if the session cannot track one more thread.
pub fn enlist() -> bool {
    // If BPF rings the doorbells, tracked threads keep their slices: then only standbys change their scheduling (`slices::Manners`).
    if is_live() && how() != How::Bpf {
        slices::shorten();
    }
    register()
}

/// Like [`enlist`], but does not change the thread's scheduling attributes: the runtime that calls the crate `umt` decides on them.
pub fn register() -> bool {
    if !is_live() {
        return false;
    }
    if how().has_logs() {
        let is_seen = records::enlist();
        leave_once();
        return is_seen;
    }
    let (program_page, tid) = (program_page(), tid());
    let free = (0..PROBES).find(|n| {
        program_page.tids[place(tid, *n)].compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    program_page.generation.fetch_add(1, Ordering::AcqRel);
    leave_once();
    free.is_some()
}

/// Returns the word in which the kernel counts how often the calling thread has blocked. Returns `None` if the thread is not enlisted, or if the
/// session does not use BPF: only BPF counts this.
#[must_use]
pub fn own_blocks() -> Option<&'static AtomicU32> {
    let (program_page, kernel_page, tid) = (program_page(), kernel_page()?, tid());
    let own = (0..PROBES).map(|n| place(tid, n)).find(|at| program_page.tids[*at].load(Ordering::Relaxed) == tid);
    own.filter(|_| how() == How::Bpf).map(|at| &kernel_page.thread_blocks[at])
}

/// Removes the calling thread from the tracked threads.
pub fn discharge() {
    records::discharge();
    let (program_page, tid) = (program_page(), tid());
    for n in 0..PROBES {
        let _ = program_page.tids[place(tid, n)].compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    program_page.generation.fetch_add(1, Ordering::AcqRel);
}

/// Removes all threads that BPF tracks. For each thread this takes effect when it next leaves its CPU.
pub fn discharge_all() {
    let program_page = program_page();
    program_page.tids.iter().for_each(|word| word.store(0, Ordering::Release));
    program_page.generation.fetch_add(1, Ordering::AcqRel);
}
