//! Closed forms: the best result that any packing can reach, and the expected cost of a given one.
//!
//! `N` threads with `w` of CPU time of work each between two barriers run on `C` equal CPUs. `q = N div C` and
//! `r = N mod C`. Each thread runs for a slice of `p` at a time, a move costs `m` and a decision `k`. `T` is the
//! shortest phase that any schedule can reach, and `M` the number of moves per slice that equal progress needs at most.
//! The formulas come from the project's research on packing, and describe a barrier program as a fluid model.

use std::num::NonZeroUsize;

use pack::policy::assignment::moves_per_slice;

/// The size of a barrier program and of its pack.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of threads.
    pub threads: NonZeroUsize,
    /// Number of CPUs.
    pub cpus: NonZeroUsize,
}

impl Shape {
    /// Returns `None` if one of the numbers is 0.
    #[must_use]
    pub fn new(threads: usize, cpus: usize) -> Option<Shape> {
        Some(Shape { threads: NonZeroUsize::new(threads)?, cpus: NonZeroUsize::new(cpus)? })
    }

    fn n(self) -> f64 {
        self.threads.get() as f64
    }

    fn c(self) -> f64 {
        self.cpus.get() as f64
    }

    /// Returns `q`, the number of threads per CPU rounded down, but at least 1.
    fn per_cpu(self) -> f64 {
        (self.threads.get() / self.cpus.get()).max(1) as f64
    }

    /// Returns the shortest phase that any schedule can reach, ns: all work divided among all CPUs, or one thread's
    /// work if that is longer.
    #[must_use]
    pub fn ideal_phase_ns(self, work_ns: f64) -> f64 {
        work_ns * (self.n() / self.c()).max(1.0)
    }

    /// Returns the length of a phase relative to the ideal phase, if each thread stays on its CPU: `ceil(N/C) * C/N`.
    #[must_use]
    pub fn static_slowdown(self) -> f64 {
        if self.threads <= self.cpus {
            return 1.0;
        }
        self.threads.get().div_ceil(self.cpus.get()) as f64 * self.c() / self.n()
    }

    /// Returns an upper bound of the slowdown if the least served thread is always served first, in periods of
    /// `slice_ns`: `1 + p*C/(q*N*w)`. Moves cost nothing here.
    #[must_use]
    pub fn rotation_slowdown(self, slice_ns: f64, work_ns: f64) -> f64 {
        if self.threads <= self.cpus {
            return 1.0;
        }
        1.0 + slice_ns * self.c() / (self.per_cpu() * self.n() * work_ns)
    }

    /// Returns the slice with the smallest sum of imbalance and cost, `sqrt((M*m + k)*q*T/(0.4*C))`, ns. Simulated
    /// imbalance at the end of a phase is 0.4 of the bound; moves and decisions cost `M*m + k` per slice.
    #[must_use]
    pub fn best_slice_ns(self, work_ns: f64, move_ns: f64, decision_ns: f64) -> f64 {
        let cost = moves_per_slice(self.threads.get(), self.cpus.get()) as f64 * move_ns + decision_ns;
        (cost * self.per_cpu() * self.ideal_phase_ns(work_ns) / (0.4 * self.c())).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(n: usize, c: usize) -> Shape {
        Shape::new(n, c).unwrap()
    }

    /// The savings the paper's ceilings stand for: 1 - 1/S.
    #[test]
    fn the_savings_that_are_possible() {
        for (n, c, saving) in
            [(16, 15, 0.467), (8, 7, 0.429), (4, 3, 0.333), (3, 2, 0.25), (16, 7, 0.238), (16, 2, 0.0), (2, 4, 0.0)]
        {
            let s = shape(n, c).static_slowdown();
            assert!((1.0 - 1.0 / s - saving).abs() < 0.0006, "{n}/{c}: {s}");
        }
    }

    /// The optimum of research section 5 for 16 threads on 15 CPUs and 20 us a move.
    #[test]
    fn the_best_slice() {
        for (work_ms, slice_ms) in [(1.0, 0.12), (10.0, 0.38), (100.0, 1.2)] {
            let slice = shape(16, 15).best_slice_ns(work_ms * 1e6, 20e3, 0.0) / 1e6;
            assert!((slice / slice_ms - 1.0).abs() < 0.05, "{work_ms}: {slice}");
        }
    }

    #[test]
    fn nothing_is_lost_where_each_has_its_own() {
        assert_eq!(shape(2, 2).static_slowdown(), 1.0);
        assert_eq!(shape(2, 3).rotation_slowdown(1e6, 1e6), 1.0);
        assert_eq!(shape(3, 2).ideal_phase_ns(1e6), 1.5e6);
        assert_eq!(shape(2, 3).ideal_phase_ns(1e6), 1e6);
        assert!(Shape::new(0, 1).is_none());
    }
}
