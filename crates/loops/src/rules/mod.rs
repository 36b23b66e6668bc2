//! The rules of non-adaptive schedules: from number of iterations, number of threads, smallest size and parameters to a
//! size, or to a table of cut points.
//!
//! N: iterations, P: threads, m: smallest size, R: iterations that remain, b: number of a batch of P chunks, counted
//! from
//! 0. Every size is at least m, and the last chunk is cut at N. Products of N and P are computed with 128 bits.

pub(crate) mod constant;
pub(crate) mod factoring;
pub(crate) mod guided;
pub(crate) mod increasing;
pub(crate) mod random;
pub(crate) mod size;
pub(crate) mod trapezoid;
