//! One scheduler event, as perf recorded it.

use wire::{LATEST_NS, Left, MOST_CPUS};

/// A name as the kernel keeps it, padded with NULs.
pub type Comm = [u8; 16];

/// One thing that perf saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on perf's clock; 0: told when the recording began, of what was there already.
    pub t_ns: u64,
    /// Where.
    pub cpu: u32,
    /// The process that it was recorded on; -1: gone already.
    pub pid: i32,
    /// The thread that it was recorded on; -1: gone already.
    pub tid: i32,
    /// What.
    pub kind: Kind,
}

impl Event {
    /// Whether it can have happened when and where it says; else what tells it is damaged.
    pub(crate) fn is_possible(&self) -> bool {
        let elsewhere = if let Kind::Migration { from, to, .. } = self.kind { from.max(to) } else { 0 };
        self.t_ns <= LATEST_NS && self.cpu.max(elsewhere) < MOST_CPUS
    }
}

/// A state as perf's `timehist` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Zero.
    Running,
    /// Runnable, but not zero: newer kernels mark who was preempted.
    Preempted,
    /// Blocked, and not to be woken by signals.
    Uninterruptible,
    /// Any other.
    Other,
}

/// What perf saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One thread leaves the CPU, another comes; 0: the idle task.
    Switch {
        /// Who leaves.
        prev: u32,
        /// Its name.
        prev_comm: Comm,
        /// How.
        left: Left,
        /// The same as the number says it.
        raw: Raw,
        /// Who comes.
        next: u32,
        /// Its name.
        next_comm: Comm,
    },
    /// A thread is woken, by the one that this was recorded on or by an interrupt.
    Waking {
        /// Who.
        tid: u32,
        /// Its name.
        comm: Comm,
        /// For the first time.
        is_new: bool,
        /// By an interrupt.
        by_interrupt: bool,
    },
    /// A thread moves to another CPU.
    Migration {
        /// Who.
        tid: u32,
        /// From.
        from: u32,
        /// To.
        to: u32,
    },
    /// A thread has run for so long since this was last said, or since it came to its CPU.
    Ran {
        /// Who.
        tid: u32,
        /// How long.
        run_ns: u64,
    },
    /// A thread is made: as the scheduler's tracepoint says it.
    Forked {
        /// By whom.
        parent: u32,
        /// Who.
        child: u32,
        /// Its name.
        comm: Comm,
    },
    /// A process runs another program.
    Execed {
        /// Its thread from now on.
        tid: u32,
        /// The thread that asked for it.
        caller: u32,
    },
    /// A thread ends; it still runs.
    Exited {
        /// Who.
        tid: u32,
    },
    /// A thread has a name: as perf's own record says it.
    Comm {
        /// Of which process.
        pid: u32,
        /// Who.
        tid: u32,
        /// Its name.
        comm: Comm,
        /// By exec.
        exec: bool,
    },
    /// A thread is made, or was there: as perf's own record says it.
    Fork {
        /// Of which process.
        pid: u32,
        /// Its creator's process.
        parent_pid: u32,
        /// Who.
        tid: u32,
        /// Its creator.
        parent: u32,
    },
    /// A thread has gone, or perf's record says so.
    Exit {
        /// Who.
        tid: u32,
    },
    /// Events found no room.
    Lost {
        /// How many.
        count: u64,
    },
}

impl Kind {
    /// Whether one of the scheduler's tracepoints said it. perf's own records begin before those are switched on and end after they are off.
    #[must_use]
    pub fn is_of_scheduler(&self) -> bool {
        !matches!(self, Kind::Comm { .. } | Kind::Fork { .. } | Kind::Exit { .. } | Kind::Lost { .. })
    }
}

/// A name from bytes, up to the first NUL, cut to what the kernel keeps.
#[inline]
pub(crate) fn comm(bytes: &[u8]) -> Comm {
    let mut padded = [0; 16];
    match bytes.first_chunk() {
        Some(bytes) => padded = *bytes,
        None => padded[..bytes.len()].copy_from_slice(bytes),
    }
    const ONES: u128 = u128::from_ne_bytes([1; 16]);
    // Its last byte is a NUL in any case.
    let word = u128::from_le_bytes(padded) & u128::MAX >> 8;
    // The lowest bit that is left is the highest one of the first byte that is 0; bits above it say nothing.
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
