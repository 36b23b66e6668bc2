//! Notices idle CPUs without privileges. Each CPU has one thread of the idle class (SCHED_IDLE), which the kernel runs only if no other thread
//! wants the CPU.
//!
//! 1. A *sentinel* that runs while a queue has a task rings a standby: it wakes this thread, which then runs tasks. The kernel regards a CPU that
//!    runs only an idle-class thread as idle, so it puts the standby there immediately.
//! 2. A sentinel that runs and finds no task sleeps. A thread that queues a task while a sentinel sleeps wakes it (`has_put`). Both have a full fence
//!    between their write and their read. While CPUs are busy, sentinels are runnable but do not run, so none has to be woken.
//! 3. A standby notices by itself that a thread has unblocked on its CPU: the kernel's count of the standby's preemptions has grown since its last
//!    task (`preempted`). It notices this up to a tick late, and untracked threads preempt it as well. A standby that has left
//!    its CPU without need is rung again.
//!
//! If the machine also runs other programs, the kernel may let an idle-class thread run for up to a tick before it chooses another thread (research
//! on the subject has seen 4 ms).

use std::sync::atomic::{AtomicU32, Ordering, fence};

use wire::umt::BELLS;

use crate::pages::Pages;
use crate::protocol::take_any;
use crate::shared::{has_ready, is_live, kernel_page, program_page};
use crate::thread::{now_ns, sleep_ns};
use crate::{bell, futex};

/// Number of sleeping sentinels.
static SLEEPING: AtomicU32 = AtomicU32::new(0);
/// The futex word on which sentinels sleep. A thread that wakes them increments it.
static CALLS: AtomicU32 = AtomicU32::new(0);
const EVERYBODY: u32 = i32::MAX as u32;
/// Time for which a sentinel sleeps after it has rung a standby, nanoseconds: the standby needs that long to begin to run. Until then, the sentinel
/// would find its own CPU idle and the task still queued, and would ring another standby.
const PATIENCE_NS: libc::c_long = 50_000;

/// Called after a task was put into a queue: wakes the sleeping sentinels, so that those on idle CPUs ring standbys.
pub(crate) fn has_put() {
    fence(Ordering::SeqCst);
    if SLEEPING.load(Ordering::Relaxed) != 0 {
        wake_all();
    }
}

/// Returns whether a sentinel sleeps: it has found its CPU idle, and no task to run there.
pub(crate) fn is_one_idle() -> bool {
    SLEEPING.load(Ordering::Relaxed) != 0
}

/// Makes the calling thread the sentinel of a CPU: it runs only while the CPU is otherwise idle, and then wakes a standby if a task is queued.
/// Returns when the session is over.
pub fn stand(cpu: usize) {
    // SAFETY: `mask` and `class` are initialised, and the kernel only reads them.
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

/// Called when this CPU is idle while a task is queued: wakes a standby through its doorbell, so that it runs the task. Then sleeps for as long as
/// the standby needs to begin.
fn call() {
    let (Some(kernel_page), program_page) = (kernel_page(), program_page()) else { return };
    if let Some(at) = take_any(&Pages { program_page, kernel_page }) {
        kernel_page.rung_ns[at as usize % BELLS].store(now_ns(), Ordering::Relaxed);
        kernel_page.rings.fetch_add(1, Ordering::Relaxed);
        bell::ring(at);
    } else {
        kernel_page.no_standby.fetch_add(1, Ordering::Relaxed);
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

/// Wakes all sentinels, so that each looks whether there is a task, or whether the session is over.
pub(crate) fn wake_all() {
    CALLS.fetch_add(1, Ordering::AcqRel);
    futex::wake(&CALLS, EVERYBODY);
}
