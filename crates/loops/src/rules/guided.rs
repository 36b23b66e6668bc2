//! Sizes in proportion to what remains: `gss` by both rules, `tap`, `pls`.

use super::size::Size;
use crate::table::{Cuts, Table};

/// `gss`, guided self-scheduling: ⌈R/P⌉.
///
/// Source: Polychronopoulos and Kuck, IEEE Trans. Computers 36(12), 1987; libgomp's `guided` (`libgomp/iter.c`).
/// Oracle: published for N = 1000, P = 4: 250 188 141 106 79 59 45 33 25 19 14 11 8 6 4 3 3 2 1 1 1 1.
pub(crate) fn gss(size: Size) -> Table {
    let mut cuts = Cuts::new(size.trips, size.minimum);
    cuts.decreasing_batches(1, |remaining| remaining.div_ceil(size.threads));
    cuts.finish()
}

/// `gss_llvm`: ⌊R/(2P)⌋ as long as R ≥ 2P(m + 1), then m. The whole loop has chunks of m if (2m + 1)·P ≥ N. A single
/// thread gets the whole loop.
///
/// Source: LLVM's OpenMP runtime, `guided` (`kmp_sch_guided_iterative_chunked`). LLVM multiplies floating-point numbers
/// where this code divides integers. Oracle: N = 1000, P = 4: 125 109 95 83 73 …, confirmed with libomp 19.
pub(crate) fn gss_llvm(size: Size) -> Table {
    let Size { trips, threads, minimum } = size;
    let mut cuts = Cuts::new(trips, minimum);
    let (wide, p) = (u128::from(minimum), u128::from(threads));
    if threads == 1 {
        if trips > 0 {
            cuts.push(trips);
        }
    } else if (2 * wide + 1) * p < u128::from(trips) {
        let rule = |remaining: u64| {
            let is_large = u128::from(remaining) >= 2 * p * (wide + 1);
            if is_large { remaining / (2 * threads) } else { minimum }
        };
        cuts.decreasing_batches(1, rule);
    }
    cuts.finish()
}

/// `tap`, tapering: ⌈T + v²/2 − v·√(2T + v²/4)⌉ with T = R/P and v = α·σ/µ.
///
/// Source: Lucco, "A dynamic scheduling method for irregular parallel programs", PLDI 1992. LB4OMP truncates µ to whole
/// microseconds. Oracle, derived: N = 1000, P = 4, µ = 10, σ = 3, α = 1: first chunk 244.
pub(crate) fn tap(size: Size, variation: f64) -> Table {
    let v = variation;
    let mut cuts = Cuts::new(size.trips, size.minimum);
    cuts.decreasing_batches(1, |remaining| {
        let share = remaining as f64 / size.threads as f64;
        (share + v * v / 2.0 - v * (2.0 * share + v * v / 4.0).sqrt()).ceil() as u64
    });
    cuts.finish()
}

/// `pls`, performance-based loop scheduling: one chunk of ⌈N·f/P⌉ for each of the first P requests, then `gss`.
///
/// Source: Shih, Yang and Tseng, J. Supercomputing 41(3), 2007. LB4OMP computes the rest in closed form, ⌈(1 −
/// 1/P)^s·N'/P⌉, which differs by rounding.
pub(crate) fn pls(size: Size, static_part: f64) -> Table {
    let mut cuts = Cuts::new(size.trips, size.minimum);
    let first = (size.trips as f64 * static_part / size.threads as f64).ceil() as u64;
    for _ in 0..size.threads {
        if first > 0 && !cuts.is_full() {
            cuts.push(first);
        }
    }
    cuts.decreasing_batches(1, |remaining| remaining.div_ceil(size.threads));
    cuts.finish()
}
