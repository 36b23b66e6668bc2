//! The twelve benchmark kernels and their amount of work.

use crate::named::by_name;

/// A benchmark kernel of the workloads.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name without `kernel-`: the program is `kernel-NAME`.
    pub name: &'static str,
    /// Value of `--steps`. With this value, the benchmark kernel takes two to four seconds on two CPUs if it is run in the fastest way. This is long
    /// enough for `cox advise` to try each way to run it in several time windows. Kernels that take ten times as long with taskset have fewer steps.
    pub steps: u64,
}

const fn kernel(name: &'static str, steps: u64) -> Kernel {
    Kernel { name, steps }
}

/// All twelve kernels.
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

/// Returns the benchmark kernel of this name.
///
/// # Errors
/// The list of all names, if there is no such kernel.
pub fn named(name: &str) -> Result<&'static Kernel, String> {
    by_name(&KERNELS, |kernel| kernel.name.to_owned(), name, "known kernels:")
}
