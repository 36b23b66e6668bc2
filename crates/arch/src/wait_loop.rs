//! The small loops of a function, and whether they only wait for other threads, judged from this processor's machine code.
//!
//! The rule, and `WaitLoops::find`, are in `x86_64/wait_loop.rs`. If cox does not read a processor's code, all of its code is
//! [`Verdict::Straight`].

/// Longest loop that is judged, in instructions. The waiting loops of libgomp, libomp, glibc and the usual hand-written locks have 3 to 12
/// instructions if optimised, and up to 26 at -O0.
pub const MAX_LOOP: usize = 32;

/// The kind of code to which a sampled instruction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A loop that only waits.
    Waits,
    /// A small loop that stores to advancing addresses, computes on vectors or floating point, or moves strings.
    Moves,
    /// A small loop that does anything else.
    Works,
    /// No small loop: straight-line code, or a loop that is too long to be judged.
    Straight,
}

/// The target of a call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTarget {
    /// The called code begins at this address.
    Code(u64),
    /// The address of the called code is stored at this address, which is an entry of the global offset table.
    Pointer(u64),
}

/// The effect of a called function, as far as waiting is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The function only executes `pause`.
    Relaxes,
    /// The function gives up the CPU: `sched_yield`.
    Yields,
    /// Anything else.
    Other,
}

/// The small loops of one function.
#[derive(Clone, Debug, Default)]
pub struct WaitLoops {
    /// Spans of instructions in small loops, in ascending order: first address, end, verdict.
    pub(crate) spans: Vec<(u64, u64, Verdict)>,
    /// Whether the function contains `pause` or one of its newer variants.
    pub pauses: bool,
    /// Whether the function calls a function that gives up the CPU.
    pub yields: bool,
    /// Whether the function is short, without loops and calls, and contains `pause`.
    pub relaxes_only: bool,
    /// Whether the function is short, without loops and calls, and stores nothing except what it pushes. A waiting loop may call such a
    /// function as its test; the property alone does not mean that the function waits.
    pub looks_only: bool,
}

impl WaitLoops {
    /// Returns the kind of code to which the instruction at `ip` belongs.
    pub fn verdict(&self, ip: u64) -> Verdict {
        let behind = self.spans.partition_point(|&(start, _, _)| start <= ip);
        match behind.checked_sub(1).map(|at| self.spans[at]) {
            Some((_, end, verdict)) if ip < end => verdict,
            _ => Verdict::Straight,
        }
    }
}
