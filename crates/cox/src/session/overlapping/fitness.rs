//! Whether a program's tasks can be taken over, as far as its file tells.

use std::ffi::OsStr;

use symbols::elf::Dynamic;

use crate::preload;
use crate::session::launch::file_of;

/// What clang calls for a parallel region; gcc calls `GOMP_parallel`. LLVM's runtime has both.
const CLANGS: &str = "__kmpc_fork_call";
const GCCS: &str = "GOMP_";

/// Why `program` cannot have its tasks taken over; it is to run untouched then. `None` also where libraries of its own, or programs that it
/// starts, may have tasks.
#[must_use]
pub fn why_not(program: &OsStr) -> Option<String> {
    // What is not there is said when it cannot be executed.
    let file = file_of(program)?;
    let why = match preload::obstacle(&file) {
        Some(obstacle) => obstacle,
        None if Dynamic::read(&file).is_some_and(|program| is_clangs(&program)) => {
            "it is compiled by clang, and its tasks are LLVM's (libomp); those of gcc (libgomp) can be taken over"
        }
        None => return None,
    };
    Some(format!("no overlap in {}: {why}; it runs untouched", program.to_string_lossy()))
}

fn is_clangs(program: &Dynamic) -> bool {
    let imports = |prefix: &str| program.imports.iter().any(|name| name.starts_with(prefix));
    imports(CLANGS) && !imports(GCCS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_of_clangs_alone_is_clangs() {
        let program = |imports: &[&str]| Dynamic {
            loader: "/lib64/ld-linux-x86-64.so.2".into(),
            libraries: Vec::new(),
            imports: imports.iter().map(ToString::to_string).collect(),
        };
        assert!(is_clangs(&program(&["write", "__kmpc_fork_call", "__kmpc_omp_task"])));
        assert!(!is_clangs(&program(&["write", "__kmpc_fork_call", "GOMP_task"])), "linked of both");
        assert!(!is_clangs(&program(&["write", "GOMP_parallel"])));
        assert!(!is_clangs(&program(&[])));
    }
}
