//! cox's own workloads: programs whose behaviour is known, because it was made.

use advise::Kind;

use super::inputs;
use super::program::{Family, Find, Knob, Nature, Program};

const THREADS: Knob = Knob::Variable("OMP_NUM_THREADS");

/// An OpenMP workload.
const fn openmp(name: &'static str, nature: Nature, arguments: &'static [&'static str]) -> Program {
    workload(name, name, Family::OpenMpGcc, nature, THREADS, arguments)
}

/// An OpenMP workload whose own option has the number of threads.
const fn kernel(name: &'static str, nature: Nature, arguments: &'static [&'static str]) -> Program {
    workload(name, name, Family::OpenMpGcc, nature, Knob::Words, arguments)
}

/// A workload with one thread that works, whatever the number of CPUs.
const fn fixed(name: &'static str, nature: Nature, arguments: &'static [&'static str]) -> Program {
    workload(name, name, Family::Other, nature, Knob::None, arguments)
}

/// A workload that makes its own threads.
const fn pool(name: &'static str, file: &'static str, nature: Nature, arguments: &'static [&'static str]) -> Program {
    workload(name, file, Family::Pool, nature, Knob::Words, arguments)
}

const fn workload(
    name: &'static str,
    file: &'static str,
    family: Family,
    nature: Nature,
    knob: Knob,
    arguments: &'static [&'static str],
) -> Program {
    Program {
        name,
        family,
        find: Find::Workload(file),
        from: "the workloads (make -C workloads)",
        nature,
        knob,
        launcher: &[],
        arguments,
        input: inputs::none,
    }
}

/// The workloads. Work is a number of iterations of which 900 are about one microsecond, so that all runs do the same. More threads make fewer
/// rounds.
pub const PROGRAMS: &[Program] = &[
    pool(
        "barriers",
        "barriers",
        Nature::Equal,
        &["--threads", "{n}", "--rounds", "{12000/n}", "--work-us", "100", "--iterations-per-us", "900"],
    ),
    pool(
        "barriers-spin",
        "barriers",
        Nature::Equal,
        &[
            "--threads",
            "{n}",
            "--rounds",
            "{1500/n}",
            "--work-us",
            "1000",
            "--wait",
            "spin",
            "--iterations-per-us",
            "900",
        ],
    ),
    openmp("imbalance", Nature::Unequal, &["--factor", "3", "--rounds", "{1600/n+2}", "--iterations-per-us", "900"]),
    openmp("mandelbrot", Nature::Parallel, &["--size", "256", "--steps", "10", "--no-verify"]),
    openmp("triad", Nature::Parallel, &["--bytes", "64M", "--repeats", "40"]),
    openmp("regions", Nature::Equal, &["--region-us", "200", "--regions", "{7000/n}", "--iterations-per-us", "900"]),
    openmp("phases", Nature::Coupled, &["--steps", "400", "--work", "8"]),
    kernel("kernel-cg", Nature::Coupled, &["--threads", "{n}"]),
    kernel("kernel-fft", Nature::Coupled, &["--threads", "{n}"]),
    kernel("kernel-lu", Nature::CoupledSpinning, &["--threads", "{n}", "--steps", "5"]),
    kernel("kernel-mg", Nature::Coupled, &["--threads", "{n}"]),
    pool("kernel-barnes", "kernel-barnes", Nature::Coupled, &["--threads", "{n}"]),
    pool("kernel-options", "kernel-options", Nature::Independent, &["--threads", "{n}"]),
    pool(
        "known-mutex",
        "known-mutex",
        Nature::Convoy,
        &["--threads", "{n}", "--rounds", "{600/n}", "--iterations-per-us", "900"],
    ),
    fixed("known-write", Nature::Waits(Kind::DiskBound), &["--seconds", "1.5", "--dir", "."]),
    fixed("known-sleep", Nature::Waits(Kind::Sleeping), &["--seconds", "1"]),
    fixed("known-poll", Nature::Waits(Kind::WaitingForInput), &["--seconds", "1"]),
    fixed("known-flock", Nature::Waits(Kind::FileLock), &["--seconds", "1", "--dir", "."]),
];
