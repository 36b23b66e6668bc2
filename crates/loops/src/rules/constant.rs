//! Chunks of one size, computed from the loop.

use super::size::Size;

/// `fsc`, fixed-size chunking: ⌈(√2·N·h / (σ·P·√(ln P)))^(2/3)⌉, at most ⌈N/P⌉.
///
/// Source: Kruskal and Weiss, "Allocating independent subtasks on parallel processors", IEEE Trans. Software Eng.
/// 11(10), 1985. Without deviation or with one thread, the size is ⌈N/P⌉. DLS4LB rounds in the same way; LB4OMP rounds
/// down. Oracle: N = 1000, P = 4, σ = 3, h = 1: 21.6, hence 22.
pub(crate) fn fsc(size: Size, deviation_ns: f64, overhead_ns: f64) -> u64 {
    let (n, p) = (size.trips as f64, size.threads as f64);
    let optimum = (2f64.sqrt() * n * overhead_ns / (deviation_ns * p * p.ln().sqrt())).powf(2.0 / 3.0);
    let most = size.part(1).max(1);
    // Infinite without deviation or with one thread.
    let chunk = if optimum.is_finite() { (optimum.ceil() as u64).min(most) } else { most };
    chunk.max(size.minimum)
}

/// `mfsc`, modified fixed-size chunking: ⌊0.55 + t·ln 2/ln t⌋ with t = ⌈N/P⌉, so that there are about as many chunks as
/// with `fac2`.
///
/// Source: Banicescu, Ciorba and Srivastava, 2013, as DLS4LB and LB4OMP implement it. Oracle: N = 1000, P = 4: 31.
pub(crate) fn mfsc(size: Size) -> u64 {
    let share = size.part(1);
    let chunk = if share > 1 { (0.55 + share as f64 * 2f64.ln() / (share as f64).ln()) as u64 } else { 1 };
    chunk.clamp(1, share.max(1)).max(size.minimum)
}
