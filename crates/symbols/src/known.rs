//! Runtimes whose waiting code is known. It is recognised by the names of functions or, because distributions strip libraries, by the library's
//! file name and the machine code.
//!
//! Names are looked up in every module, so statically linked copies are found as well.

use arch::wait_loop::{Verdict, WaitLoops};
use wire::Waiting;

/// The names of functions to which a rule applies.
#[derive(Clone, Copy)]
enum Name {
    Is(&'static str),
    Starts(&'static str),
    /// The name begins with the first string and ends with the second.
    Frames(&'static str, &'static str),
    /// The name begins with the first string, and the second follows anywhere after it.
    Has(&'static str, &'static str),
}

impl Name {
    fn fits(self, name: &str) -> bool {
        match self {
            Name::Is(whole) => name == whole,
            Name::Starts(start) => name.starts_with(start),
            Name::Frames(start, end) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
            Name::Has(start, part) => name.strip_prefix(start).is_some_and(|rest| rest.contains(part)),
        }
    }
}

/// Functions whose own time counts as waiting, grouped by project. A comment names the project's source files. The functions that they call, for
/// example tasks that a waiting thread runs, are judged separately.
const FUNCTIONS: &[(Name, Waiting)] = &[
    // GCC libgomp: config/linux/wait.h
    (Name::Is("do_spin"), Waiting::OpenMp),
    (Name::Is("do_wait"), Waiting::OpenMp),
    // config/linux/bar.c
    (Name::Starts("gomp_barrier_wait"), Waiting::OpenMp),
    (Name::Starts("gomp_team_barrier_wait"), Waiting::OpenMp),
    // config/linux/mutex.c, sem.c, ptrlock.c
    (Name::Is("gomp_mutex_lock_slow"), Waiting::OpenMp),
    (Name::Is("gomp_sem_wait_slow"), Waiting::OpenMp),
    (Name::Is("gomp_ptrlock_get_slow"), Waiting::OpenMp),
    // barrier.c
    (Name::Is("GOMP_barrier"), Waiting::OpenMp),
    (Name::Is("GOMP_barrier_cancel"), Waiting::OpenMp),
    // LLVM and Intel OpenMP: kmp_wait_release.h, kmp_dispatch.cpp
    (Name::Starts("__kmp_wait_"), Waiting::OpenMp),
    (Name::Has("kmp_flag", "::wait"), Waiting::OpenMp),
    // kmp_barrier.cpp
    (Name::Has("__kmp_", "_barrier_gather"), Waiting::OpenMp),
    (Name::Has("__kmp_", "_barrier_release"), Waiting::OpenMp),
    // kmp_lock.cpp
    (Name::Frames("__kmp_acquire_", "_lock"), Waiting::OpenMp),
    (Name::Has("__kmp_acquire_", "_lock_timed_template"), Waiting::OpenMp),
    // z_Linux_util.cpp, z_Linux_asm.S
    (Name::Is("__kmp_yield"), Waiting::OpenMp),
    (Name::Is("__kmp_x86_pause"), Waiting::OpenMp),
    // MPICH: src/mpid/ch3/channels/nemesis/src/ch3_progress.c, src/mpid/ch4/src/ch4_progress.c, and the progress functions of the netmods
    (Name::Has("MPID", "rogress"), Waiting::Mpi),
    (Name::Has("MPIR_", "rogress_hook"), Waiting::Mpi),
    (Name::Is("MPIR_Wait_state"), Waiting::Mpi),
    // Open MPI: opal/runtime/opal_progress.c, opal/threads/wait_sync.c, opal/mca/btl/*
    (Name::Is("opal_progress"), Waiting::Mpi),
    (Name::Is("ompi_sync_wait_mt"), Waiting::Mpi),
    (Name::Is("opal_sync_wait_mt"), Waiting::Mpi),
    (Name::Starts("ompi_request_default_wait"), Waiting::Mpi),
    (Name::Frames("mca_", "_progress"), Waiting::Mpi),
    // UCX: src/ucp/core/ucp_worker.c, src/uct/sm and src/uct/ib
    (Name::Is("ucp_worker_progress"), Waiting::Mpi),
    (Name::Frames("uct_", "_progress"), Waiting::Mpi),
    // libfabric: prov/util/src/util_cq.c and the providers
    (Name::Starts("ofi_cq_read"), Waiting::Mpi),
    (Name::Is("ofi_cq_progress"), Waiting::Mpi),
    (Name::Frames("smr_", "_progress"), Waiting::Mpi),
    (Name::Frames("rxm_", "_progress"), Waiting::Mpi),
    (Name::Frames("psmx2_", "_progress"), Waiting::Mpi),
    // glibc: nptl/pthread_spin_lock.c
    (Name::Is("pthread_spin_lock"), Waiting::PthreadSpin),
    (Name::Is("__pthread_spin_lock"), Waiting::PthreadSpin),
    // The user side of sched_yield(2)
    (Name::Is("sched_yield"), Waiting::Yield),
    (Name::Is("__sched_yield"), Waiting::Yield),
    (Name::Is("thrd_yield"), Waiting::Yield),
    (Name::Is("std::thread::yield_now"), Waiting::Yield),
    // OpenBLAS: driver/others/blas_server.c; the compute kernels are separate functions
    (Name::Is("blas_thread_server"), Waiting::TightLoop),
    (Name::Is("exec_blas_async_wait"), Waiting::TightLoop),
    // Go: src/runtime/asm_amd64.s; rayon: rayon-core/src/sleep/mod.rs; HotSpot: os_linux_x86.cpp
    (Name::Is("runtime.procyield"), Waiting::TightLoop),
    (Name::Is("rayon_core::sleep::Sleep::no_work_found"), Waiting::TightLoop),
    (Name::Is("SpinPause"), Waiting::TightLoop),
];

/// A library whose purpose is known. The rules for its code use this knowledge in addition to the machine instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    /// GCC's OpenMP runtime.
    Gomp,
    /// LLVM's and Intel's OpenMP runtime.
    Kmp,
    /// An MPI library, its plugins, or its network libraries.
    Mpi,
    /// The C library or its thread library (libpthread).
    C,
    /// oneTBB.
    Tbb,
}

/// File names of libraries: the beginning, and the characters of which one must follow (empty: anything may follow). Without these characters,
/// `libompitrace` would count as `libomp`.
const LIBRARIES: &[(&str, &str, Library)] = &[
    ("libgomp", ".-", Library::Gomp),
    ("libomp", ".-5", Library::Kmp),
    ("libiomp5", ".-m", Library::Kmp),
    ("libmpi", ".-_c", Library::Mpi),
    ("libpmpi", ".-", Library::Mpi),
    ("libopen-pal", ".", Library::Mpi),
    ("mca_", "", Library::Mpi),
    ("libmca_", "", Library::Mpi),
    ("libucp", ".-", Library::Mpi),
    ("libuct", ".-_", Library::Mpi),
    ("libucs", ".-", Library::Mpi),
    ("libfabric", ".-", Library::Mpi),
    ("libpsm2", ".-", Library::Mpi),
    ("libpsm_infinipath", ".", Library::Mpi),
    ("libc", ".-", Library::C),
    ("libpthread", ".-", Library::C),
    ("ld-musl-", "", Library::C),
    ("libtbb", ".-1", Library::Tbb),
];

impl Library {
    fn of(module: &str) -> Option<Library> {
        LIBRARIES
            .iter()
            .find(|(start, follows, _)| {
                module.strip_prefix(start).is_some_and(|rest| {
                    follows.is_empty() || rest.chars().next().is_some_and(|first| follows.contains(first))
                })
            })
            .map(|&(_, _, library)| library)
    }
}

/// Returns the reason to wait that a function's name implies; `None` if no function that waits is known by this name.
pub(crate) fn by_name(name: &str) -> Option<Waiting> {
    let name = name.trim_end_matches("@plt");
    // GCC's clones of a function: `do_wait.isra.0`, `gomp_team_barrier_wait_end.part.0`, `main.cold`.
    let original = name.split('.').next().unwrap_or(name);
    FUNCTIONS
        .iter()
        .find(|(rule, _)| rule.fits(name) || (!original.is_empty() && rule.fits(original)))
        .map(|&(_, waiting)| waiting)
}

/// Returns the reason to wait that the machine code around a sampled instruction implies, by the rules for `module`; `None` if the code does not
/// wait. `loops` are the small loops of its function, and `verdict` is that of the loop around the instruction. `named`: the function has a name.
pub(crate) fn by_code(module: &str, named: bool, loops: &WaitLoops, verdict: Verdict) -> Option<Waiting> {
    let waits = verdict == Verdict::Waits;
    let gives_way = loops.pauses || loops.yields;
    match Library::of(module) {
        Some(Library::Gomp) if waits => Some(Waiting::OpenMp),
        // The runtime waits in one long template function (kmp_wait_release.h): it tests the flag for which it waits, yields, searches for tasks, and
        // sleeps. Apart from this function, only the runtime's locks execute the `pause` instruction. The function calls the test of the flag, which
        // calls a clock function. Both are short, and have no names in a stripped library.
        Some(Library::Kmp) if waits || gives_way || (!named && loops.looks_only) => Some(Waiting::OpenMp),
        // MPI progress is spread over many short functions, which have no names in distributions' builds. Functions without names whose loops move
        // data are left out: they do work, because they pack, copy or reduce data.
        Some(Library::Mpi) if waits || (!named && verdict != Verdict::Moves) => Some(Waiting::Mpi),
        // Spinning in the adaptive mutex (nptl/pthread_mutex_lock.c). All code of the C library that spins has `pause`.
        Some(Library::C) => (waits && loops.pauses).then_some(Waiting::PthreadSpin),
        // While a thread searches for a task to steal, it pauses in the class `prolonged_pause` (src/tbb/scheduler_common.h).
        Some(Library::Tbb) if waits || (!named && gives_way) => Some(Waiting::TightLoop),
        _ => waits.then_some(Waiting::TightLoop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runtimes() {
        for (name, expected) in [
            ("gomp_team_barrier_wait_end", Some(Waiting::OpenMp)),
            ("gomp_team_barrier_wait_end.part.0", Some(Waiting::OpenMp)),
            ("do_wait.isra.0", Some(Waiting::OpenMp)),
            ("__kmp_acquire_queuing_lock", Some(Waiting::OpenMp)),
            ("__kmp_hyper_barrier_release", Some(Waiting::OpenMp)),
            ("kmp_flag_64<false, true>::wait", Some(Waiting::OpenMp)),
            ("MPIDI_CH3I_Progress", Some(Waiting::Mpi)),
            ("MPID_Progress_wait", Some(Waiting::Mpi)),
            ("opal_progress", Some(Waiting::Mpi)),
            ("mca_btl_vader_component_progress", Some(Waiting::Mpi)),
            ("uct_worker_progress", Some(Waiting::Mpi)),
            ("pthread_spin_lock", Some(Waiting::PthreadSpin)),
            ("sched_yield@plt", Some(Waiting::Yield)),
            ("runtime.procyield", Some(Waiting::TightLoop)),
            ("gomp_barrier_handle_tasks", None),
            ("mca_pml_ob1_recv_request_progress_frag", None),
            ("__kmp_execute_tasks_template", None),
            ("pthread_mutex_lock", None),
            ("main._omp_fn.0", None),
            ("do_waiting", None),
            (".text", None),
            ("", None),
        ] {
            assert_eq!(by_name(name), expected, "{name}");
        }
    }

    #[test]
    fn libraries_by_file_name() {
        for (module, expected) in [
            ("libgomp.so.1.0.0", Some(Library::Gomp)),
            ("libgomp-a34b3233.so.1.0.0", Some(Library::Gomp)),
            ("libomp.so.5", Some(Library::Kmp)),
            ("libomp-19.so.5", Some(Library::Kmp)),
            ("libiomp5.so", Some(Library::Kmp)),
            ("libompitrace.so.40.30.1", None),
            ("libmpich.so.12.2.2", Some(Library::Mpi)),
            ("libmpi.so.40.30.4", Some(Library::Mpi)),
            ("libmpi_abi.so.1", Some(Library::Mpi)),
            ("mca_btl_vader.so", Some(Library::Mpi)),
            ("libc.so.6", Some(Library::C)),
            ("libcrypto.so.3", None),
            ("libtbb.so.12.8", Some(Library::Tbb)),
            ("app", None),
        ] {
            assert_eq!(Library::of(module), expected, "{module}");
        }
    }

    /// `pause; mov (%rdi),%eax; test %eax,%eax; je 0; ret`
    const PAUSING: [u8; 9] = [0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8, 0xc3];

    #[test]
    fn one_loop_means_what_its_library_makes_of_it() {
        let loops = WaitLoops::find(&PAUSING, 0, &|_| arch::wait_loop::Callee::Other);
        let judged = |module| by_code(module, false, &loops, loops.verdict(2));
        assert_eq!(judged("libgomp.so.1.0.0"), Some(Waiting::OpenMp));
        assert_eq!(judged("libmpi.so.40"), Some(Waiting::Mpi));
        assert_eq!(judged("libc.so.6"), Some(Waiting::PthreadSpin));
        assert_eq!(judged("app"), Some(Waiting::TightLoop));
    }

    #[test]
    fn straight_code_waits_only_where_its_library_says_so() {
        let loops = WaitLoops::find(&PAUSING, 0, &|_| arch::wait_loop::Callee::Other);
        let judged = |module, named, verdict| by_code(module, named, &loops, verdict);
        assert_eq!(judged("libgomp.so.1", false, Verdict::Straight), None);
        assert_eq!(judged("libomp.so.5", true, Verdict::Straight), Some(Waiting::OpenMp));
        assert_eq!(judged("libmpich.so.12", false, Verdict::Straight), Some(Waiting::Mpi));
        assert_eq!(judged("libmpich.so.12", true, Verdict::Straight), None);
        assert_eq!(judged("libmpich.so.12", false, Verdict::Moves), None);
        assert_eq!(judged("app", false, Verdict::Straight), None);
        assert_eq!(judged("app", false, Verdict::Works), None);
    }

    #[test]
    fn a_short_test_without_a_name_is_the_flag_test_of_libomp() {
        // mov 8(%rdi),%rax; cmpl $0,(%rax); sete %al; ret, and the same with mov %eax,(%rdi) in between
        let looks = [0x48, 0x8b, 0x47, 0x08, 0x83, 0x38, 0x00, 0x0f, 0x94, 0xc0, 0xc3];
        let stores = [0x48, 0x8b, 0x47, 0x08, 0x89, 0x07, 0x83, 0x38, 0x00, 0x0f, 0x94, 0xc0, 0xc3];
        let judged = |bytes: &[u8], module, named| {
            let loops = WaitLoops::find(bytes, 0, &|_| arch::wait_loop::Callee::Other);
            by_code(module, named, &loops, loops.verdict(4))
        };
        assert_eq!(judged(&looks, "libomp.so.5", false), Some(Waiting::OpenMp));
        assert_eq!(judged(&looks, "libomp.so.5", true), None);
        assert_eq!(judged(&looks, "libgomp.so.1", false), None);
        assert_eq!(judged(&stores, "libomp.so.5", false), None);
    }
}
