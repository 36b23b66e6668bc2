//! What is said of an instruction.

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
