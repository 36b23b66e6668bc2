//! Sizes that decrease linearly: `tss` and `tfss`.

use super::size::Size;
use crate::table::{Cuts, Table};

/// First size F = max(1, ⌊N/(2P)⌋), last size L = min(m, F), number of chunks n = max(2, ⌈2N/(F + L)⌉), and decrease
/// δ = ⌊(F − L)/(n − 1)⌋.
#[derive(Clone, Copy)]
struct Trapezoid {
    first: u64,
    last: u64,
    chunks: u64,
    decrease: u64,
}

fn trapezoid(size: Size) -> Trapezoid {
    let first = (size.trips / size.threads / 2).max(1);
    let last = size.minimum.min(first);
    let chunks = (2 * u128::from(size.trips)).div_ceil(u128::from(first) + u128::from(last)).max(2);
    // At most 4P + 4, or N if that is below 2P.
    let chunks = u64::try_from(chunks).unwrap_or(u64::MAX);
    Trapezoid { first, last, chunks, decrease: (first - last) / (chunks - 1) }
}

impl Trapezoid {
    /// Returns F − kδ, and L after the last chunk.
    fn size(self, k: u64) -> u64 {
        self.first.saturating_sub(k.saturating_mul(self.decrease)).max(self.last)
    }
}

/// `tss`, trapezoid self-scheduling: F − kδ.
///
/// Source: Tzen and Ni, IEEE Trans. Parallel Distrib. Syst. 4(1), 1993; rounding as in LLVM's `trapezoidal`. Oracle:
/// published for N = 1000, P = 4: 125 117 109 101 93 85 77 69 61 53 45 37 29 …, the last one cut to 28.
pub(crate) fn tss(size: Size) -> Table {
    let trapezoid = trapezoid(size);
    let mut cuts = Cuts::new(size.trips, size.minimum);
    for k in 0..trapezoid.chunks {
        if cuts.is_full() {
            break;
        }
        cuts.push(trapezoid.size(k));
    }
    cuts.finish()
}

/// `tfss`, trapezoid factoring self-scheduling: each of the P chunks of batch b has the mean size of the P chunks of
/// `tss` that it replaces, F − bPδ − δ(P − 1)/2, rounded up.
///
/// Source: Chronopoulos, Andonie, Benche and Grosu, CLUSTER 2001. LB4OMP truncates δ, the mean, and the number of the
/// batch. Oracle: published for N = 1000, P = 4: batches of 113, 81, 49, 17.
pub(crate) fn tfss(size: Size) -> Table {
    let trapezoid = trapezoid(size);
    let mut cuts = Cuts::new(size.trips, size.minimum);
    let batches = trapezoid.chunks.div_ceil(size.threads);
    for batch in 0..batches {
        let chunks = batch * size.threads..(batch + 1).saturating_mul(size.threads);
        let sum: u128 = chunks.map(|k| u128::from(trapezoid.size(k))).sum();
        let mean = u64::try_from(sum.div_ceil(u128::from(size.threads))).unwrap_or(u64::MAX);
        for _ in 0..size.threads {
            if cuts.is_full() {
                return cuts.finish();
            }
            cuts.push(mean);
        }
    }
    cuts.finish()
}
