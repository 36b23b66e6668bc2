//! What a program in a ULP can call: a table of functions, whose address is in the auxiliary vector.
//!
//! The vector is not inherited by a program that a ULP executes, unlike an environment variable. In the child of a fork, the functions find no record
//! and do what an ordinary process can do. See `include/cox_ulp.h`, which says what each function does.
//!
//! The functions run in the context of a ULP, with its thread-local storage: they must not use the host's, so neither allocate nor panic.

use std::ptr;
use std::sync::atomic::Ordering;

use super::caller::{CAN_LEAVE, COUNT, Caller, caller, record_of};
use super::carrier::Carrier;
use super::exports::{Exports, Refused};
use super::policy::Choice;
use super::record::{KIND_AT, Kind, Record, Task, call};
use super::{home, machine, spawning};

/// Type of the entry in the auxiliary vector: "COX" and the version of the table. The kernel's own are small numbers.
pub(crate) const ENTRY: u64 = 0x0043_4f58_0001;

/// The functions. New ones are appended.
#[repr(C)]
pub(super) struct Table {
    /// Length of the table, bytes.
    bytes: u64,
    number: unsafe extern "C" fn() -> i32,
    count: unsafe extern "C" fn() -> i32,
    yield_now: unsafe extern "C" fn(*const u8),
    yield_to: unsafe extern "C" fn(i32) -> i32,
    couple: unsafe extern "C" fn() -> i32,
    decouple: unsafe extern "C" fn() -> i32,
    suspend: unsafe extern "C" fn() -> i32,
    resume: unsafe extern "C" fn(i32) -> i32,
    export: unsafe extern "C" fn(*const u8, u64) -> i32,
    import: unsafe extern "C" fn(i32, *const u8, *mut u64) -> i32,
    spawn: unsafe extern "C" fn(u64, u64, u64) -> i32,
    wait: unsafe extern "C" fn(i32, *mut i32) -> i32,
    pid: unsafe extern "C" fn(i32) -> i32,
}

pub(super) static TABLE: Table = Table {
    bytes: size_of::<Table>() as u64,
    number,
    count,
    yield_now,
    yield_to,
    couple,
    decouple,
    suspend,
    resume,
    export,
    import,
    spawn: spawning::spawn,
    wait: spawning::wait,
    pid: spawning::pid,
};

/// What ULPs have exported.
static EXPORTS: Exports = Exports::new();

/// Returns the number of the calling ULP; -ESRCH in an ordinary process.
unsafe extern "C" fn number() -> i32 {
    let record = match caller() {
        // SAFETY: the caller runs on the carrier.
        Caller::Carried(carrier) => unsafe { (*carrier).current },
        Caller::Home(record) | Caller::Other(record) => record,
    };
    // SAFETY: a record that is not null is valid.
    if record.is_null() { -libc::ESRCH } else { unsafe { (*record).number as i32 } }
}

/// Returns the number of ULPs that were started together; 1 in an ordinary process.
unsafe extern "C" fn count() -> i32 {
    if Task::current().is_null() { 1 } else { COUNT.load(Ordering::Relaxed) as i32 }
}

arch::user_yield!(
    kind_at: KIND_AT,
    carrier: Kind::Carrier as u32,
    choose: Carrier::yield_now,
    elsewhere: yield_elsewhere,
    frame: machine::continue_frame
);

/// A yield that is not on a carrier.
unsafe extern "C" fn yield_elsewhere() {
    match caller() {
        // `yield_now` has looked.
        Caller::Carried(_) => {}
        // SAFETY: the caller is the main thread, at home, where the context owns its record.
        Caller::Home(record) => unsafe {
            if !home::must_stay(record) && (*record).policy.on_yield() == Choice::Leave {
                home::leave(record);
            } else {
                (*record).counts.coupled_yields.fetch_add(1, Ordering::Relaxed);
                machine::yield_to_kernel();
            }
        },
        Caller::Other(_) => machine::yield_to_kernel(),
    }
}

/// Returns 0 if the ULP was continued, -EAGAIN after an ordinary yield, -EINVAL for a number that does not exist.
unsafe extern "C" fn yield_to(number: i32) -> i32 {
    let Some(record) = record_of(number) else { return -libc::EINVAL };
    if let Caller::Carried(carrier) = caller() {
        // SAFETY: the caller is the ULP that the carrier runs.
        let is_done = unsafe { Carrier::yield_to(carrier, record) };
        if is_done {
            return 0;
        }
    }
    // SAFETY: no conditions.
    unsafe { yield_now(ptr::null()) };
    -libc::EAGAIN
}

/// Returns 0, or -EBUSY if the ULP has asked for it already.
unsafe extern "C" fn couple() -> i32 {
    // SAFETY: the caller has its context, and so its record.
    unsafe {
        match caller() {
            Caller::Carried(carrier) => {
                (*(*carrier).current).is_held = true;
                Carrier::go_home(carrier);
                0
            }
            Caller::Home(record) if !(*record).is_held => {
                (*record).is_held = true;
                0
            }
            Caller::Home(_) => -libc::EBUSY,
            Caller::Other(_) => -libc::EPERM,
        }
    }
}

/// Returns 0 on a carrier, or -EPERM.
unsafe extern "C" fn decouple() -> i32 {
    match caller() {
        Caller::Carried(_) => 0,
        // SAFETY: the caller is the main thread, at home.
        Caller::Home(record) => unsafe {
            (*record).is_held = false;
            if !home::cannot_leave(record, true) {
                home::leave(record);
            }
            0
        },
        Caller::Other(_) => -libc::EPERM,
    }
}

/// Returns 0 after a resume, a signal, or without a reason; -EPERM where there are no ULPs to resume this one.
unsafe extern "C" fn suspend() -> i32 {
    // SAFETY: the caller has its context, and so its record.
    unsafe {
        let record = match caller() {
            Caller::Carried(carrier) => {
                let me = (*carrier).current;
                if !(*me).waiting.take() {
                    Carrier::suspend(carrier);
                }
                me
            }
            Caller::Home(record) => {
                if (*record).waiting.take() {
                    return 0;
                }
                if !home::must_stay(record) && (*record).policy.on_yield() == Choice::Leave {
                    // The caller sees that it has not been resumed, and comes again.
                    home::leave(record);
                    return 0;
                }
                sleep(record);
                record
            }
            // Without carriers, the main thread sleeps at home, too.
            Caller::Other(record)
                if !record.is_null() && CAN_LEAVE.load(Ordering::Relaxed) == 0 && home::has_pid(record) =>
            {
                if !(*record).waiting.take() {
                    sleep(record);
                }
                record
            }
            Caller::Other(_) => return -libc::EPERM,
        };
        (*record).waiting.take();
    }
    0
}

/// Sleeps at home until a resume.
unsafe fn sleep(record: *mut Record) {
    // SAFETY: the caller has its context, and so its record.
    unsafe {
        (*record).counts.coupled_yields.fetch_add(1, Ordering::Relaxed);
        (*record).waiting.sleep_at_home(machine::wait);
    }
}

/// Returns 0, or -EINVAL for a number that does not exist.
unsafe extern "C" fn resume(number: i32) -> i32 {
    if Task::current().is_null() {
        return -libc::EPERM;
    }
    let Some(record) = record_of(number) else { return -libc::EINVAL };
    // SAFETY: a record.
    unsafe { home::resume(record) };
    0
}

/// The bytes of a C string, without its end.
///
/// # Safety
/// It must be a C string.
unsafe fn bytes_of<'a>(text: *const u8) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the caller promises that the string ends.
    unsafe {
        while *text.add(length) != 0 {
            length += 1;
        }
        std::slice::from_raw_parts(text, length)
    }
}

/// Returns 0; -EEXIST, -ENAMETOOLONG, -ENOSPC; -EPERM in an ordinary process.
unsafe extern "C" fn export(name: *const u8, address: u64) -> i32 {
    // SAFETY: no conditions.
    let Ok(number) = u32::try_from(unsafe { number() }) else { return -libc::EPERM };
    // SAFETY: the caller passes a C string.
    match EXPORTS.add(number, unsafe { bytes_of(name) }, address) {
        Ok(()) => 0,
        Err(Refused::Exists) => -libc::EEXIST,
        Err(Refused::Full) => -libc::ENOSPC,
        Err(Refused::Long) => -libc::ENAMETOOLONG,
    }
}

/// Waits until ULP `from` has exported this name. Returns 0; -ESRCH if that one has ended without it, -EINVAL for a number that does not exist, -EPERM
/// in an ordinary process.
unsafe extern "C" fn import(from: i32, name: *const u8, address: *mut u64) -> i32 {
    if Task::current().is_null() {
        return -libc::EPERM;
    }
    let Some(record) = record_of(from) else { return -libc::EINVAL };
    // SAFETY: the caller passes a C string, and where the address goes.
    unsafe {
        let name = bytes_of(name);
        loop {
            let has_ended = (*record).called.load(Ordering::Acquire) & call::DEAD != 0;
            if let Some(found) = EXPORTS.find((*record).number, name) {
                *address = found;
                return 0;
            }
            if has_ended {
                return -libc::ESRCH;
            }
            yield_now(ptr::null());
        }
    }
}
