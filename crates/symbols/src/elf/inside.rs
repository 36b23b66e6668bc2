//! Libraries that are linked statically into a program.

use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

use super::large::Large;
use crate::modules::open_regular;

/// A library that can be linked statically, and how it is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// A function that the library defines.
    pub function: &'a str,
    /// Two string constants of the library, by which it is recognised in a stripped program. Each is a whole C string or the end of one.
    pub strings: [&'a str; 2],
}

/// The marks of gcc's OpenMP runtime in a program's file: a function, and two strings (an environment variable, and the beginning of its messages).
pub const LIBGOMP: Part<'_> = Part { function: "GOMP_parallel", strings: ["GOMP_SPINCOUNT", "\nlibgomp: "] };
/// The marks of LLVM's OpenMP runtime, as in [`LIBGOMP`].
pub const LIBOMP: Part<'_> = Part { function: "__kmpc_fork_call", strings: ["KMP_BLOCKTIME", "OMP: Hint %1$s\n"] };

/// Returns whether the library that `part` describes is linked into a program's file. Looks for the library's function among the program's symbols
/// or, if the program has been stripped, for both of the library's string constants. False if the file cannot be read.
#[must_use]
pub fn has_inside(program: &Path, part: &Part<'_>) -> bool {
    let Some(Ok(data)) = open_regular(program).map(|file| Large::new(&file)) else { return false };
    let data = &data;
    let Ok(elf) = object::File::parse(data) else { return false };
    let mut all = elf.symbols().chain(elf.dynamic_symbols());
    if all.any(|symbol| !symbol.is_undefined() && symbol.name() == Ok(part.function)) {
        return true;
    }
    // The program has symbols, but the library's function is not among them: the library is not linked in.
    if elf.symbols().next().is_some() {
        return false;
    }
    let constants = elf.section_by_name(".rodata").and_then(|section| section.data().ok()).unwrap_or_default();
    part.strings.iter().all(|wanted| {
        let wanted: Vec<u8> = wanted.bytes().chain([0]).collect();
        constants.windows(wanted.len()).any(|found| found == wanted)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn parts_are_found_by_symbols_and_in_stripped_programs_by_strings() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let text = "#include <stdlib.h>\nvoid part_begin(void) { }\nint main(void) {\n\
                    return getenv(\"PART_LEVEL\") || getenv(\"\\npart: \") ? 1 : 0; }\n";
        std::fs::write(file("program.c"), text).unwrap();
        let run = |command: &mut Command| assert!(command.status().unwrap().success());
        run(Command::new("cc").arg(file("program.c")).arg("-o").arg(file("program")));
        run(Command::new("strip").arg(file("program")).arg("-o").arg(file("stripped")));
        let part = Part { function: "part_begin", strings: ["PART_LEVEL", "\npart: "] };
        let other_strings = Part { strings: ["PART_LEVEL", "PART"], ..part };
        let other_function = Part { function: "part_end", ..part };
        for (name, looked_for, expected) in [
            ("program", part, true),
            ("program", other_strings, true),
            ("program", other_function, false),
            ("stripped", part, true),
            ("stripped", other_function, true),
            ("stripped", other_strings, false),
            ("program.c", part, false),
            ("nowhere", part, false),
        ] {
            assert_eq!(has_inside(&file(name), &looked_for), expected, "{name}, {looked_for:?}");
        }
    }
}
