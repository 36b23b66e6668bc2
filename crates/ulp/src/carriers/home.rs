//! The home task of a ULP: how its context leaves it, how it waits, and how the context returns.
//!
//! 1. The context blocks all signals, so that no handler runs while two tasks have the same thread-local storage. It saves its registers, and the home
//!    task goes on on a stack of its own ([`leave`], [`parked`]).
//! 2. The home task hands the context to its carrier and waits for a signal, *the nudge*. Signals that the ULP does not block end the wait, too: the home
//!    task keeps them, and asks the carrier for the context. Signals that the ULP blocks stay pending, for another thread of the ULP may take them.
//! 3. The carrier sends the nudge when it has saved the context completely ([`send`]), exactly once for each stay. The home task queues the signals that
//!    it has kept again, for itself and in their order, and continues the context.
//! 4. When the context's registers are in place, the signals that it does not block itself are unblocked, in a signal frame by the kernel. Then the kept
//!    signals arrive.
//!
//! A wait that ends without a signal was interrupted by a stop. If a debugger has stopped it, the context comes home, too, and stays there as long as it is
//! traced.
//!
//! A futex would wake the home task in less time, but could not be waited for together with signals. A signalfd(2) could, but would be a descriptor of
//! the program's.

use std::sync::atomic::Ordering;

use arch::Context;
use arch::frame::Frame;

use super::machine;
use super::record::{Record, call};
use super::waiting::Resumed;

/// The signal that wakes a parked home task (SIGRTMAX). A program may use it, too: the nudge has the record's address as its value.
const NUDGE: i32 = 64;
/// The signal that does so if the user may have no more queued signals (ulimit -i). It is ignored by default, and needs no place in a queue.
const NUDGE_WITHOUT_QUEUE: i32 = libc::SIGURG;
/// Maximum number of signals that a home task keeps. Further ones stay pending.
const MOST_KEPT: usize = 24;

/// The beginning of siginfo_t for signals that were queued by sigqueue(3), and its length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Info {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Info>() == 128);

impl Info {
    const EMPTY: Info = Info { signal: 0, errno: 0, code: 0, padding: 0, pid: 0, uid: 0, value: 0, rest: [0; 12] };

    /// The nudge for a record.
    fn nudge(record: *const Record) -> Info {
        Info { signal: NUDGE, code: libc::SI_QUEUE, value: record as u64, ..Info::EMPTY }
    }

    fn is_nudge(&self, record: *const Record) -> bool {
        self.signal == NUDGE && self.code == libc::SI_QUEUE && self.value == record as u64
    }
}

/// Whether this is the main thread of the ULP, on its home task.
///
/// # Safety
/// The caller must run on the home task of the record, or on another thread of its process.
pub(super) unsafe fn is_main_thread(record: *mut Record) -> bool {
    let tls = machine::tls();
    // SAFETY: the record is valid. Only the main thread writes the field, and it has one value.
    unsafe {
        if (*record).main_tls == 0 && has_pid(record) {
            (*record).main_tls = tls;
        }
        (*record).main_tls == tls
    }
}

/// Whether the calling thread of a ULP is its main thread, where TLS bases cannot be read.
///
/// # Safety
/// As for [`is_main_thread`].
pub(super) unsafe fn has_pid(record: *mut Record) -> bool {
    // SAFETY: the record is valid.
    unsafe { machine::call4(libc::SYS_gettid, 0, 0, 0, 0) == (*record).pid.load(Ordering::Relaxed).into() }
}

/// A traced ULP checks once in this number of coupled yields whether it still is.
const LOOK_FOR_TRACER: u64 = 256;

/// Whether a ULP that yields at home must stay there: the program has asked for it, a debugger traces it, or it has a shadow stack.
///
/// # Safety
/// The caller must be the ULP's main thread, on its home task.
pub(super) unsafe fn must_stay(record: *mut Record) -> bool {
    // SAFETY: at home, the context owns its record.
    unsafe {
        let yields = (*record).counts.coupled_yields.load(Ordering::Relaxed);
        (*record).is_held || cannot_leave(record, yields.is_multiple_of(LOOK_FOR_TRACER))
    }
}

/// Whether a ULP cannot leave its home even if the program asks for it: see [`must_stay`]; or its carrier sleeps in a page fault. `look`: checks whether the debugger that traced it still does.
///
/// # Safety
/// As for [`must_stay`].
pub(super) unsafe fn cannot_leave(record: *mut Record, look: bool) -> bool {
    // SAFETY: at home, the context owns its record.
    unsafe {
        if look && (*record).is_traced.load(Ordering::Relaxed) {
            (*record).is_traced.store(has_tracer(), Ordering::Relaxed);
        }
        let has_shadow_stack = match (*record).has_shadow_stack {
            Some(known) => known,
            None => has_shadow_stack(),
        };
        (*record).has_shadow_stack = Some(has_shadow_stack);
        has_shadow_stack || (*record).is_traced.load(Ordering::Relaxed) || (*(*record).inbox).is_stuck()
    }
}

/// Whether the calling thread has a shadow stack: a second stack of return addresses, which the processor compares.
fn has_shadow_stack() -> bool {
    let mut features = 0u64;
    let (call, operation) = arch::SHADOW_STACK_STATUS;
    // SAFETY: the kernel writes the word, or knows no such operation.
    let result = unsafe { machine::call4(call, operation, (&raw mut features) as u64, 0, 0) };
    result == 0 && features & 1 != 0
}

/// Whether a debugger traces the calling task. If the kernel does not tell, none does.
fn has_tracer() -> bool {
    const NAME: &[u8] = b"TracerPid:\t";
    let mut text = [0u8; 256];
    let path = c"/proc/thread-self/status".as_ptr() as u64;
    // SAFETY: the path and the buffer are valid; the descriptor is closed again.
    let length = unsafe {
        let (at, flags) = (libc::AT_FDCWD as u64, (libc::O_RDONLY | libc::O_CLOEXEC) as u64);
        let file = machine::call4(libc::SYS_openat, at, path, flags, 0);
        if file < 0 {
            return false;
        }
        let length = machine::call4(libc::SYS_read, file as u64, text.as_mut_ptr() as u64, text.len() as u64, 0);
        machine::call4(libc::SYS_close, file as u64, 0, 0, 0);
        length
    };
    // The line is the eighth one; its first digit is 0 for none.
    let lines = text.get(..length.max(0) as usize).unwrap_or_default();
    let mut pid = lines.windows(NAME.len() + 1).filter_map(|part| part.strip_prefix(NAME));
    pid.next().is_some_and(|digits| digits.first().is_some_and(|digit| *digit != b'0'))
}

/// Leaves the home task for the carrier. Returns on the carrier, or at home after a stay there.
///
/// # Safety
/// The caller must be the ULP's main thread, on its home task.
pub(super) unsafe fn leave(record: *mut Record) {
    // SAFETY: at home, the context owns its record.
    unsafe {
        machine::touch_stack();
        (*record).yields = 0;
        (*record).counts.stays.fetch_add(1, Ordering::Relaxed);
        (*record).mask = machine::block_signals();
        (*record).alternate = machine::alternate();
        machine::park(&raw mut (*record).context, (*record).parking, parked);
    }
}

/// The home task without its context.
///
/// # Safety
/// Called by `park` only, with the context of a record, which is complete.
unsafe extern "C" fn parked(context: *mut Context) -> ! {
    // SAFETY: the context is a field of a record. After `push`, the record belongs to the carrier until the nudge comes: only its address, its pid,
    // which does not change, and atomics are used.
    unsafe {
        let record: *mut Record = context.byte_sub(std::mem::offset_of!(Record, context)).cast();
        let pid = (*record).pid.load(Ordering::Relaxed) as u64;
        let nudges = machine::bit(NUDGE) | machine::bit(NUDGE_WITHOUT_QUEUE);
        let mut awaited = !(*record).mask | nudges;
        let mut kept = [Info::EMPTY; MOST_KEPT];
        let mut count = 0;
        (*record).is_nudged_without_queue.store(false, Ordering::Relaxed);
        (*record).is_carried.store(true, Ordering::Relaxed);
        // Of the last stay. Only this task sets it.
        (*record).called.fetch_and(!call::HOME, Ordering::Relaxed);
        (*(*record).inbox).push(&raw mut (*record).link, machine::wake);
        loop {
            let mut info = Info::EMPTY;
            let (set, at) = ((&raw const awaited) as u64, (&raw mut info) as u64);
            let signal = machine::call4(libc::SYS_rt_sigtimedwait, set, at, 0, machine::SET_BYTES);
            if signal > 0 && info.is_nudge(record) {
                break;
            }
            // A negative number: the task was stopped and continued.
            let is_traced = signal < 0 && has_tracer();
            if is_traced {
                (*record).is_traced.store(true, Ordering::Relaxed);
            }
            if signal > 0 {
                if let Some(place) = kept.get_mut(count) {
                    *place = info;
                    count += 1;
                } else {
                    awaited = nudges;
                    queue(pid, &info);
                }
            }
            if signal > 0 || is_traced {
                (*record).called.fetch_or(call::HOME, Ordering::Release);
                (*(*record).inbox).call();
                // It may wait for another ULP, in no queue of its carrier.
                resume(record);
            }
            if (*record).is_nudged_without_queue.load(Ordering::Acquire) {
                break;
            }
        }
        kept.iter().take(count).for_each(|info| queue(pid, info));
        machine::load_with_mask(context, (*record).mask)
    }
}

/// Queues a signal for the calling task again.
unsafe fn queue(pid: u64, info: &Info) {
    // SAFETY: the kernel lets a task send itself any information. The place of the signal in the user's queue has just become free.
    unsafe {
        machine::call4(libc::SYS_rt_tgsigqueueinfo, pid, pid, info.signal as u64, (info as *const Info) as u64);
    }
}

/// Sends a context home, where it may run before this function returns; that of a dead ULP goes nowhere.
///
/// # Safety
/// The context must be complete, and nobody else may have it. For the carrier, and the host in its place.
pub(super) unsafe fn send(record: *mut Record) {
    // SAFETY: the carrier has the context, until the nudge is sent.
    unsafe {
        (*record).counts.yields.fetch_add((*record).yields, Ordering::Relaxed);
        let yields = (*record).yields;
        (*record).policy.on_home(yields);
        if (*record).context.frame != 0 {
            (*((*record).context.frame as *mut Frame)).give((*record).mask, (*record).alternate);
        }
        let pid = (*record).pid.load(Ordering::Relaxed) as u64;
        // Not left to the home task, which may be dead: then nobody else would say that no carrier uses the ULP's memory any more.
        (*record).is_carried.store(false, Ordering::Release);
        if (*record).called.load(Ordering::Acquire) & call::DEAD != 0 {
            // Its pid may be another process's by now.
            return;
        }
        let info = Info::nudge(record);
        let sent = machine::call4(libc::SYS_rt_tgsigqueueinfo, pid, pid, NUDGE as u64, (&raw const info) as u64);
        if sent == i64::from(-libc::EAGAIN) {
            (*record).is_nudged_without_queue.store(true, Ordering::Release);
            machine::call4(libc::SYS_tgkill, pid, pid, NUDGE_WITHOUT_QUEUE as u64, 0);
        }
    }
}

/// Resumes a ULP that has suspended itself, or makes its next suspend return at once.
///
/// # Safety
/// `record` must be a record. For everybody.
pub(super) unsafe fn resume(record: *mut Record) {
    // SAFETY: only atomics are used, unless the ULP was suspended on a carrier: then its link is in no inbox, and no one else hands it over.
    unsafe {
        match (*record).waiting.resume() {
            Resumed::Running => {}
            Resumed::Carried => {
                (*(*record).inbox).push(&raw mut (*record).link, machine::wake);
            }
            Resumed::Home => machine::wake((*record).waiting.word()),
        }
    }
}
