//! What is known of each ULP, and of the task that runs.
//!
//! Each kernel task has the address of its [`Task`] in its GS base: a home task that of its ULP's record, a carrier that of its own. So code that runs in
//! a ULP's context finds out by one instruction where it is. Programs on x86-64 Linux do not use the GS base.
//!
//! Records are in memory that fork(2) wipes (MADV_WIPEONFORK). A child that a ULP has forked finds zeros there, and is an ordinary process.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use arch::Context;
use arch::frame::Alternate;

use super::inbox::{Inbox, Link};
use super::machine;
use super::policy::Policy;
use super::queue::Queued;
use super::sync::AtomicU32 as Word;
use super::waiting::Waiting;

/// What a task is. At the beginning of a record or a carrier.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Task {
    /// Its own address. In the child of a fork: null.
    this: *const Task,
    pub kind: Kind,
}

/// Where a task's kind is, bytes behind its address.
pub(super) const KIND_AT: usize = std::mem::offset_of!(Task, kind);

/// Kinds of tasks that run code of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// The home task of a ULP, or another thread that the ULP has made.
    Home = 1,
    Carrier = 2,
    /// The host's main thread.
    Host = 3,
}

impl Task {
    pub fn new(this: *const Task, kind: Kind) -> Task {
        Task { this, kind }
    }

    /// Returns the task that runs; null in the child of a fork.
    #[inline(always)]
    pub fn current() -> *const Task {
        machine::task_word() as *const Task
    }
}

/// Why a carrier should part with a context when it next sees it.
pub(super) mod call {
    /// A signal has arrived at the home task.
    pub const HOME: u32 = 1;
    /// The process has ended.
    pub const DEAD: u32 = 2;
}

/// Counters of a ULP.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Counts {
    /// Yields on carriers.
    pub yields: AtomicU64,
    /// Coupled yields.
    pub coupled_yields: AtomicU64,
    /// Stays on carriers.
    pub stays: AtomicU64,
    /// Stays that a system call or a fault ended.
    pub trapped: AtomicU64,
}

/// A ULP. Whoever has its context may use it; atomics are for others. What a yield needs is in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    pub task: Task,
    /// The registers, while it does not run.
    pub context: Context,
    /// Yields of this stay on a carrier.
    pub yields: u64,
    /// Position in the carrier's run queue.
    pub position: u32,
    /// Reasons to part with the context ([`call`]).
    pub called: AtomicU32,
    pub number: u32,
    pub policy: Policy,
    /// Whether the program has asked to stay coupled.
    pub is_held: bool,
    /// Whether a debugger traces it, as far as is known: then it stays at home, where the debugger sees its registers.
    pub is_traced: AtomicBool,
    /// Whether its main thread has a shadow stack, which carriers do not switch: then it stays at home, too. `None`: not known yet.
    pub has_shadow_stack: Option<bool>,
    /// Whether it waits for another ULP.
    pub waiting: Waiting,
    /// Link in the carrier's inbox.
    pub link: Link,
    /// Whether a carrier has the context, or is about to get it.
    pub is_carried: AtomicBool,
    /// The pid; set before the process starts.
    pub pid: AtomicI32,
    /// Whether the home task is woken by a signal that is not queued (see `home`).
    pub is_nudged_without_queue: AtomicBool,
    /// Signals that the ULP blocks, while its home task is parked.
    pub mask: u64,
    /// Its stack for signal handlers, while its home task is parked.
    pub alternate: Alternate,
    /// TLS base of its main thread; 0: not known yet.
    pub main_tls: u64,
    /// End of the stack on which the home task is parked.
    pub parking: u64,
    /// Memory for a signal frame.
    pub frame: u64,
    /// The inbox of the carrier that it goes to.
    pub inbox: *const Inbox,
    pub counts: Counts,
    /// How its process has ended: the status of waitpid(2) and [`HAS_ENDED`]; 0: not yet.
    pub ended: Word,
}

/// Set in [`Record::ended`].
pub(super) const HAS_ENDED: u32 = 1 << 31;

const _: () = assert!(std::mem::offset_of!(Record, number) == 64);

impl Queued for Record {
    #[inline(always)]
    unsafe fn position(this: *const Record) -> u32 {
        // SAFETY: the caller promises that it is valid.
        unsafe { (*this).position }
    }

    #[inline(always)]
    unsafe fn set_position(this: *mut Record, position: u32) {
        // SAFETY: the caller promises that it is valid.
        unsafe { (*this).position = position }
    }
}

impl Record {
    /// Returns the record with this link.
    ///
    /// # Safety
    /// The link must be that of a record.
    pub unsafe fn of_link(link: *mut Link) -> *mut Record {
        // SAFETY: the caller promises that the link is a field of a record.
        unsafe { link.byte_sub(std::mem::offset_of!(Record, link)).cast() }
    }

    /// A new ULP. `this` is where it will be.
    pub fn new(this: *const Record, number: u32, inbox: *const Inbox, frame: u64, parking: u64) -> Record {
        Record {
            task: Task::new(this.cast(), Kind::Home),
            context: Context::default(),
            yields: 0,
            position: 0,
            called: AtomicU32::new(0),
            number,
            policy: Policy::new(u64::from(number) + 1),
            is_held: false,
            is_traced: AtomicBool::new(false),
            has_shadow_stack: None,
            waiting: Waiting::new(),
            link: Link::new(),
            is_carried: AtomicBool::new(false),
            pid: AtomicI32::new(0),
            is_nudged_without_queue: AtomicBool::new(false),
            mask: 0,
            alternate: Alternate { stack: 0, flags: libc::SS_DISABLE, bytes: 0 },
            main_tls: 0,
            parking,
            frame,
            inbox,
            counts: Counts::default(),
            ended: Word::new(0),
        }
    }
}
