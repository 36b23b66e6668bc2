//! What the program says about a loop.

use wire::loop_records::Clause as Written;

/// What the program says about a loop, apart from its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// The schedule that it names.
    pub written: Written,
    /// Whether each thread must get its chunks in ascending order.
    pub monotonic: bool,
    /// The smallest size of a chunk; 1 if the program does not say.
    pub chunk: u64,
    /// Where the loop is in the program: the address behind the call that begins it; 0 if unknown.
    pub place: usize,
    /// Whether libomp would execute the loop; otherwise libgomp.
    pub is_libomp: bool,
}
