//! Signals of a carrier: what interrupts the context that it runs.
//!
//! - **A system call** (SIGSYS, syscall user dispatch). Most go home: the kernel has saved all registers in a frame, the context continues from it on its
//!   home task, and makes the call there. A few say nothing about who calls, and are made here.
//! - **A fault** (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP) goes home in the same way. The instruction is executed again there, and the kernel delivers
//!   the signal to the ULP.
//! - **Relief** after a page fault in which the carrier has slept (see `relief`).
//! - **A tick** of the carrier's CPU time: a context that has run since the last one goes to the end of the queue.
//!
//! Handlers run on a stack of the carrier's, because the context's may have overflowed. The frame is copied to the ULP's record, as the next handler
//! overwrites it. A handler that does not return has not changed the carrier's signal mask (SA_NODEFER, no `sa_mask`).

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use arch::frame::{CALL_ARCHITECTURE, Frame, STATE_ALIGN, STATE_TOLD_AT, state_bytes};

use super::actions;
use super::carrier::{Carrier, LAST_CALL};
use super::home;
use super::machine;
use super::record::{Kind, Record, Task};
use super::relief;
use super::strace;

/// Signals of instructions, which a carrier must not block.
pub(super) const SYNCHRONOUS: [i32; 6] =
    [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// The code of SIGSYS from syscall user dispatch (SYS_USER_DISPATCH).
const USER_DISPATCH: i32 = 2;
/// Where SIGSYS has the architecture of the call.
const ARCHITECTURE_AT: usize = 28;

/// The host's own code. Begin and end.
static RUNTIME: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Says where the host's own code is: a tick there finds the carrier's queues half-changed.
pub(super) fn set_runtime(code: Range<u64>) {
    RUNTIME[0].store(code.start, Ordering::Relaxed);
    RUNTIME[1].store(code.end, Ordering::Relaxed);
}

fn is_runtime(address: u64) -> bool {
    (RUNTIME[0].load(Ordering::Relaxed)..RUNTIME[1].load(Ordering::Relaxed)).contains(&address)
}

/// The handler of all signals of carriers.
///
/// # Safety
/// Called by the kernel, with a frame on the handlers' stack.
pub(super) unsafe extern "C" fn handle(signal: i32, info: *const libc::siginfo_t, frame: *mut Frame) {
    // SAFETY: the kernel passes valid pointers. The host's threads have a `Task`.
    unsafe {
        let task = Task::current();
        let carrier: *mut Carrier = task.cast_mut().cast();
        let is_carrier = !task.is_null() && (*task).kind == Kind::Carrier;
        if is_carrier {
            (*carrier).relief.arrive(machine::wait);
            // Who runs a handler is awake.
            if (*carrier).inbox.is_stuck() {
                (*carrier).inbox.set_stuck(false);
            }
        }
        if !is_carrier || is_own(carrier, &*frame) {
            if SYNCHRONOUS.contains(&signal) {
                // A fault of the host itself ends it. So does such a signal from another process, which the fault does not repeat.
                actions::restore_default(signal);
                let pid = machine::call4(libc::SYS_getpid, 0, 0, 0, 0);
                machine::call4(libc::SYS_kill, pid as u64, signal as u64, 0, 0);
            }
            return;
        }
        let me = (*carrier).current;
        match signal {
            libc::SIGSYS if (*info).si_code == USER_DISPATCH => on_call(carrier, me, info, frame),
            _ if SYNCHRONOUS.contains(&signal) => {
                (*frame).repeat_fault(|address| *(address as *const u8));
                go_home(carrier, me, frame)
            }
            relief::SIGNAL if is_runtime((*frame).instruction()) => {}
            // The fault may have been interrupted. It happens again at home.
            relief::SIGNAL => go_home(carrier, me, frame),
            _ => on_tick(carrier, me, frame),
        }
    }
}

/// Whether a handler has interrupted the carrier itself: its loop, or another handler.
unsafe fn is_own(carrier: *mut Carrier, frame: &Frame) -> bool {
    // SAFETY: the caller runs on the carrier.
    let ((begin, end), current) = unsafe { ((*carrier).handlers, (*carrier).current) };
    current.is_null() || (begin..end).contains(&frame.stack_pointer())
}

/// A system call was stopped.
unsafe fn on_call(carrier: *mut Carrier, me: *mut Record, info: *const libc::siginfo_t, frame: *mut Frame) {
    // SAFETY: the caller is the handler, on the carrier that runs `me`.
    unsafe {
        if is_64_bit(info) {
            if (*frame).call() == libc::SYS_sched_yield {
                strace::show((*me).number, Some((*frame).call() as usize), [0; 6], Some(0));
                (*frame).set_result(0);
                (*me).yields += 1;
                if Carrier::has_others(carrier) {
                    requeue(carrier, me, frame);
                }
                return machine::yield_to_kernel();
            }
            if let Some(result) = without_identity(me, &*frame) {
                strace::show((*me).number, Some((*frame).call() as usize), (*frame).arguments(), Some(result));
                return (*frame).set_result(result);
            }
        }
        // 32-bit programs' numbers mean other calls.
        let number = is_64_bit(info).then(|| (*frame).call() as usize);
        strace::show((*me).number, number, (*frame).arguments(), None);
        let number = number.unwrap_or(LAST_CALL);
        (*carrier).calls[number.min(LAST_CALL)].fetch_add(1, Ordering::Relaxed);
        (*frame).repeat_call();
        go_home(carrier, me, frame)
    }
}

/// A tick of the carrier's CPU time.
unsafe fn on_tick(carrier: *mut Carrier, me: *mut Record, frame: *mut Frame) {
    // SAFETY: the caller is the handler, on the carrier that runs `me`.
    unsafe {
        let has_run = (*carrier).switches == (*carrier).switches_at_tick;
        (*carrier).switches_at_tick = (*carrier).switches;
        let must_part = (*me).called.load(Ordering::Relaxed) != 0 || Carrier::has_others(carrier);
        if has_run && must_part && !is_runtime((*frame).instruction()) {
            requeue(carrier, me, frame);
        }
    }
}

/// Whether SIGSYS is for a call with the numbers of 64-bit programs.
unsafe fn is_64_bit(info: *const libc::siginfo_t) -> bool {
    // SAFETY: the kernel passes 128 bytes.
    unsafe { info.byte_add(ARCHITECTURE_AT).cast::<u32>().read() == CALL_ARCHITECTURE }
}

/// Makes a system call that depends only on the address space or on the machine. Returns its result; `None` for all others.
unsafe fn without_identity(me: *mut Record, frame: &Frame) -> Option<i64> {
    let (number, [a, b, c, d, e, f]) = (frame.call(), frame.arguments());
    let is_free = match number {
        // SAFETY: the record of the running ULP.
        libc::SYS_getpid | libc::SYS_gettid => return Some(unsafe { (*me).pid.load(Ordering::Relaxed) }.into()),
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise => true,
        // A mapping of a file needs the ULP's descriptors.
        libc::SYS_mmap => d as i32 & libc::MAP_ANONYMOUS != 0,
        libc::SYS_futex => matches!(
            b as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME),
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET
        ),
        _ => false,
    };
    // SAFETY: the program makes this call itself; here it has the same effect.
    is_free.then(|| unsafe { machine::call(number, a, b, c, d, e, f) })
}

/// Saves the running context in its frame, and sends it home.
unsafe fn go_home(carrier: *mut Carrier, me: *mut Record, frame: *const Frame) -> ! {
    // SAFETY: the context is complete when its frame has been copied, because this runs on the handlers' stack.
    unsafe {
        (*me).counts.trapped.fetch_add(1, Ordering::Relaxed);
        save(me, frame);
        (*carrier).current = ptr::null_mut();
        home::send(me);
        machine::load(&raw mut (*carrier).context)
    }
}

/// Saves the running context in its frame, and puts it at the end of the queue.
unsafe fn requeue(carrier: *mut Carrier, me: *mut Record, frame: *const Frame) -> ! {
    // SAFETY: as above.
    unsafe {
        save(me, frame);
        (*carrier).current = ptr::null_mut();
        Carrier::push(carrier, me);
        machine::load(&raw mut (*carrier).context)
    }
}

/// Copies a signal frame to the record of its ULP.
unsafe fn save(me: *mut Record, frame: *const Frame) {
    // SAFETY: the frame is valid, and its copy has the room that the kernel says a frame needs at most (AT_MINSIGSTKSZ). The record's memory is aligned
    // as the floating-point state must be.
    unsafe {
        let state = (*frame).floating_point as *const u8;
        let bytes = state_bytes(state.add(STATE_TOLD_AT).cast::<[u32; 2]>().read_unaligned());
        let copy = (*me).frame as *mut u8;
        ptr::copy_nonoverlapping(state, copy, bytes);
        let context = copy.add(bytes.next_multiple_of(STATE_ALIGN)).cast::<Frame>();
        ptr::copy_nonoverlapping(frame, context, 1);
        (*context).floating_point = copy as u64;
        (*me).context.tls = machine::tls();
        (*me).context.frame = context as u64;
    }
}

/// Makes carriers handle a signal.
pub(super) fn install(signal: i32) {
    actions::handle(signal, handle as *const () as usize, libc::SA_NODEFER, 0);
}
