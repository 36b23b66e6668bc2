//! Benchmarks that the user has built (`cargo xtask benchmarks`): NPB, LULESH, HPCG and miniFE.

use super::inputs;
use super::program::{Family, Find, Knob, Nature, Program};

const THREADS: Knob = Knob::Variable("OMP_NUM_THREADS");

const fn built(name: &'static str, family: Family, nature: Nature, arguments: &'static [&'static str]) -> Program {
    Program {
        name,
        family,
        find: Find::Given(name),
        from: "the folder of --programs (cargo xtask benchmarks)",
        nature,
        knob: THREADS,
        launcher: &[],
        arguments,
        input: inputs::none,
    }
}

const fn gcc(name: &'static str, nature: Nature, arguments: &'static [&'static str]) -> Program {
    built(name, Family::OpenMpGcc, nature, arguments)
}

const fn clang(name: &'static str, nature: Nature, arguments: &'static [&'static str]) -> Program {
    built(name, Family::OpenMpClang, nature, arguments)
}

/// LULESH: a cube of 24^3 elements, 150 steps, no output between.
const LULESH: &[&str] = &["-s", "24", "-i", "150", "-q"];
/// HPCG: a local grid of 32^3 points. `--rt=0` runs each part once, so that the work is fixed.
const HPCG: &[&str] = &["--nx=32", "--ny=32", "--nz=32", "--rt=0"];
const MINIFE: &[&str] = &["nx=48", "ny=48", "nz=48", "verify_solution=0"];

/// The programs. The letter in an NPB name is its class: A is the smallest that takes a second, and W is smaller.
pub const PROGRAMS: &[Program] = &[
    gcc("bt.W.gcc", Nature::Coupled, &[]),
    gcc("cg.A.gcc", Nature::Coupled, &[]),
    gcc("ep.W.gcc", Nature::Independent, &[]),
    gcc("ft.W.gcc", Nature::SerialParts, &[]),
    gcc("is.A.gcc", Nature::Open, &[]),
    gcc("lu.W.gcc", Nature::CoupledSpinning, &[]),
    gcc("mg.A.gcc", Nature::SerialParts, &[]),
    gcc("sp.W.gcc", Nature::Coupled, &[]),
    clang("bt.W.clang", Nature::Coupled, &[]),
    clang("cg.A.clang", Nature::Coupled, &[]),
    clang("ep.W.clang", Nature::Independent, &[]),
    clang("ft.W.clang", Nature::SerialParts, &[]),
    clang("is.A.clang", Nature::Open, &[]),
    clang("lu.W.clang", Nature::CoupledSpinning, &[]),
    clang("mg.A.clang", Nature::SerialParts, &[]),
    clang("sp.W.clang", Nature::Coupled, &[]),
    gcc("lulesh.gcc", Nature::Coupled, LULESH),
    clang("lulesh.clang", Nature::Coupled, LULESH),
    gcc("hpcg.gcc", Nature::SerialParts, HPCG),
    clang("hpcg.clang", Nature::SerialParts, HPCG),
    gcc("minife.gcc", Nature::Open, MINIFE),
    clang("minife.clang", Nature::Open, MINIFE),
];
