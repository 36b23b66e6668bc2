//! Who calls: which ULP, and where it runs.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::carrier::Carrier;
use super::record::{Kind, Record, Task};
use super::{home, machine};

/// The records of all ULPs, the number of those that are started together, and the number of records.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());
pub(super) static COUNT: AtomicU32 = AtomicU32::new(0);
static KNOWN: AtomicU32 = AtomicU32::new(0);
/// Whether there are carriers.
pub(super) static CAN_LEAVE: AtomicU32 = AtomicU32::new(0);

/// Says what the functions work on.
pub(super) fn set(records: *mut Record, count: u32, can_leave: bool) {
    RECORDS.store(records, Ordering::Relaxed);
    COUNT.store(count, Ordering::Relaxed);
    CAN_LEAVE.store(can_leave.into(), Ordering::Relaxed);
}

/// Says that there are so many records by now.
pub(super) fn set_known(known: u32) {
    KNOWN.store(known, Ordering::Release);
}

/// Where a function was called.
pub(super) enum Caller {
    /// By a ULP on a carrier.
    Carried(*mut Carrier),
    /// By the main thread of a ULP at home.
    Home(*mut Record),
    /// By another thread of a ULP, by the child of a fork, or where no carriers are.
    Other(*mut Record),
}

#[inline(always)]
pub(super) fn caller() -> Caller {
    let task = Task::current().cast_mut();
    if task.is_null() {
        return Caller::Other(std::ptr::null_mut());
    }
    // SAFETY: a task that is not null is valid.
    match unsafe { (*task).kind } {
        Kind::Carrier => {
            machine::touch_stack();
            Caller::Carried(task.cast())
        }
        // SAFETY: the thread belongs to the ULP of the record.
        Kind::Home if CAN_LEAVE.load(Ordering::Relaxed) != 0 && unsafe { home::is_main_thread(task.cast()) } => {
            Caller::Home(task.cast())
        }
        Kind::Home => Caller::Other(task.cast()),
        Kind::Host => Caller::Other(std::ptr::null_mut()),
    }
}

/// Returns the record of a ULP.
pub(super) fn record_of(number: i32) -> Option<*mut Record> {
    let number = u32::try_from(number).ok().filter(|number| *number < KNOWN.load(Ordering::Acquire))?;
    // SAFETY: within the records.
    Some(unsafe { RECORDS.load(Ordering::Relaxed).add(number as usize) })
}
