//! Idle CPUs noticed without privileges: on each CPU a thread of the idle class (SCHED_IDLE), which the kernel runs only where nobody else wants the CPU.
//!
//! 1. A *sentinel* that finds itself running while a queue has a task rings a standby. The kernel takes a CPU with nothing but an idle-class thread on
//!    it for idle, so the standby is put there, at once.
//! 2. A sentinel that runs and finds no task sleeps. Who puts a task while one sleeps wakes it (`has_put`); both have a full fence between
//!    what they write and what they read. While CPUs are busy, sentinels are runnable and do not run: nobody has to be woken.
//! 3. That a thread has unblocked beside a standby is noticed by the standby itself: it has been preempted since its last task, which
//!    the kernel counts ([`preempted`](crate::preempted)). It is late, by up to a tick, and strangers preempt, too; a standby that has left for nothing is rung again.
//!
//! On a machine with other work the kernel may let a thread of the idle class run for a tick before it looks for another one (research on the subject has seen 4 ms).

use std::sync::atomic::{AtomicU32, Ordering, fence};

use wire::umt::BELLS;

use crate::pages::Pages;
use crate::protocol::take_any;
use crate::shared::{has_ready, is_live, said, seen};
use crate::thread::{now_ns, sleep_ns};
use crate::{bell, futex};

/// Sentinels that sleep, a futex word for all of them.
static SLEEPING: AtomicU32 = AtomicU32::new(0);
/// Raised by who wakes them.
static CALLS: AtomicU32 = AtomicU32::new(0);
const EVERYBODY: u32 = i32::MAX as u32;
/// How long a standby takes to come; before that its CPU is idle to the sentinel still.
const PATIENCE_NS: libc::c_long = 50_000;

/// A task was put into a queue.
pub(crate) fn has_put() {
    fence(Ordering::SeqCst);
    if SLEEPING.load(Ordering::Relaxed) != 0 {
        CALLS.fetch_add(1, Ordering::AcqRel);
        futex::wake(&CALLS, EVERYBODY);
    }
}

/// Whether a CPU has been found idle, and no task for it.
pub(crate) fn is_one_idle() -> bool {
    SLEEPING.load(Ordering::Relaxed) != 0
}

/// What a sentinel does, on the CPU that it is to stay on, until the session is over.
pub fn stand(cpu: usize) {
    // SAFETY: a mask of CPUs, all zero, and a struct of the kernel's.
    let bound = unsafe {
        let mut mask: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut mask);
        let class = libc::sched_param { sched_priority: 0 };
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const mask) == 0
            && libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const class) == 0
    };
    while bound && is_live() {
        if has_ready() {
            call();
        } else {
            sleep();
        }
    }
}

/// This CPU is idle, and there is a task.
fn call() {
    let (Some(seen), said) = (seen(), said()) else { return };
    if let Some(at) = take_any(&Pages { said, seen }) {
        seen.rung_ns[at as usize % BELLS].store(now_ns(), Ordering::Relaxed);
        seen.rings.fetch_add(1, Ordering::Relaxed);
        bell::ring(at);
    } else {
        seen.no_standby.fetch_add(1, Ordering::Relaxed);
    }
    sleep_ns(PATIENCE_NS);
}

fn sleep() {
    let calls = CALLS.load(Ordering::Acquire);
    SLEEPING.fetch_add(1, Ordering::AcqRel);
    fence(Ordering::SeqCst);
    if !has_ready() && is_live() {
        futex::wait(&CALLS, calls);
    }
    SLEEPING.fetch_sub(1, Ordering::AcqRel);
}

/// Wakes all, who see that the session is over.
pub(crate) fn dismiss() {
    CALLS.fetch_add(1, Ordering::AcqRel);
    futex::wake(&CALLS, EVERYBODY);
}
