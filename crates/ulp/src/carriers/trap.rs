//! Signals of a carrier: what interrupts the context that it runs.
//!
//! - **A system call** (SIGSYS, syscall user dispatch). Most go home: the kernel has saved all registers in a frame, the context continues from it on its
//!   home task, and makes the call there. A few say nothing about who calls, and are made here.
//! - **A fault** (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP) goes home in the same way. The instruction is executed again there, and the kernel delivers
//!   the signal to the ULP.
//! - **A tick** of the carrier's CPU time: a context that has run since the last one goes to the end of the queue.
//!
//! Handlers run on a stack of the carrier's, because the context's may have overflowed. The frame is copied to the ULP's record, as the next handler
//! overwrites it. A handler that does not return has not changed the carrier's signal mask (SA_NODEFER, no `sa_mask`).

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::carrier::Carrier;
use super::home::{self, Frame};
use super::machine;
use super::record::{Kind, Record, Task};

/// Signals of instructions, which a carrier must not block.
pub(super) const SYNCHRONOUS: [i32; 6] =
    [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Indices of registers in a frame.
mod register {
    pub const R8: usize = 0;
    pub const R9: usize = 1;
    pub const R10: usize = 2;
    pub const DI: usize = 8;
    pub const SI: usize = 9;
    pub const DX: usize = 12;
    pub const AX: usize = 13;
    pub const SP: usize = 15;
    pub const IP: usize = 16;
}

/// Length of the instruction `syscall`, bytes.
const SYSCALL_BYTES: u64 = 2;
/// The code of SIGSYS from syscall user dispatch (SYS_USER_DISPATCH).
const USER_DISPATCH: i32 = 2;

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
        let task = Task::here();
        let carrier: *mut Carrier = task.cast_mut().cast();
        let registers = &mut (*frame).registers;
        let is_carrier = !task.is_null() && (*task).kind == Kind::Carrier;
        let is_ours = |carrier: *mut Carrier| {
            let (begin, end) = (*carrier).handlers;
            (*carrier).current.is_null() || (begin..end).contains(&registers[register::SP])
        };
        if !is_carrier || is_ours(carrier) {
            if SYNCHRONOUS.contains(&signal) {
                // A fault of the host itself ends it.
                restore_default(signal);
            }
            return;
        }
        let me = (*carrier).current;
        match signal {
            libc::SIGSYS if (*info).si_code == USER_DISPATCH => {
                if let Some(result) = without_identity(me, registers) {
                    registers[register::AX] = result as u64;
                    return;
                }
                if registers[register::AX] == libc::SYS_sched_yield as u64 {
                    registers[register::AX] = 0;
                    (*me).yields += 1;
                    if Carrier::has_others(carrier) {
                        requeue(carrier, me, frame);
                    }
                    return machine::yield_to_kernel();
                }
                registers[register::IP] -= SYSCALL_BYTES;
                (*me).counts.trapped.fetch_add(1, Ordering::Relaxed);
                go_home(carrier, me, frame)
            }
            _ if SYNCHRONOUS.contains(&signal) => {
                (*me).counts.trapped.fetch_add(1, Ordering::Relaxed);
                go_home(carrier, me, frame)
            }
            _ => {
                let has_run = (*carrier).switches == (*carrier).switches_at_tick;
                (*carrier).switches_at_tick = (*carrier).switches;
                let must_part = (*me).called.load(Ordering::Relaxed) != 0 || Carrier::has_others(carrier);
                if has_run && must_part && !is_runtime(registers[register::IP]) {
                    requeue(carrier, me, frame);
                }
            }
        }
    }
}

/// Makes a system call that depends only on the address space or on the machine. Returns its result; `None` for all others.
unsafe fn without_identity(me: *mut Record, registers: &[u64; 23]) -> Option<i64> {
    use register::{AX, DI, DX, R8, R9, R10, SI};
    let number = registers[AX] as i64;
    let is_free = match number {
        // SAFETY: the record of the running ULP.
        libc::SYS_getpid | libc::SYS_gettid => return Some(unsafe { (*me).pid.load(Ordering::Relaxed) }.into()),
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise => true,
        // A mapping of a file needs the ULP's descriptors.
        libc::SYS_mmap => registers[R10] as i32 & libc::MAP_ANONYMOUS != 0,
        libc::SYS_futex => matches!(
            registers[SI] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME),
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET
        ),
        _ => false,
    };
    // SAFETY: the program makes this call itself; here it has the same effect.
    is_free.then(|| unsafe {
        machine::call(number, registers[DI], registers[SI], registers[DX], registers[R10], registers[R8], registers[R9])
    })
}

/// Saves the running context in its frame, and sends it home.
unsafe fn go_home(carrier: *mut Carrier, me: *mut Record, frame: *const Frame) -> ! {
    // SAFETY: the context is complete when its frame has been copied, because this runs on the handlers' stack.
    unsafe {
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

/// Length of the floating-point state if the kernel does not tell (FXSAVE), bytes.
const FXSAVE_BYTES: usize = 512;
/// Where in it the kernel tells, and by which number (struct _fpx_sw_bytes in asm/sigcontext.h).
const TOLD_AT: usize = 464;
const TOLD: u32 = 0x4650_5853;

/// Copies a signal frame to the record of its ULP.
unsafe fn save(me: *mut Record, frame: *const Frame) {
    // SAFETY: the frame is valid, and its copy has the room that the kernel says a frame needs at most (AT_MINSIGSTKSZ).
    unsafe {
        let state = (*frame).floating_point as *const u8;
        let told: [u32; 2] = state.add(TOLD_AT).cast::<[u32; 2]>().read_unaligned();
        let bytes = if told[0] == TOLD { told[1] as usize } else { FXSAVE_BYTES };
        // XSAVE's area is aligned to 64 bytes, as the beginning of the record's memory is.
        let copy = (*me).frame as *mut u8;
        ptr::copy_nonoverlapping(state, copy, bytes);
        let context = copy.add(bytes.next_multiple_of(64)).cast::<Frame>();
        ptr::copy_nonoverlapping(frame, context, 1);
        (*context).floating_point = copy as u64;
        (*me).context.tls = machine::tls();
        (*me).context.frame = context as u64;
    }
}

/// An action as rt_sigaction(2) has it.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// SA_RESTORER of the kernel's asm/signal.h.
const RESTORER: u64 = 0x0400_0000;

/// Makes carriers handle a signal.
pub(super) fn install(signal: i32) {
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | RESTORER;
    let restorer = machine::return_from_signal as *const () as usize;
    set(signal, &Action { handler: handle as *const () as usize, flags, restorer, mask: 0 });
}

fn restore_default(signal: i32) {
    set(signal, &Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 });
}

fn set(signal: i32, action: &Action) {
    // SAFETY: the action is valid. The C library's sigaction would add a restorer of its own, whose system call would be dispatched.
    unsafe {
        machine::call4(libc::SYS_rt_sigaction, signal as u64, (action as *const Action) as u64, 0, machine::SET_BYTES)
    };
}
