//! Small programs that the input compiles, so that every compiler and every MPI is in the corpus without further packages of programs.

use super::inputs;
use super::program::{Family, Find, Knob, Nature, Program};

const THREADS: Knob = Knob::Variable("OMP_NUM_THREADS");
const OPENMP_GCC: &str = "gcc";
const OPENMP_CLANG: &str = "clang libomp-dev";

/// A stencil over a field. The second argument is the number of steps, the third how often one thread alone initialises the field.
const fn stencil(name: &'static str, family: Family, nature: Nature, arguments: &'static [&'static str]) -> Program {
    let gcc = matches!(family, Family::OpenMpGcc);
    Program {
        name,
        family,
        find: Find::Made("stencil"),
        from: if gcc { OPENMP_GCC } else { OPENMP_CLANG },
        nature,
        knob: THREADS,
        launcher: &[],
        arguments,
        input: if gcc { inputs::stencil_gcc } else { inputs::stencil_clang },
    }
}

/// Ranks that exchange the borders of their parts of a field with their neighbours.
const fn halo(name: &'static str, family: Family, launcher: &'static [&'static str]) -> Program {
    let mpich = matches!(family, Family::Mpich);
    Program {
        name,
        family,
        find: Find::Made("halo"),
        from: if mpich { "mpich libmpich-dev" } else { "openmpi-bin libopenmpi-dev" },
        nature: Nature::Coupled,
        knob: Knob::Words,
        launcher,
        arguments: &["1000000", "700"],
        input: if mpich { inputs::halo_mpich } else { inputs::halo_openmpi },
    }
}

/// One rank of Open MPI whose OpenMP threads the launcher binds to one core, its default.
const BOUND: Program = Program {
    name: "bound-openmpi",
    family: Family::OpenMpi,
    from: "gcc openmpi-bin",
    launcher: &["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "{bind}", "-n", "1"],
    ..stencil("bound-openmpi", Family::OpenMpGcc, Nature::Coupled, &["512", "3000", "0"])
};

/// The programs.
pub const PROGRAMS: &[Program] = &[
    stencil("stencil-gcc", Family::OpenMpGcc, Nature::Coupled, &["512", "3000", "0"]),
    stencil("stencil-clang", Family::OpenMpClang, Nature::Coupled, &["512", "3000", "0"]),
    stencil("serial-gcc", Family::OpenMpGcc, Nature::SerialParts, &["512", "2400", "60"]),
    stencil("serial-clang", Family::OpenMpClang, Nature::SerialParts, &["512", "2400", "60"]),
    BOUND,
    halo("halo-mpich", Family::Mpich, &["mpirun.mpich", "-n", "{n}"]),
    halo("halo-openmpi", Family::OpenMpi, &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "{n}"]),
];
