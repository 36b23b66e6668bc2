//! Reading the packed time integrals of `include/cox/cells.h` from a snapshot.
//!
//! BPF alone changes cells; user space only closes an interval that is open when it looks.

const SHIFT: u32 = 20;
const COUNT: u64 = (1 << SHIFT) - 1;
const SUM: u64 = u64::MAX >> SHIFT;

/// How many the cell counts now.
pub fn count(cell: u64) -> u64 {
    cell & COUNT
}

/// Thread-time integral W(t), modulo 2^44 ns.
pub fn thread_time_ns(cell: u64, t_ns: u64) -> u64 {
    (cell >> SHIFT).wrapping_add(count(cell).wrapping_mul(t_ns)) & SUM
}

/// Presence integral I(t), modulo 2^44 ns.
pub fn presence_ns(cell: u64, t_ns: u64) -> u64 {
    (cell >> SHIFT).wrapping_add(if count(cell) > 0 { t_ns } else { 0 }) & SUM
}

/// A sum of readings, reduced to a reading: modulo 2^44 ns.
pub fn reduced_ns(sum: u64) -> u64 {
    sum & SUM
}

/// Time between two readings of one cell, less than 2.4 h apart. A reading just behind an earlier one
/// (clocks of different CPUs differ by a little) is no time at all.
pub fn since_ns(later: u64, earlier: u64) -> u64 {
    let since = later.wrapping_sub(earlier) & SUM;
    if since > SUM / 2 { 0 } else { since }
}
