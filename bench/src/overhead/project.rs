//! A generated C project for a parallel make: many short processes that fork, exec and exit.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::case::Bench;
use super::programs::{allowed_cpus, line};
use super::whole::Program;
use crate::tools::in_path;

const FUNCTIONS_PER_FILE: usize = 8;

/// Returns the workload `make`: it runs `make -B` in a project with at least sixty files, and with more if they are needed to reach the running time.
pub fn make<'a>(bench: &'a Bench<'_>) -> Program<'a> {
    let jobs = allowed_cpus();
    Program {
        name: "make",
        about: Box::new(move |files| format!("make -j{jobs} of {files} C files, gcc -O1")),
        least_work: if bench.options.quick { 10 } else { 60 },
        command: Box::new(move |files| {
            let make = in_path("make").context("make is not installed (Debian: make)")?;
            in_path("gcc").context("gcc is not installed (Debian: gcc)")?;
            let folder = bench.scratch.path().join(format!("project-{files}"));
            if !folder.exists() {
                write_project(&folder, files as usize)
                    .with_context(|| format!("cannot write the C project into {}", folder.display()))?;
            }
            let mut command = line(make.into(), &["--silent", "--always-make", &format!("-j{jobs}"), "-C"]);
            command.push(OsString::from(folder));
            Ok(command)
        }),
    }
}

fn write_project(folder: &Path, files: usize) -> std::io::Result<()> {
    fs::create_dir(folder)?;
    for number in 0..files {
        fs::write(folder.join(format!("part{number}.c")), source(number))?;
    }
    fs::write(folder.join("main.c"), main_source(files))?;
    fs::write(folder.join("Makefile"), makefile(files))
}

/// Returns C functions that differ from file to file, so that the compiler has work with each of them.
fn source(number: usize) -> String {
    let mut text = String::from("#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n");
    for function in 0..FUNCTIONS_PER_FILE {
        let factor = number * FUNCTIONS_PER_FILE + function + 3;
        let _ = write!(
            text,
            "static unsigned long step{function}(const char *text, unsigned long seed)\n{{\n    \
                 unsigned long sum = seed;\n    \
                 for (size_t i = 0; i < strlen(text); i++) {{\n        \
                     switch ((sum + (unsigned char)text[i]) % 4) {{\n        \
                     case 0: sum = sum * {factor} + i; break;\n        \
                     case 1: sum ^= sum >> {shift}; break;\n        \
                     case 2: sum += (unsigned long)(sqrt((double)(sum & 1023)) * {factor}); break;\n        \
                     default: sum -= strtoul(text + i, NULL, 16); break;\n        \
                     }}\n    }}\n    return sum;\n}}\n\n",
            shift = function + 1,
        );
    }
    let _ = write!(text, "unsigned long part{number}(const char *text)\n{{\n    unsigned long sum = {number};\n");
    for function in 0..FUNCTIONS_PER_FILE {
        let _ = writeln!(text, "    sum = step{function}(text, sum);");
    }
    text.push_str("    return sum;\n}\n");
    text
}

fn main_source(files: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n\n");
    for number in 0..files {
        let _ = writeln!(text, "unsigned long part{number}(const char *text);");
    }
    text.push_str("\nint main(int argc, char **argv)\n{\n    unsigned long sum = 0;\n");
    for number in 0..files {
        let _ = writeln!(text, "    sum += part{number}(argv[argc - 1]);");
    }
    text.push_str("    printf(\"%lu\\n\", sum);\n    return 0;\n}\n");
    text
}

fn makefile(files: usize) -> String {
    let mut text = String::from("OBJECTS = main.o");
    for number in 0..files {
        let _ = write!(text, " part{number}.o");
    }
    text.push_str(
        "\n\nprogram: $(OBJECTS)\n\tgcc -o $@ $(OBJECTS) -lm\n\n%.o: %.c\n\tgcc -O1 -Wall -Werror -c -o $@ $<\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_project_builds_without_a_warning_and_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("project");
        write_project(&folder, 3).unwrap();
        let built = Command::new("make").arg("-C").arg(&folder).env_remove("MAKEFLAGS").output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let ran = Command::new(folder.join("program")).arg("text").output().unwrap();
        assert!(ran.status.success());
        assert!(String::from_utf8(ran.stdout).unwrap().trim().parse::<u64>().is_ok());
    }
}
