//! Adaptive factoring: `af` and `maf`.
//!
//! With mean µ_j and variance σ_j² of an iteration on each thread j, D = Σ σ_j²/µ_j and T = 1/Σ(1/µ_j), thread i gets
//! (D + 2TR − √(D² + 4DTR)) / (2µ_i), at most ⌈N/(2P)⌉. The time is that of a chunk (`af`), or includes the request
//! (`maf`).
//!
//! A thread needs two finished chunks for a variance. Until then, its chunks are small (`warm_up`). Threads
//! that have none yet are assumed to be as fast as the thread that asks.
//!
//! Source: Banicescu and Liu, "Adaptive factoring: a dynamic scheduling method tuned to the rate of weight changes",
//! High Performance Computing Symposium, 2000. Oracle: DLS4LB, in the tests; the bound ⌈N/(2P)⌉ and the rounding are
//! from there. LB4OMP divides a chunk into ten requests to sample the deviation, takes the deviation of means of pieces
//! for that of iterations, begins with 100 iterations in any loop, and has no bound.

use super::batches;
use super::convert::{real, whole};
use super::team::{ROUNDING, Team};
use crate::statistics::Pace;

/// Returns the size of a chunk before there is a variance: the two of them of all threads are a tenth of the loop, and
/// at most 100 iterations each.
#[inline]
pub(super) fn warm_up(trips: u64, threads: u64) -> u64 {
    (trips / threads / 20).clamp(1, 100)
}

/// Returns the largest size, ⌈N/(2P)⌉.
#[inline]
pub(super) fn largest(trips: u64, threads: u64) -> u64 {
    batches::half(trips, threads)
}

/// The rule for one thread, with constants that save a division and a root: (√(k₀ + k₁R) − √k₀)², where k₀ = D/(4µ_i) and k₁ = T/µ_i.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spreads {
    k0: f64,
    k1: f64,
    root: f64,
}

impl Spreads {
    /// Computes the constants from sums over the team; `None` if the thread has no variance yet.
    #[inline]
    pub(super) fn new(thread: usize, threads: usize, team: &(impl Team + ?Sized)) -> Option<Spreads> {
        let asking = team.pace(thread);
        let mean_ns = known(asking)?.mean_ns;
        let (mut spread, mut speeds) = (0.0, 0.0);
        for other in 0..threads {
            let pace = if other == thread { asking } else { known(team.pace(other)).unwrap_or(asking) };
            spread += pace.variance_ns2 / pace.mean_ns;
            speeds += 1.0 / pace.mean_ns;
        }
        let k0 = spread / (4.0 * mean_ns);
        Some(Spreads { k0, k1: 1.0 / (speeds * mean_ns), root: k0.sqrt() })
    }

    /// Returns the size.
    #[inline]
    pub(super) fn size(&self, remaining: u64) -> u64 {
        let difference = (self.k0 + self.k1 * real(remaining)).sqrt() - self.root;
        whole(ROUNDING + difference * difference)
    }
}

#[inline]
fn known(pace: Pace) -> Option<Pace> {
    let is_known = pace.speed().is_some() && pace.variance_ns2.is_finite() && pace.variance_ns2 >= 0.0;
    is_known.then_some(pace)
}
