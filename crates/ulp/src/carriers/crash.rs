//! Crashes: what a ULP leaves behind when a signal ends it that no handler of its program takes.
//!
//! 1. If it is asked for, a new process handles the signals of [`SIGNALS`], on a stack for signal handlers of its own, before its program begins ([`prepare`]). A
//!    program that handles them itself replaces this.
//! 2. The handler notes the signal and the registers in the ULP's [`Cell`], which is in the host's memory. It restores the default action, and queues the same
//!    signal again for its own thread. The kernel delivers it when the handler returns, with the registers of the crash. So the process ends, and dumps core, as
//!    without the handler.
//! 3. When the host learns that the process has ended, the ULP's memory is still mapped. The host takes the cell, and reads the stack in peace.
//!
//! Neither the host nor the ULP waits for the other one, and a ULP that is killed meanwhile leaves nothing locked. Only the first crash is noted: a debugger may
//! discard its signal, and the ULP end by the same one later. The host asks for a crash only of a ULP that this signal has ended.
//!
//! The child of a fork is not noted: it finds zeros in place of its task. That of a vfork shares the memory of its parent, but has another pid.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64};

use arch::frame::{Alternate, Frame, UNWOUND};

use super::record::{Kind, Record, Task};
use super::sync::{AtomicU32, Ordering};
use super::{actions, machine};
use crate::task::Prepare;

/// Signals that programs do not expect to get.
const SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
/// Code of a fault for which the kernel knows no address (SI_KERNEL).
const WITHOUT_ADDRESS: i32 = 0x80;

/// Length of the stack of a ULP on which it notes a crash, bytes, without the frame. A handler of its program may run there, too, and need more than this one.
const STACK_BYTES: u64 = 64 << 10;

/// States of a cell.
const NONE: u32 = 0;
const CLAIMED: u32 = 1;
const COMPLETE: u32 = 2;

/// The cells of all ULPs, by number. Memory that nobody touches costs nothing.
static CELLS: AtomicPtr<Cell> = AtomicPtr::new(ptr::null_mut());

/// What a ULP notes of its crash. A cell of zeros has no crash.
#[derive(Debug)]
#[repr(C)]
struct Cell {
    state: AtomicU32,
    signal: AtomicI32,
    thread: AtomicI32,
    /// See [`Crash::address`] and [`Crash::sender`]; the flag says which one is known.
    detail: AtomicU64,
    kind: AtomicU32,
    registers: [AtomicU64; UNWOUND],
}

/// What is known beside the signal.
const NOTHING: u32 = 0;
const ADDRESS: u32 = 1;
const SENDER: u32 = 2;

/// A signal that has ended a ULP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Number of the ULP, and its pid.
    pub number: usize,
    /// See `number`.
    pub pid: i32,
    /// The thread that the signal has reached: the pid, if it was the main thread.
    pub thread: i32,
    /// The signal.
    pub signal: i32,
    /// For a wrong access to memory, its address, if the kernel knows it.
    pub address: Option<u64>,
    /// For a signal that was sent, the pid of the sender.
    pub sender: Option<i32>,
    /// The registers of the thread, by their numbers in unwinding tables.
    pub registers: [u64; UNWOUND],
}

impl Cell {
    /// Notes a crash, if none has been noted before.
    fn note(&self, signal: i32, thread: i32, (kind, detail): (u32, u64), registers: [u64; UNWOUND]) {
        if self.state.compare_exchange(NONE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        self.signal.store(signal, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Relaxed);
        self.detail.store(detail, Ordering::Relaxed);
        for (word, value) in self.registers.iter().zip(registers) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.store(COMPLETE, Ordering::Release);
    }

    /// Returns the crash by this signal, if it was noted completely.
    fn crash(&self, number: usize, pid: i32, signal: i32) -> Option<Crash> {
        let is_complete = self.state.load(Ordering::Acquire) == COMPLETE;
        let detail = self.detail.load(Ordering::Relaxed);
        let detail_is = |kind| self.kind.load(Ordering::Relaxed) == kind;
        (is_complete && self.signal.load(Ordering::Relaxed) == signal).then(|| Crash {
            number,
            pid,
            thread: self.thread.load(Ordering::Relaxed),
            signal,
            address: detail_is(ADDRESS).then_some(detail),
            sender: detail_is(SENDER).then_some(detail as i32),
            registers: std::array::from_fn(|number| self.registers[number].load(Ordering::Relaxed)),
        })
    }
}

/// The crashes of all ULPs. For the host.
#[derive(Debug)]
pub struct Crashes {
    /// Number of cells.
    room: usize,
    stack_bytes: u64,
}

impl Crashes {
    /// What a ULP must call before its program begins, with begin and length of a stack for signal handlers.
    pub const PREPARE: Prepare = prepare;

    /// Returns the length of the memory for so many ULPs, bytes.
    pub(super) fn bytes(room: usize) -> u64 {
        (room * size_of::<Cell>()) as u64
    }

    /// `cells` is the address of zeros for `room` ULPs, which stay; `frame_bytes` the length of a signal frame.
    ///
    /// # Safety
    /// The memory must have [`Crashes::bytes`], and be for nothing else.
    pub(super) unsafe fn new(cells: u64, room: usize, frame_bytes: u64) -> Crashes {
        CELLS.store(cells as *mut Cell, Ordering::Relaxed);
        Crashes { room, stack_bytes: STACK_BYTES + frame_bytes }
    }

    /// Returns the length of the stack for signal handlers that a ULP needs, bytes.
    #[must_use]
    pub fn stack_bytes(&self) -> u64 {
        self.stack_bytes
    }

    /// Returns the crash of a ULP that this signal has ended, if it was noted.
    #[must_use]
    pub fn of(&self, number: usize, pid: i32, signal: i32) -> Option<Crash> {
        assert!(number < self.room, "no such ULP");
        // SAFETY: within the cells.
        unsafe { (*CELLS.load(Ordering::Relaxed).add(number)).crash(number, pid, signal) }
    }
}

/// Handles the signals of the calling process, which has just begun. Signals that it ignores stay ignored.
///
/// # Safety
/// Nothing else may use the stack for signal handlers, which begins at `stack`.
unsafe extern "C" fn prepare(stack: u64, bytes: u64) {
    let alternate = Alternate { stack, flags: 0, bytes };
    // SAFETY: the structure is valid, and the caller passes a stack that is this task's alone.
    unsafe { machine::call4(libc::SYS_sigaltstack, (&raw const alternate) as u64, 0, 0, 0) };
    for signal in SIGNALS.into_iter().filter(|signal| !actions::is_ignored(*signal)) {
        actions::handle(signal, handle as *const () as usize, libc::SA_RESTART, machine::ALL_SIGNALS);
    }
}

/// The handler. All signals are blocked.
///
/// # Safety
/// Called by the kernel in a ULP, or in one of its children.
unsafe extern "C" fn handle(signal: i32, info: *const libc::siginfo_t, frame: *mut Frame) {
    // SAFETY: the kernel passes valid pointers. A task may queue any signal for itself.
    unsafe {
        let pid = machine::call4(libc::SYS_getpid, 0, 0, 0, 0);
        let thread = machine::call4(libc::SYS_gettid, 0, 0, 0, 0);
        if let Some(cell) = own_cell(pid) {
            cell.note(signal, thread as i32, detail(signal, info), (*frame).unwound());
        }
        actions::restore_default(signal);
        // Programs can let a signal in for the time of a system call only (sigsuspend).
        (*frame).unblock(signal);
        let (process, task, number) = (pid as u64, thread as u64, signal as u64);
        if machine::call4(libc::SYS_rt_tgsigqueueinfo, process, task, number, info as u64) < 0 {
            machine::call4(libc::SYS_tgkill, process, task, number, 0);
        }
    }
}

/// Returns the cell of the ULP that runs, if it is the process with this pid.
///
/// # Safety
/// The caller must be a thread of a ULP, or of one of its children.
unsafe fn own_cell(pid: i64) -> Option<&'static Cell> {
    let task = Task::current();
    // SAFETY: a task that is not null is valid, and a home task is at the beginning of a record. There are cells for all records.
    unsafe {
        if task.is_null() || (*task).kind != Kind::Home {
            return None;
        }
        let record: *const Record = task.cast();
        let is_own = i64::from((*record).pid.load(Ordering::Relaxed)) == pid;
        is_own.then(|| &*CELLS.load(Ordering::Relaxed).add((*record).number as usize))
    }
}

/// Returns what is known beside the signal.
///
/// # Safety
/// The information must be the kernel's.
unsafe fn detail(signal: i32, info: *const libc::siginfo_t) -> (u32, u64) {
    // SAFETY: the fields are those of such a signal.
    unsafe {
        match (*info).si_code {
            libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE => (SENDER, (*info).si_pid() as u64),
            code if code > 0 && code != WITHOUT_ADDRESS && [libc::SIGSEGV, libc::SIGBUS].contains(&signal) => {
                (ADDRESS, (*info).si_addr() as u64)
            }
            _ => (NOTHING, 0),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_crash_is_noted_and_only_its_own_signal_finds_it() {
        // SAFETY: all fields are numbers.
        let cell = unsafe { std::mem::zeroed::<Cell>() };
        assert_eq!(cell.crash(3, 40, 0), None, "nothing was noted");
        let registers = std::array::from_fn(|number| number as u64);
        cell.note(11, 41, (ADDRESS, 0x10), registers);
        cell.note(6, 42, (SENDER, 42), [0; UNWOUND]);
        let mut crash =
            Crash { number: 3, pid: 40, thread: 41, signal: 11, address: Some(0x10), sender: None, registers };
        assert_eq!((cell.crash(3, 40, 11).as_ref(), cell.crash(3, 40, 9)), (Some(&crash), None));
        cell.state.store(NONE, Ordering::Relaxed);
        cell.note(11, 41, (SENDER, 7), registers);
        (crash.address, crash.sender) = (None, Some(7));
        assert_eq!(cell.crash(3, 40, 11), Some(crash));
        cell.state.store(CLAIMED, Ordering::Relaxed);
        assert_eq!(cell.crash(3, 40, 11), None, "it was killed while it noted the crash");
    }
}
