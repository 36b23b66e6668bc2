//! `bold`: sizes as large as the expected imbalance allows, considering what running chunks are expected to take.
//!
//! With mean µ, deviation σ and cost of a request h: a = 2(σ/µ)², b = 8a·ln 8a, c₁ = h/(µ·ln 2), c₂ = √(2π)·c₁,
//! c₃ = ln c₂. At a request, R iterations are unassigned, M unfinished, and N̂ are expected to be unfinished. Q = R/P.
//! If Q ≤ 1, the size is 1. Else r = max(R, N̂), t = r/P, v = Q/(b + Q), d = R/(1 + 1/ln Q − v). If d ≤ c₂, the size
//! is t. Else s = a(ln d − c₃)(1 + M/(rP)), w = ln(v·ln Q) + ln b (the last term only if b > 0), and the size is
//! min(t, max(0, c₁w) + t + s/2 − √(s(t + s/4))), rounded down.
//!
//! Source: Hagerup, "Allocating independent tasks to parallel processors: an experimental study", J. Parallel Distrib.
//! Comput. 47(2), 1997. There, M and N̂ are variables that each request changes. Here they are computed from the
//! running chunks: M = R + Σ c_j, N̂ = M − Σ e_j·c_j/(c_j·µ + h), where thread j has executed c_j iterations for the
//! time e_j. That is the same number and needs no shared variable. LB4OMP truncates µ and h to whole microseconds, and
//! adds up speeds in whole millionths.

use std::f64::consts::{LN_2, PI};

use super::team::Team;

/// Constants of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bold {
    mean_ns: f64,
    overhead_ns: f64,
    a: f64,
    b: f64,
    c1: f64,
    c2: f64,
    /// ln c₂.
    c3: f64,
    /// ln b.
    ln_b: f64,
}

/// What the team executes at the time of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// Iterations of all running chunks.
    running: f64,
    /// Iterations of them that are expected to be finished; may exceed `running`.
    expected: f64,
}

impl Bold {
    /// Computes the constants. Mean and overhead are above 0, the deviation is from 0.
    pub(super) fn new(mean_ns: f64, deviation_ns: f64, overhead_ns: f64) -> Bold {
        let a = 2.0 * (deviation_ns / mean_ns).powi(2);
        let b = if a > 0.0 { 8.0 * a * (8.0 * a).ln() } else { 0.0 };
        let c1 = overhead_ns / (mean_ns * LN_2);
        let c2 = (2.0 * PI).sqrt() * c1;
        Bold { mean_ns, overhead_ns, a, b, c1, c2, c3: c2.ln(), ln_b: b.ln() }
    }

    /// Returns what the team executes.
    pub(super) fn outlook(&self, threads: usize, team: &(impl Team + ?Sized)) -> Outlook {
        let mut outlook = Outlook { running: 0.0, expected: 0.0 };
        for thread in 0..threads {
            let (iterations, elapsed_ns) = team.running(thread);
            if iterations > 0 {
                let iterations = iterations as f64;
                outlook.running += iterations;
                outlook.expected += elapsed_ns * iterations / (iterations * self.mean_ns + self.overhead_ns);
            }
        }
        outlook
    }

    /// Returns the size. Never inlined: a compiler may compute the logarithms in advance, for schedules that need none, too.
    #[inline(never)]
    pub(super) fn size(&self, outlook: &Outlook, remaining: u64, threads: u64) -> u64 {
        let (r, p) = (remaining as f64, threads as f64);
        let q = r / p;
        if q <= 1.0 {
            return 1;
        }
        let unfinished = r + outlook.running;
        let most = r.max(unfinished - outlook.expected);
        let t = most / p;
        let v = q / (self.b + q);
        let ln_q = q.ln();
        let d = r / (1.0 + 1.0 / ln_q - v);
        if d <= self.c2 {
            return t as u64;
        }
        let s = self.a * (d.ln() - self.c3) * (1.0 + unfinished / (most * p));
        let w = if self.b > 0.0 { (v * ln_q).ln() + self.ln_b } else { ln_q.ln() };
        let reduced = (self.c1 * w).max(0.0) + t + s / 2.0 - (s * (t + s / 4.0)).sqrt();
        // Not a number if d is not: then the smallest size.
        reduced.min(t) as u64
    }
}
