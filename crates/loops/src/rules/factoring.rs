//! Batches of P chunks of equal size, each batch a part of what remains: `fac` and `fac2`.

use super::size::Size;
use crate::table::{Cuts, Table};

/// `fac`, factoring: ⌈R/(xP)⌉ at the start of a batch, with β = Pσ/(2µ√R), x = 1 + β² + β√(β² + 2) for the first batch,
/// then x = 2 + β² + β√(β² + 4).
///
/// Source: Flynn Hummel, Schonberg and Flynn, "Factoring: a method for scheduling parallel loops", CACM 35(8), 1992.
/// LB4OMP's `faca` (mFAC) is the same sequence, computed by each thread for itself. LB4OMP truncates µ to whole
/// microseconds. Oracle, derived: N = 1000, P = 4, µ = 10, σ = 3: first chunk 244.
pub(crate) fn fac(size: Size, mean_ns: f64, deviation_ns: f64) -> Table {
    let p = size.threads as f64;
    let mut cuts = Cuts::new(size.trips, size.minimum);
    cuts.decreasing_batches(size.threads, |remaining| {
        let r = remaining as f64;
        let b = p * deviation_ns / (2.0 * mean_ns * r.sqrt());
        let constant = if remaining == size.trips { 1.0 } else { 2.0 };
        // 1 + β² + β√(β² + 2) and 2 + β² + β√(β² + 4).
        let x = constant + b * b + b * (b * b + 2.0 * constant).sqrt();
        (r / (x * p)).ceil() as u64
    });
    cuts.finish()
}

/// `fac2`, factoring by halves: ⌈N/(2^(b+1)·P)⌉ for batch b.
///
/// Source: the same paper, with x = 2, in the closed form of LB4OMP's `fac2`. Another rounding is ⌈R/(2P)⌉ at the
/// start of each batch (DLS4LB's `FAC`), which the batches of `wf` and `awf` have; sizes differ by at most one.
/// Oracle: N = 1000, P = 4: batches of 125, 63, 32, 16, 8, 4, 2, 1.
pub(crate) fn fac2(size: Size) -> Table {
    let mut cuts = Cuts::new(size.trips, size.minimum);
    let mut batch = 0;
    cuts.decreasing_batches(size.threads, |_| {
        batch += 1;
        if batch < 64 { size.part(1 << batch) } else { 1 }
    });
    cuts.finish()
}
