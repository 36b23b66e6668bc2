//! Batches of P chunks whose sizes increase, for loops whose late iterations are cheap: `fiss` and `viss`.

use super::size::Size;
use crate::table::{Cuts, Table};

/// `fiss`, fixed increase: batch b has sizes C + bδ with B stages, X = B + 2, C = ⌊N/(XP)⌋ and
/// δ = ⌊2N(1 − B/X) / (P·B(B − 1))⌋. With one stage, δ is 0.
///
/// Source: Philip and Das, "Evaluation of loop scheduling algorithms on distributed memory systems", PDCS 1997. Oracle:
/// published for N = 1000, P = 4, B = 3: batches of 50, 83, and the rest (116.67 each; 116 here, and a chunk of 4).
pub(crate) fn fiss(size: Size, stages: u64) -> Table {
    let (n, p, stages) = (u128::from(size.trips), u128::from(size.threads), u128::from(stages));
    let first = narrow(n / (stages + 2).saturating_mul(p));
    // 2N(1 − B/X) is 4N/X. X·P·B(B − 1) may exceed 128 bits; then the quotient is 0.
    let divisor = (stages + 2).checked_mul(p).and_then(|product| product.checked_mul(stages));
    let divisor = divisor.and_then(|product| product.checked_mul(stages.saturating_sub(1)));
    let increase = divisor.map_or(0, |divisor| (4 * n).checked_div(divisor).map_or(0, narrow));
    if increase == 0 {
        return Cuts::new(size.trips, size.minimum).finish_with(first);
    }
    batches(size, |batch| first.saturating_add(batch.saturating_mul(increase)))
}

/// `viss`, variable increase: with X = ⌈N/(pP)⌉, batch 0 has sizes X, and batch b ⌊2X(1 − ½^(b+1))⌋: X, 1.5 X, 1.75 X,
/// …
///
/// Source: the same paper. LB4OMP truncates N/(pP). Oracle, derived: N = 1000, P = 4, p = 4: batches of 63, 94, 110.
pub(crate) fn viss(size: Size, divisor: u64) -> Table {
    let first = size.part(divisor).max(1);
    batches(size, |batch| {
        let double = 2 * u128::from(first);
        // 2X − 2X/2^(b+1), rounded down: what is subtracted is rounded up.
        narrow(double - double.div_ceil(1 << (batch + 1).min(127)))
    })
}

fn batches(size: Size, size_of: impl Fn(u64) -> u64) -> Table {
    let mut cuts = Cuts::new(size.trips, size.minimum);
    for batch in 0.. {
        let chunk = size_of(batch);
        for _ in 0..size.threads {
            if cuts.is_full() {
                return cuts.finish();
            }
            cuts.push(chunk);
        }
    }
    cuts.finish()
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
