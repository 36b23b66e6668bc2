//! The Rust mirror of `include/cox/wire.h`. Sizes and offsets are asserted in both files.
//!
//! All times are nanoseconds on CLOCK_MONOTONIC.

use std::mem::{offset_of, size_of};

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// CPUs with a number at or above this limit have no account.
pub const MAX_CPUS: usize = 1024;
/// 64-bit words of an affinity mask.
pub const MASK_WORDS: usize = MAX_CPUS / 64;
/// Number of classes of affinity masks that a session distinguishes; see `COX_MASK_CLASSES`.
pub const MASK_CLASSES: usize = 8;
/// Number of CPUs for which a thread's run time is kept separately; its run time on further CPUs is one sum.
pub const CPU_SLOTS: usize = 16;
/// Number of [`Cause`]s.
pub const CAUSES: usize = 12;
/// Number of [`Migration`] kinds.
pub const MIGRATIONS: usize = 3;

/// Why a thread blocked, that is, why it was no longer runnable when it left its CPU. The discriminants are the wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Cause {
    /// futex(2) and its relatives: mutexes, condition variables, joins, sleeping OpenMP barriers.
    Futex = 0,
    /// Storage: the kernel's `in_iowait`, or a call on a regular file or block device.
    Disk,
    /// Internet sockets.
    Network,
    /// Pipes, FIFOs and UNIX sockets.
    Pipe,
    /// poll, select, epoll, io_uring, eventfd: waiting for any of several things.
    Poll,
    /// nanosleep and timers.
    Sleep,
    /// A page fault: waiting for a read from storage, or for the lock on the address space.
    PageFault,
    /// Waiting for a child process: wait4, waitid, vfork.
    ChildWait,
    /// Stopped or frozen: SIGSTOP, a tracer, the cgroup freezer.
    Stopped,
    /// flock and fcntl locks.
    FileLock,
    /// Anything else.
    Other,
    /// Unknown: the backend cannot see why threads block.
    Unspecified,
}

impl Cause {
    /// Every cause in wire order.
    pub const ALL: [Cause; CAUSES] = [
        Cause::Futex,
        Cause::Disk,
        Cause::Network,
        Cause::Pipe,
        Cause::Poll,
        Cause::Sleep,
        Cause::PageFault,
        Cause::ChildWait,
        Cause::Stopped,
        Cause::FileLock,
        Cause::Other,
        Cause::Unspecified,
    ];

    /// The name used in JSON and `--help`: `futex`, `page_fault`, …
    pub fn name(self) -> &'static str {
        match self {
            Cause::Futex => "futex",
            Cause::Disk => "disk",
            Cause::Network => "network",
            Cause::Pipe => "pipe",
            Cause::Poll => "poll",
            Cause::Sleep => "sleep",
            Cause::PageFault => "page_fault",
            Cause::ChildWait => "child_wait",
            Cause::Stopped => "stopped",
            Cause::FileLock => "file_lock",
            Cause::Other => "other",
            Cause::Unspecified => "unspecified",
        }
    }
}

/// Bit of a thread id, set if the thread is outside cox's PID namespace; the other bits are then its id on the machine.
pub const OUTSIDE: u32 = 0x4000_0000;

/// The id that stands for every thread of another user, if only one user's threads are observed.
pub const ANOTHER_USERS: u32 = 0x2000_0000;
/// The name that goes with [`ANOTHER_USERS`].
pub const ANOTHER_USERS_NAME: &str = "another user's";

/// Only in the table that maps system calls to causes: the cause depends on the type of the file descriptor.
pub const CAUSE_BY_FD: u8 = 0xff;

/// What a thread is doing, according to its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The thread existed before cox began to track (enrolled) it; no event of it has occurred since.
    Unseen = 0,
    /// The thread was created and not yet switched in.
    Born,
    /// The thread is on a CPU.
    Run,
    /// The thread was switched out while still runnable.
    Preempt,
    /// The thread was switched out because it was not runnable.
    Blocked,
    /// The thread was switched out for the last time.
    Dead,
}

impl State {
    /// Decodes a state byte. An unknown byte becomes `Unseen`.
    pub fn from_wire(byte: u8) -> State {
        match byte {
            1 => State::Born,
            2 => State::Run,
            3 => State::Preempt,
            4 => State::Blocked,
            5 => State::Dead,
            _ => State::Unseen,
        }
    }
}

/// What moved a thread to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Migration {
    /// The wake-up chose another CPU.
    AtWakeup = 0,
    /// The load balancer moved a runnable thread.
    WhileQueued,
    /// The previous CPU is no longer allowed.
    ByAffinity,
}

impl Migration {
    /// Every kind in wire order.
    pub const ALL: [Migration; MIGRATIONS] = [Migration::AtWakeup, Migration::WhileQueued, Migration::ByAffinity];

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Migration::AtWakeup => "at_wakeup",
            Migration::WhileQueued => "while_queued",
            Migration::ByAffinity => "by_affinity",
        }
    }
}

/// One thread's account; see `struct cox_clock` for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Clock {
    pub since_ns: u64,
    pub in_ns: u64,
    pub wake_ns: u64,
    pub state: u8,
    pub cause: u8,
    pub yielded: u8,
    pub counted: u8,
    pub cpu: u16,
    pub slot: u16,
    pub run_ns: u64,
    pub wake_delay_ns: u64,
    pub took_ns: u64,
    pub flags: u32,
    pub waker_tid: u32,
    pub waker_count: u32,
    pub impossible: u32,
    pub waker_blocked_ns: u64,
    pub switches_voluntary: u64,
    pub switches_involuntary: u64,
    pub wakeups: u64,
    pub fd_now: u64,
    pub fd_key: u64,
    pub fd_cause: u64,
    pub steal_in_ns: u64,
    pub irq_in_ns: u64,
    pub steal_ns: u64,
    pub irq_ns: u64,
    pub preempt_wait_ns: u64,
    pub yield_wait_ns: u64,
    pub unknown_ns: u64,
    pub blocked_ns: [u64; CAUSES],
    /// CPU number + 1; 0 for an unused slot.
    pub cpu_id: [u16; CPU_SLOTS],
    pub cpu_run_ns: [u64; CPU_SLOTS],
    pub elsewhere_run_ns: u64,
    pub migrations: [u32; MIGRATIONS],
    pub parent_tgid: u32,
    pub born_ns: u64,
    pub tid: u32,
    pub tgid: u32,
    pub comm: [u8; 16],
    pub exit_code: i32,
    pub host_tid: u32,
    pub inner_tid: u32,
    pub pad: u32,
    pub kernel_cpu_ns: u64,
    pub kernel_delay_ns: u64,
}

/// [`Clock::flags`]: the thread existed before cox began to track (enrolled) it.
pub const ENROLLED_ALIVE: u32 = 1;
/// [`Clock::flags`]: the thread has called exec during the session.
pub const EXECED: u32 = 2;
/// [`Clock::flags`]: the account begins when the thread is next switched in.
pub const LAUNCHED: u32 = 8;
/// [`Clock::flags`]: the thread's account has ended, because the thread changed to another user, or got capabilities by exec.
pub const LEFT: u32 = 16;

impl Clock {
    /// Returns the blocked time, summed over all causes.
    pub fn blocked_total_ns(&self) -> u64 {
        self.blocked_ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Returns whether the sums contain every nanosecond from birth to `since_ns` exactly once. A copy that was torn by a concurrent update violates
    /// this and is read again.
    pub fn is_whole(&self) -> bool {
        let booked = [self.run_ns, self.wake_delay_ns, self.preempt_wait_ns, self.unknown_ns]
            .iter()
            .fold(self.blocked_total_ns(), |sum, ns| sum.saturating_add(*ns));
        self.since_ns.checked_sub(self.born_ns) == Some(booked)
    }

    /// Returns the thread's name up to the first NUL; bytes that are not UTF-8 are replaced.
    pub fn comm(&self) -> String {
        comm_text(&self.comm)
    }
}

/// Converts a kernel `comm` to text: the bytes up to the first NUL.
pub fn comm_text(comm: &[u8]) -> String {
    let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

/// One thread in a walk over the living threads: the fields of `struct cox_living`, then the thread's clock (its account of times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct LivingEntry {
    /// When the clock was read, nanoseconds.
    pub t_ns: u64,
    /// The thread's CPU time so far, as the kernel counts it, nanoseconds.
    pub kernel_cpu_ns: u64,
    /// The thread's `run_delay` so far, as the kernel counts it, nanoseconds.
    pub kernel_delay_ns: u64,
    /// The cause of the present block. Also known if the clock only has [`CAUSE_BY_FD`]: the descriptor was looked up for this record.
    pub cause: u64,
    /// The thread's present name.
    pub comm: [u8; 16],
    /// The thread's clock: its account of times.
    pub clock: Clock,
}

/// What a CPU is doing, from the session's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CpuKind {
    /// No event has occurred on this CPU yet.
    Unseen = 0,
    /// The CPU runs the idle task.
    Idle,
    /// The CPU runs a tracked thread.
    Ours,
    /// The CPU runs any other thread.
    Others,
}

/// One CPU's account; see `struct cox_cpu` for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Cpu {
    pub since_ns: u64,
    pub kind: u64,
    pub time_ns: [u64; 4],
    pub idle_wait_ns: u64,
    pub idle_blocked_ns: u64,
    pub wait_mark: u64,
    pub cell_mark: u64,
    pub idle_wait_mark: u64,
    pub idle_off_mark: u64,
    pub took_idle_ns: u64,
    pub events: u64,
    pub timed_events: u64,
    pub timed_ns: u64,
    pub samples: u64,
    pub pad: [u64; 7],
    pub waiting: u64,
    pub pinned: u64,
    pub level: u64,
    pub pad2: [u64; 5],
}

/// A presence cell (a count, and the time for which it was not 0, in one word; see `cells.h`) on a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CellLine {
    pub cell: u64,
    pub pad: [u64; 7],
}

/// The state of all tracked threads together, and the counters of what was lost; see `struct cox_tracked` for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct TrackedThreads {
    pub off: u64,
    pub busy: u64,
    pub off_pad: [u64; 6],
    pub waiting: [CellLine; MASK_CLASSES],
    pub masks: [[u64; MASK_WORDS]; MASK_CLASSES],
    pub mask_hash: [u64; MASK_CLASSES],
    pub classes: u64,
    pub members: u64,
    pub alive: u64,
    pub lost_members: u64,
    pub lost_exited: u64,
    pub lost_samples: u64,
    pub lost_wakeups: u64,
    pub lost_preemptors_ns: u64,
    pub lost_classes: u64,
    pub lost_cells: u64,
    pub lost_cpus: u64,
    pub recovered: u64,
    pub lost_trace_events: u64,
    pub pad: [u64; 3],
}

/// A user instruction pointer that was sampled on a tracked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Sample {
    /// The user instruction pointer, even if the sample hit the kernel.
    pub ip: u64,
    /// The thread's id.
    pub tid: u32,
    /// The thread's process.
    pub tgid: u32,
    /// 0 in user mode. In the kernel 1 + the system call number, or [`NO_CALL`](Sample::NO_CALL).
    pub in_kernel: u32,
    /// [`QUEUED`](Sample::QUEUED), [`IN_ROUND`](Sample::IN_ROUND) and [`ONLY`](Sample::ONLY).
    pub flags: u32,
    /// Time of the sample, nanoseconds.
    pub t_ns: u64,
}

impl Sample {
    /// Value of [`in_kernel`](Sample::in_kernel) if the sample hit the kernel but no system call: a page fault, or an interrupt.
    pub const NO_CALL: u32 = u32::MAX;

    /// Flag, set by the sampling program: a tracked thread waited for a CPU.
    pub const QUEUED: u32 = 1;
    /// Flag, set by the observer: the sample belongs to a round, the samples that all CPUs take at the same time.
    pub const IN_ROUND: u32 = 2;
    /// Flag, set by the sampling program: no other tracked thread ran, and none waited for a CPU, but for those that are bound to another CPU.
    pub const ONLY: u32 = 4;

    /// Returns whether a tracked thread waited for a CPU.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.flags & Sample::QUEUED != 0
    }

    /// Returns whether the sample belongs to a round.
    #[must_use]
    pub fn is_in_round(&self) -> bool {
        self.flags & Sample::IN_ROUND != 0
    }

    /// Returns whether no other tracked thread ran or waited for a CPU.
    #[must_use]
    pub fn is_only(&self) -> bool {
        self.flags & Sample::ONLY != 0
    }

    /// Returns the number of the system call that the sample hit; `None` if it hit none.
    #[must_use]
    pub fn call(&self) -> Option<u32> {
        if self.in_kernel == Sample::NO_CALL { None } else { self.in_kernel.checked_sub(1) }
    }
}

/// A thread snapshot: the present state of a thread, in memory that its reader maps. The CPU that switches the thread writes it; `turn` is odd
/// during the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ThreadSnapshot {
    /// A sequence counter: odd while the snapshot is being written.
    pub turn: u32,
    /// The thread's id; 0 while the snapshot belongs to no thread.
    pub tid: u32,
    /// The thread's process.
    pub tgid: u32,
    /// The thread that created this one; 0 if this thread existed before cox began to track it.
    pub creator_tid: u32,
    /// Time on CPUs up to the last switch-out.
    pub run_ns: u64,
    /// Time of the last switch-in, if the thread is still running; 0 if it is not running.
    pub since_ns: u64,
    /// User instruction pointer at the last switch-out.
    pub ip: u64,
    /// The system call in which the last switch-out occurred; -1: none.
    pub call: i32,
    /// Number of times that the thread was switched out because it was not runnable.
    pub blocks: u32,
    /// Number of times that the thread was switched out while still runnable.
    pub preempts: u32,
    /// The CPU on which the thread runs or ran last.
    pub cpu: u16,
    /// A [`State`].
    pub state: u8,
    /// Unused.
    pub spare: u8,
    /// Time of the last switch-out.
    pub out_ns: u64,
}

/// A waking and a woken thread. `waker` 0 is an interrupt or the idle task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Pair {
    pub waker: u32,
    pub wakee: u32,
}

/// How often one thread woke the other, and the total time for which the woken thread had been blocked before these wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct PairSum {
    pub count: u64,
    pub blocked_ns: u64,
}

/// An untracked thread that held a CPU for which a tracked thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Preemptor {
    pub wait_ns: u64,
    pub tgid: u32,
    pub pad: u32,
    pub comm: [u8; 16],
}

const _: () = {
    assert!(size_of::<Clock>() == 528);
    assert!(offset_of!(Clock, blocked_ns) == 184);
    assert!(offset_of!(Clock, born_ns) == 464);
    assert!(offset_of!(LivingEntry, clock) == 48 && size_of::<LivingEntry>() == 48 + size_of::<Clock>());
    assert!(size_of::<Cpu>() == 256);
    assert!(offset_of!(Cpu, waiting) == 192);
    assert!(size_of::<TrackedThreads>() == 1792);
    assert!(size_of::<Sample>() == 32);
    assert!(size_of::<ThreadSnapshot>() == 64 && offset_of!(ThreadSnapshot, state) == 54);
    assert!(size_of::<Preemptor>() == 32);
    assert!(Cause::ALL.len() == CAUSES && Cause::Unspecified as usize == CAUSES - 1);
};
