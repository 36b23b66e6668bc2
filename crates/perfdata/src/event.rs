//! One scheduler event as recorded by perf.

use wire::{LATEST_NS, Left, MOST_CPUS};

/// A thread's name in the kernel's form, padded with NULs.
pub type Comm = [u8; 16];

/// One recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time on perf's clock, nanoseconds; 0 for an event that perf wrote at the start of the recording about a thread
    /// that already existed.
    pub t_ns: u64,
    /// CPU that the event was recorded on.
    pub cpu: u32,
    /// Process in which the event was recorded; -1 if it is unknown or had already ended.
    pub pid: i32,
    /// Thread in which the event was recorded; -1 if it had already ended.
    pub tid: i32,
    /// Kind of event, with its data.
    pub kind: Kind,
}

impl Event {
    /// Returns whether time and CPU numbers are in range. If not, the record is damaged.
    pub(crate) fn is_possible(&self) -> bool {
        let elsewhere = if let Kind::Migration { from, to, .. } = self.kind { from.max(to) } else { 0 };
        self.t_ns <= LATEST_NS && self.cpu.max(elsewhere) < MOST_CPUS
    }
}

/// A thread's state, as far as perf's `timehist` distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Runnable: state number 0.
    Running,
    /// Runnable, with a state number other than 0: newer kernels mark a preempted thread.
    Preempted,
    /// Blocked and not interruptible by signals.
    Uninterruptible,
    /// Any other state.
    Other,
}

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A context switch: one thread leaves the CPU, another one arrives. Id 0 is the idle task.
    Switch {
        /// The thread that leaves.
        prev: u32,
        /// Name of the leaving thread.
        prev_comm: Comm,
        /// Why the thread left the CPU.
        left: Left,
        /// The leaving thread's state, as far as `perf sched timehist` distinguishes it.
        raw: Raw,
        /// The thread that arrives.
        next: u32,
        /// Name of the arriving thread.
        next_comm: Comm,
    },
    /// A thread is woken, by the thread that the event was recorded in or by an interrupt.
    Waking {
        /// The woken thread.
        tid: u32,
        /// Name of the woken thread.
        comm: Comm,
        /// Whether this is the thread's first wake-up.
        is_new: bool,
        /// Whether an interrupt woke the thread.
        by_interrupt: bool,
    },
    /// A thread moves to another CPU.
    Migration {
        /// The thread that moves from one CPU to another.
        tid: u32,
        /// The old CPU.
        from: u32,
        /// The new CPU.
        to: u32,
    },
    /// The scheduler charges run time to a thread: the time since the thread's last event of this kind, or since its switch-in.
    Ran {
        /// The thread that ran.
        tid: u32,
        /// Run time, nanoseconds.
        run_ns: u64,
    },
    /// A thread is created: the tracepoint `sched_process_fork`.
    Forked {
        /// The creating thread.
        parent: u32,
        /// The new thread.
        child: u32,
        /// Name of the new thread.
        comm: Comm,
    },
    /// A process executes another program.
    Execed {
        /// The process's thread after the exec.
        tid: u32,
        /// The thread that called exec.
        caller: u32,
    },
    /// A thread is about to end, but still runs.
    Exited {
        /// The thread that ends.
        tid: u32,
    },
    /// perf's own record of a thread's name.
    Comm {
        /// Process of the thread.
        pid: u32,
        /// The thread to which perf's record gives the name.
        tid: u32,
        /// Name of the thread.
        comm: Comm,
        /// Whether an exec set the name.
        exec: bool,
    },
    /// perf's own record of a new thread, or of a thread that existed before the recording.
    Fork {
        /// Process of the thread.
        pid: u32,
        /// Process of the creating thread.
        parent_pid: u32,
        /// The new or existing thread.
        tid: u32,
        /// The creating thread.
        parent: u32,
    },
    /// perf's own record of a thread's end.
    Exit {
        /// The thread that ended.
        tid: u32,
    },
    /// Events were lost because a buffer was full.
    Lost {
        /// Number of lost events.
        count: u64,
    },
}

impl Kind {
    /// Returns whether the event comes from one of the scheduler's tracepoints. perf's own records start before the
    /// tracepoints are switched on and end after they are off.
    #[must_use]
    pub fn is_of_scheduler(&self) -> bool {
        !matches!(self, Kind::Comm { .. } | Kind::Fork { .. } | Kind::Exit { .. } | Kind::Lost { .. })
    }
}

/// Returns the name in `bytes`, which ends at the first NUL, in the kernel's form: at most 15 bytes, padded with NULs
/// to 16.
#[inline]
pub(crate) fn comm(bytes: &[u8]) -> Comm {
    let mut padded = [0; 16];
    match bytes.first_chunk() {
        Some(bytes) => padded = *bytes,
        None => padded[..bytes.len()].copy_from_slice(bytes),
    }
    const ONES: u128 = u128::from_ne_bytes([1; 16]);
    // The last byte is always NUL.
    let word = u128::from_le_bytes(padded) & u128::MAX >> 8;
    // The lowest set bit is the highest bit of the first zero byte. Bits above it have no meaning.
    let nuls = word.wrapping_sub(ONES) & !word & ONES << 7;
    let length = nuls.trailing_zeros() / 8;
    (word & !(u128::MAX << (8 * length))).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Random;

    #[test]
    fn a_name_ends_at_its_first_nul() {
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let bytes: Vec<u8> =
                (0..random.below(20)).map(|_| [0, 1, b'a', 0x7f, 0x80, 0x81, 0xff][random.below(7)]).collect();
            let mut expected = [0; 16];
            for (to, from) in expected.iter_mut().take(15).zip(bytes.iter().take_while(|byte| **byte != 0)) {
                *to = *from;
            }
            assert_eq!(comm(&bytes), expected, "{bytes:?}");
        }
        assert_eq!(comm(b"abcdefghijklmnopqrst"), *b"abcdefghijklmno\0");
    }
}
