//! What the machine can reach, measured by small kernels on all allowed CPUs: the roofs of the roofline.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use arch::measuring::{fma_work, has_fma};
use serde::Serialize;

/// The ceilings.
#[derive(Clone, Debug, Serialize)]
pub struct Ceilings {
    /// Bytes per second of a triad, as STREAM counts them: 24 for each element.
    pub bytes_per_s: f64,
    /// A name, and floating-point operations per second; lowest first.
    pub roofs: Vec<(String, f64)>,
}

/// How often each kernel is measured. The best one counts: other programs can only slow it down.
const REPEATS: usize = 9;
/// Elements of each of the three arrays, 64 MiB.
const ELEMENTS: usize = 8 << 20;
/// Iterations of a kernel, some tens of milliseconds.
const ITERATIONS: u64 = 10_000_000;
/// Independent chains of the portable kernel: enough to keep two pipelines with a latency of 6 cycles busy.
const CHAINS: usize = 16;

impl Ceilings {
    /// Measures with a thread per CPU.
    pub fn measure(cpus: usize) -> Ceilings {
        let best = |kernel: &Kernel| {
            let once = || {
                let start = Instant::now();
                thread::scope(|scope| (0..cpus).for_each(|_| drop(scope.spawn(|| (kernel.run)(ITERATIONS)))));
                kernel.operations * ITERATIONS as f64 * cpus as f64 / start.elapsed().as_secs_f64()
            };
            (kernel.name.to_owned(), (0..REPEATS).map(|_| once()).fold(0.0, f64::max))
        };
        let mut roofs: Vec<(String, f64)> = kernels().iter().map(best).collect();
        roofs.sort_by(|(_, low), (_, high)| low.total_cmp(high));
        Ceilings { bytes_per_s: bandwidth(cpus), roofs }
    }
}

/// A loop without memory accesses.
struct Kernel {
    name: &'static str,
    /// Floating-point operations of an iteration.
    operations: f64,
    run: fn(u64),
}

/// Returns the kernels that this CPU can execute.
fn kernels() -> Vec<Kernel> {
    let mut kernels = vec![Kernel { name: "portable code", operations: 2.0 * CHAINS as f64, run: portable }];
    if has_fma() {
        // Eight instructions of four multiplications and four additions.
        kernels.push(Kernel { name: "256-bit FMA", operations: 64.0, run: fma_work });
    }
    kernels
}

/// Multiplications and additions, as the compiler makes them for all CPUs of this architecture.
fn portable(iterations: u64) {
    // Sums stay near 2: no overflow, and no denormal numbers, which would be slow.
    let (factor, term) = black_box((0.5, 1.0));
    let mut sums = [1.0f64; CHAINS];
    for _ in 0..iterations {
        sums.iter_mut().for_each(|sum| *sum = *sum * factor + term);
    }
    black_box(sums);
}

/// Measures a triad over arrays that are larger than most caches.
fn bandwidth(cpus: usize) -> f64 {
    let part = ELEMENTS.div_ceil(cpus);
    let [mut a, mut b, mut c] = [(); 3].map(|()| vec![0.0f64; ELEMENTS]);
    // Each thread writes its parts first, so that their memory is near it.
    let parts = a.chunks_mut(part).zip(b.chunks_mut(part)).zip(c.chunks_mut(part));
    thread::scope(|scope| {
        for ((a, b), c) in parts {
            scope.spawn(|| {
                a.fill(1.0);
                b.fill(2.0);
                c.fill(3.0);
            });
        }
    });
    let mut once = || {
        let start = Instant::now();
        let parts = a.chunks_mut(part).zip(b.chunks(part)).zip(c.chunks(part));
        thread::scope(|scope| {
            for ((a, b), c) in parts {
                scope.spawn(move || a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = b + 3.0 * c));
            }
        });
        24.0 * ELEMENTS as f64 / start.elapsed().as_secs_f64()
    };
    let best = (0..REPEATS).map(|_| once()).fold(0.0, f64::max);
    black_box(&a);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_take_time_that_grows_with_their_iterations() {
        for kernel in kernels() {
            let time = |iterations| {
                let start = Instant::now();
                (kernel.run)(iterations);
                start.elapsed()
            };
            // Ten times as much is measurable beside any disturbance: the best of five of each.
            let best = |iterations| (0..5).map(|_| time(iterations)).min();
            assert!(best(1_000_000) > best(100_000), "{}", kernel.name);
        }
    }
}
