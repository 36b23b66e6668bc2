//! The twelve benchmark kernels, and the properties of each that the experiments need.

use super::barriers::Wait;
use crate::named::by_name;

/// A benchmark kernel of `workloads/kernels`.
#[derive(Debug, PartialEq)]
pub struct Kernel {
    /// Name without `kernel-`.
    pub name: &'static str,
    /// The benchmark kernel's default for `--steps`, which takes 1.0 to 1.5 s of CPU time.
    pub steps: u64,
    /// Smallest number of steps that the benchmark kernel accepts.
    pub least_steps: u64,
    /// True if the code of this benchmark kernel itself contains a spin loop, so that no setting of an OpenMP runtime stops the
    /// spinning.
    pub spins_itself: bool,
    /// True if the target for this benchmark kernel is only that packing does not make it slower. The threads of such a kernel synchronise only at
    /// the end, or have short phases and sleep while they wait.
    pub wants_no_harm: bool,
    /// How the benchmark kernel's threads wait in the simulator; `None`: they synchronise only at the end of the run.
    pub wait: Option<Wait>,
    /// Parts of the PALM paper's rules, such as `progress`. In its ablation, the paper shows this benchmark kernel without each of these parts (slide
    /// 25 of the paper's presentation).
    pub parts: &'static [&'static str],
}

const fn kernel(name: &'static str, steps: u64, wait: Option<Wait>) -> Kernel {
    Kernel { name, steps, least_steps: 1, spins_itself: false, wants_no_harm: false, wait, parts: &[] }
}

/// The benchmark kernels in the order of the PALM paper (Park et al. 2021): seven that synchronise a lot, five that do not.
pub const KERNELS: [Kernel; 12] = [
    Kernel { parts: &["period"], ..kernel("barnes", 24, Some(Wait::Futex)) },
    Kernel { parts: &["progress"], ..kernel("anneal", 65, Some(Wait::Futex)) },
    // If there are more threads than CPUs, libgomp spins for only 100 iterations, so its threads sleep for most of their waiting time.
    Kernel { wants_no_harm: true, parts: &["progress"], ..kernel("cg", 300, Some(Wait::Futex)) },
    Kernel { parts: &["locality", "period"], ..kernel("fft", 40, Some(Wait::Futex)) },
    Kernel { least_steps: 2, spins_itself: true, parts: &["locality"], ..kernel("lu", 200, Some(Wait::Spin)) },
    Kernel { parts: &["progress"], ..kernel("volrend", 50, Some(Wait::Futex)) },
    kernel("stream", 20, Some(Wait::SpinFutex)),
    Kernel { wants_no_harm: true, ..kernel("mg", 75, Some(Wait::Futex)) },
    Kernel { wants_no_harm: true, ..kernel("options", 240, None) },
    Kernel { wants_no_harm: true, ..kernel("raytrace", 24, None) },
    Kernel { wants_no_harm: true, ..kernel("swaptions", 25_000, None) },
    kernel("water", 80, Some(Wait::Futex)),
];

/// Parses a command-line argument: returns the kernel of this name.
///
/// # Errors
/// The list of all names, if there is no such kernel.
pub fn named(name: &str) -> Result<&'static Kernel, String> {
    by_name(&KERNELS, |kernel| kernel.name.to_owned(), name, "known kernels:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_others_are_told_which_there_are() {
        for kernel in &KERNELS {
            assert_eq!(named(kernel.name), Ok(kernel));
        }
        assert!(named("quicksort").unwrap_err().contains("barnes, anneal"));
    }

    /// CA, CG, VO for progress; FT, LU for locality; BA, FT for period.
    #[test]
    fn the_papers_ablation_is_complete() {
        let of = |part| KERNELS.iter().filter(|k| k.parts.contains(&part)).map(|k| k.name).collect::<Vec<_>>();
        assert_eq!(of("progress"), ["anneal", "cg", "volrend"]);
        assert_eq!(of("locality"), ["fft", "lu"]);
        assert_eq!(of("period"), ["barnes", "fft"]);
    }
}
