//! The small loops of a function, and whether they only wait for other threads: what the machine code of this processor says.
//!
//! The rule, and `WaitLoops::find`, are in `x86_64/wait_loop.rs`. Of processors whose code is not read, all code is [`Verdict::Straight`].

/// Longest loop that is looked at, in instructions. The waiting loops of libgomp, libomp, glibc and the
/// usual hand-written locks have 3 to 12 instructions optimised, and up to 26 at -O0.
pub const MAX_LOOP: usize = 32;

/// What a sampled instruction is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A loop that only waits.
    Waits,
    /// A small loop that stores along memory, computes on vectors or floating point, or moves strings.
    Moves,
    /// Another small loop.
    Works,
    /// No small loop: straight code, or a loop that is too long to be judged.
    Straight,
}

/// What a call instruction names as its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTarget {
    /// Code at this address.
    Code(u64),
    /// Code at the address that this memory holds: an entry of the global offset table.
    Pointer(u64),
}

/// What a called function is good for, as far as waiting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// It only executes `pause`.
    Relaxes,
    /// It gives the CPU away: `sched_yield`.
    Yields,
    /// Anything else.
    Other,
}

/// The small loops of one function.
#[derive(Clone, Debug, Default)]
pub struct WaitLoops {
    /// Instructions in small loops, ascending: address, end, verdict.
    pub(crate) spans: Vec<(u64, u64, Verdict)>,
    pub(crate) pauses: bool,
    pub(crate) yields: bool,
    pub(crate) relaxes_only: bool,
    pub(crate) looks_only: bool,
}

impl WaitLoops {
    /// What the instruction at `ip` is part of.
    pub fn verdict(&self, ip: u64) -> Verdict {
        let behind = self.spans.partition_point(|&(start, _, _)| start <= ip);
        match behind.checked_sub(1).map(|at| self.spans[at]) {
            Some((_, end, verdict)) if ip < end => verdict,
            _ => Verdict::Straight,
        }
    }

    /// Whether the function has `pause` or one of its kin anywhere.
    pub fn pauses(&self) -> bool {
        self.pauses
    }

    /// Whether the function calls something that gives the CPU away.
    pub fn yields(&self) -> bool {
        self.yields
    }

    /// Whether the function is short, without loops and calls, and has `pause`.
    pub fn relaxes_only(&self) -> bool {
        self.relaxes_only
    }

    /// Whether the function is short, without loops and calls, and stores nothing but what it pushes: a
    /// test that a waiting loop may call. By itself this means nothing.
    pub fn looks_only(&self) -> bool {
        self.looks_only
    }
}
