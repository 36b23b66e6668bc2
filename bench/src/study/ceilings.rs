//! What the machine can reach, measured by small kernels on all allowed CPUs: the roofs of the roofline.

use std::thread;
use std::time::Instant;

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
/// Accumulators of a kernel. They are independent of each other, and enough to keep two pipelines with a latency of 6 cycles busy.
const CHAINS: f64 = 12.0;

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
    #[cfg(target_arch = "x86_64")]
    {
        let scalar = Kernel { name: "scalar", operations: 2.0 * CHAINS, run: x86::scalar };
        let vector = Kernel { name: "256-bit FMA", operations: 8.0 * CHAINS, run: x86::fused };
        let is_able = std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx");
        if is_able { vec![scalar, vector] } else { vec![scalar] }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        vec![Kernel { name: "compiled", operations: 2.0 * CHAINS, run: compiled }]
    }
}

/// Multiplications and additions, as the compiler makes them.
#[cfg(not(target_arch = "x86_64"))]
fn compiled(iterations: u64) {
    let mut sums = [1.0f64; CHAINS as usize];
    for _ in 0..iterations {
        sums.iter_mut().for_each(|sum| *sum = *sum * 0.5 + 1.0);
    }
    std::hint::black_box(sums);
}

/// In assembly, because the compiler would decide otherwise how wide the instructions are.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    /// Twelve multiplications and twelve additions of one number each: the instructions that gcc makes with -O2.
    pub fn scalar(iterations: u64) {
        // SAFETY: the instructions exist on every x86-64 CPU. They change only registers that are named below, and no memory.
        unsafe {
            asm!(
                "2:",
                "mulsd xmm0, xmm12", "mulsd xmm1, xmm12", "mulsd xmm2, xmm12", "mulsd xmm3, xmm12",
                "mulsd xmm4, xmm12", "mulsd xmm5, xmm12", "mulsd xmm6, xmm12", "mulsd xmm7, xmm12",
                "mulsd xmm8, xmm12", "mulsd xmm9, xmm12", "mulsd xmm10, xmm12", "mulsd xmm11, xmm12",
                "addsd xmm0, xmm13", "addsd xmm1, xmm13", "addsd xmm2, xmm13", "addsd xmm3, xmm13",
                "addsd xmm4, xmm13", "addsd xmm5, xmm13", "addsd xmm6, xmm13", "addsd xmm7, xmm13",
                "addsd xmm8, xmm13", "addsd xmm9, xmm13", "addsd xmm10, xmm13", "addsd xmm11, xmm13",
                "dec {left}",
                "jnz 2b",
                left = inout(reg) iterations.max(1) => _,
                // Sums stay near 2: no overflow, and no denormal numbers, which would be slow.
                in("xmm12") 0.5f64, in("xmm13") 1.0f64,
                inout("xmm0") 1.0f64 => _, inout("xmm1") 1.0f64 => _, inout("xmm2") 1.0f64 => _, inout("xmm3") 1.0f64 => _,
                inout("xmm4") 1.0f64 => _, inout("xmm5") 1.0f64 => _, inout("xmm6") 1.0f64 => _, inout("xmm7") 1.0f64 => _,
                inout("xmm8") 1.0f64 => _, inout("xmm9") 1.0f64 => _, inout("xmm10") 1.0f64 => _, inout("xmm11") 1.0f64 => _,
                options(nomem, nostack),
            );
        }
    }

    /// Twelve fused multiply-adds of four numbers each. The CPU must have AVX and FMA.
    pub fn fused(iterations: u64) {
        // SAFETY: the caller has checked that the CPU has these instructions. They change only registers that are named below, and no memory.
        unsafe {
            asm!(
                "vbroadcastsd ymm12, xmm12",
                "vbroadcastsd ymm13, xmm13",
                "2:",
                "vfmadd213pd ymm0, ymm12, ymm13", "vfmadd213pd ymm1, ymm12, ymm13", "vfmadd213pd ymm2, ymm12, ymm13",
                "vfmadd213pd ymm3, ymm12, ymm13", "vfmadd213pd ymm4, ymm12, ymm13", "vfmadd213pd ymm5, ymm12, ymm13",
                "vfmadd213pd ymm6, ymm12, ymm13", "vfmadd213pd ymm7, ymm12, ymm13", "vfmadd213pd ymm8, ymm12, ymm13",
                "vfmadd213pd ymm9, ymm12, ymm13", "vfmadd213pd ymm10, ymm12, ymm13", "vfmadd213pd ymm11, ymm12, ymm13",
                "dec {left}",
                "jnz 2b",
                "vzeroupper",
                left = inout(reg) iterations.max(1) => _,
                inout("xmm12") 0.5f64 => _, inout("xmm13") 1.0f64 => _,
                inout("xmm0") 1.0f64 => _, inout("xmm1") 1.0f64 => _, inout("xmm2") 1.0f64 => _, inout("xmm3") 1.0f64 => _,
                inout("xmm4") 1.0f64 => _, inout("xmm5") 1.0f64 => _, inout("xmm6") 1.0f64 => _, inout("xmm7") 1.0f64 => _,
                inout("xmm8") 1.0f64 => _, inout("xmm9") 1.0f64 => _, inout("xmm10") 1.0f64 => _, inout("xmm11") 1.0f64 => _,
                options(nomem, nostack),
            );
        }
    }
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
    std::hint::black_box(&a);
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
            // Not as many iterations as a number can count.
            (kernel.run)(0);
        }
    }
}
