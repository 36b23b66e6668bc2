//! Checks whether cox's runtime can run a program's tasks in place of libgomp, as far as the program's file shows.

use std::ffi::OsStr;

use session::launch::file_of;
use session::preload;
use symbols::elf::{Dynamic, LIBGOMP, LIBOMP, Part, has_inside};

/// The function that code compiled by clang calls for a parallel region. Code compiled by gcc calls `GOMP_parallel`. LLVM's runtime has
/// both functions.
const CLANGS: &str = "__kmpc_fork_call";
const GCCS: &str = "GOMP_";

/// OpenMP runtimes that provide the GOMP_* entry points, which gcc's code calls: gcc's own, LLVM's, and Intel's build of LLVM's.
const RUNTIMES: [&str; 3] = ["libgomp.so", "libomp", "libiomp5.so"];

/// Returns why cox's runtime cannot run the tasks of `program` in place of libgomp; the program then runs unchanged. Returns `None` also if the
/// program itself has no tasks, because its libraries, or programs that it starts, may have some.
#[must_use]
pub fn why_not(program: &OsStr) -> Option<String> {
    // If the file is missing, nothing is reported here: the attempt to execute it fails later, and reports this.
    let file = file_of(program)?;
    let why = match preload::obstacle(&file) {
        Some(obstacle) => obstacle,
        None => obstacle(&Dynamic::read(&file)?, |part| has_inside(&file, part))?,
    };
    Some(format!("no overlap in {}: {why}; the program runs unchanged", program.to_string_lossy()))
}

/// Returns why cox's runtime cannot run the program's tasks in place of libgomp. `is_inside` returns whether a library is linked statically into the
/// program's file.
fn obstacle(program: &Dynamic, is_inside: impl Fn(&Part<'_>) -> bool) -> Option<&'static str> {
    let imports = |prefix: &str| program.imports.iter().any(|name| name.starts_with(prefix));
    if imports(CLANGS) && !imports(GCCS) {
        return Some(
            "it is compiled by clang, so LLVM's runtime (libomp) runs its tasks; only tasks of gcc's libgomp can be taken over",
        );
    }
    // The loader takes a function from the first library that has it.
    let is_runtime = |name: &&String| RUNTIMES.iter().any(|runtime| name.starts_with(runtime));
    match program.libraries.iter().find(is_runtime) {
        Some(runtime) if runtime.starts_with(RUNTIMES[0]) => None,
        Some(_) if imports(GCCS) => Some(
            "it is linked to LLVM's OpenMP runtime (libomp, libiomp5); only tasks of gcc's libgomp can be taken over",
        ),
        _ if is_inside(&LIBOMP) => Some(
            "LLVM's OpenMP runtime (libomp) is linked into it statically; only tasks of gcc's libgomp.so can be taken over",
        ),
        _ if is_inside(&LIBGOMP) => Some(
            "libgomp is linked into it statically, so its tasks cannot be taken over; link the program to libgomp.so",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn why(imports: &[&str], libraries: &[&str], inside: &[Part<'_>]) -> &'static str {
        let strings = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let program = Dynamic {
            loader: Path::new("/lib64").join(arch::LOADER),
            libraries: strings(libraries),
            imports: strings(imports),
        };
        obstacle(&program, |part| inside.contains(part)).unwrap_or_default()
    }

    #[test]
    fn only_a_program_of_clangs_alone_is_clangs() {
        assert!(why(&["write", "__kmpc_fork_call", "__kmpc_omp_task"], &["libomp.so.5"], &[]).contains("clang"));
        assert_eq!(why(&["write", "__kmpc_fork_call", "GOMP_task"], &["libgomp.so.1"], &[]), "", "linked of both");
        assert_eq!(why(&["write", "GOMP_parallel"], &["libc.so.6", "libgomp.so.1"], &[]), "");
        assert_eq!(why(&[], &[], &[]), "");
    }

    #[test]
    fn the_first_runtime_is_the_one_that_is_called() {
        for llvms in ["libomp.so.5", "libomp-19.so.5", "libiomp5.so"] {
            assert!(why(&["GOMP_parallel"], &["libc.so.6", llvms], &[]).contains("linked to LLVM's"), "{llvms}");
            assert!(why(&["GOMP_parallel"], &[llvms, "libgomp.so.1"], &[]).contains("linked to LLVM's"), "{llvms}");
            assert_eq!(why(&["GOMP_parallel"], &["libgomp.so.1", llvms], &[]), "", "{llvms}");
        }
    }

    #[test]
    fn a_static_runtime_is_named() {
        assert!(why(&["write"], &["libc.so.6"], &[LIBGOMP]).starts_with("libgomp is linked into it statically"));
        // LLVM's runtime also has gcc's functions, so both marks are found, and LLVM's decides.
        assert!(why(&["write"], &["libc.so.6"], &[LIBGOMP, LIBOMP]).contains("(libomp) is linked into it statically"));
    }
}
