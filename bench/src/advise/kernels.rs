//! The twelve kernels, and how much work each gets.

use crate::named::by_name;

/// A kernel of the workloads.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `kernel-NAME`.
    pub name: &'static str,
    /// Steps: two to four seconds on two CPUs by the way that suits it, since a trial has to have both ways in
    /// windows several times. Less where taskset takes ten times as long.
    pub steps: u64,
}

const fn kernel(name: &'static str, steps: u64) -> Kernel {
    Kernel { name, steps }
}

/// All of them.
pub const KERNELS: [Kernel; 12] = [
    kernel("barnes", 96),
    kernel("anneal", 300),
    kernel("cg", 1200),
    kernel("fft", 160),
    kernel("lu", 40),
    kernel("volrend", 200),
    kernel("stream", 20),
    kernel("mg", 300),
    kernel("options", 960),
    kernel("raytrace", 96),
    kernel("swaptions", 100_000),
    kernel("water", 320),
];

/// The kernel of this name.
///
/// # Errors
/// Naming those that there are.
pub fn named(name: &str) -> Result<&'static Kernel, String> {
    by_name(&KERNELS, |kernel| kernel.name.to_owned(), name, "one of")
}
