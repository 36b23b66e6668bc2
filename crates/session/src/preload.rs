//! Decides which programs are started with a library of cox, and adds it to them.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use symbols::elf::Dynamic;

use crate::launch::file_of;
use crate::target::Launch;

/// A library that cox loads into programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// File name.
    file: &'static str,
    /// Variable that names another file.
    variable: &'static str,
}

/// Barriers and tasks, from inside. It comes before the other one: the functions of both that it calls are then those of the other one.
pub const PRELOAD: Library = Library { file: "libcox_preload.so", variable: "COX_PRELOAD" };
/// Loop schedules.
pub const LOOPS: Library = Library { file: "libcox_loops.so", variable: "COX_LOOPS_LIBRARY" };

/// Variable with the libraries that the dynamic loader loads before a program's own.
const LIST: &str = "LD_PRELOAD";
/// Variable that tells the library not to load into child processes. Its value is the library's own path.
const ALONE: &str = "COX_PRELOAD_ALONE";
/// Libraries that end the program if another library is loaded before them.
const FIRST: [&str; 4] = ["libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so"];
/// Maximum nesting of scripts: the kernel follows this many interpreters that are scripts themselves.
const MAX_SCRIPTS: u32 = 4;

impl Library {
    /// Returns its path: from its variable, else next to this executable, else where `make install` puts it.
    #[must_use]
    pub fn path(self) -> Option<PathBuf> {
        if let Some(named) = env::var_os(self.variable).filter(|named| !named.is_empty()) {
            return Some(named.into());
        }
        let own = env::current_exe().ok()?;
        let folder = own.parent()?;
        let places = [folder.join(self.file), folder.join("../lib/coxswain").join(self.file)];
        places.into_iter().find_map(|place| place.canonicalize().ok())
    }

    /// Adds the library to a program, behind others that cox has added, if the program can load it and does not have it yet. Returns whether the program
    /// has it now.
    pub fn add_to(self, launch: &mut Launch) -> bool {
        let Some(program) = launch.command.first() else { return false };
        // LD_PRELOAD cannot contain a path with a blank or a colon.
        let Some(library) =
            self.path().filter(|path| !path.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)))
        else {
            return false;
        };
        if file_of(program).is_none_or(|file| obstacle(&file).is_some()) {
            return false;
        }
        let position = launch.variables.iter().position(|(name, _)| name == LIST);
        let position = position.unwrap_or_else(|| {
            launch.variables.push((LIST.into(), env::var_os(LIST).unwrap_or_default()));
            launch.variables.len() - 1
        });
        let list = &mut launch.variables[position].1;
        if list.as_bytes().split(|byte| *byte == b':').any(|word| word == library.as_os_str().as_bytes()) {
            return true;
        }
        if !list.is_empty() {
            list.push(":");
        }
        list.push(&library);
        true
    }
}

/// Adds [`PRELOAD`] to a program, if that is possible. With `alone`, child processes do not load it. Returns whether the program has it now.
pub fn add_to(launch: &mut Launch, alone: bool) -> bool {
    let is_loaded = PRELOAD.add_to(launch);
    if let Some(library) = PRELOAD.path().filter(|_| is_loaded && alone)
        && !launch.variables.iter().any(|(name, _)| name == ALONE)
    {
        launch.variables.push((ALONE.into(), library.into()));
    }
    is_loaded
}

/// Returns the reason why a program's loader would not load the library, or why the program would fail with it; `None`
/// if it works.
#[must_use]
pub fn obstacle(file: &Path) -> Option<&'static str> {
    obstacle_of(file, MAX_SCRIPTS)
}

fn obstacle_of(file: &Path, scripts_left: u32) -> Option<&'static str> {
    const SET_ID: u32 = 0o6000;
    let has_rights = file.metadata().map_or(true, |status| status.mode() & SET_ID != 0)
        || getxattr(file, "security.capability", &mut [0u8; 64][..]).is_ok();
    if has_rights {
        return Some("it runs with more rights than its user");
    }
    if let Some(interpreter) = script_interpreter(file) {
        let next = scripts_left.checked_sub(1);
        return next.map_or(Some("its interpreters are nested too deep"), |left| obstacle_of(&interpreter, left));
    }
    let Some(program) = Dynamic::read(file) else { return Some("it is statically linked") };
    let is_sanitized = program.libraries.iter().any(|name| FIRST.iter().any(|first| name.starts_with(first)));
    if program.loader.file_name() != Some(OsStr::new(arch::LOADER)) {
        return Some("it uses another C library, or is for another processor");
    }
    is_sanitized.then_some("it is built with a sanitizer")
}

/// Returns the interpreter that a `#!` line names.
fn script_interpreter(file: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    // The kernel, too, reads only the first 256 bytes of a script to find its interpreter.
    File::open(file).ok()?.take(256).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii_start().split(|byte| *byte == b' ' || *byte == b'\t').next()?;
    Some(OsStr::from_bytes(word).into())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn dynamic_programs_and_their_scripts_take_it() {
        assert_eq!(obstacle_of(&env::current_exe().unwrap(), 0), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for (text, wanted) in [("#! /bin/sh -e\n", true), ("#!/no/such\n", false), ("text", false), ("", false)] {
            fs::write(&file, text).unwrap();
            assert_eq!(obstacle_of(&file, 1).is_none(), wanted, "{text}");
        }
        fs::write(&file, "#!/bin/sh\n").unwrap();
        assert_eq!(obstacle_of(&file, 0), Some("its interpreters are nested too deep"));
        fs::set_permissions(&file, Permissions::from_mode(0o4755)).unwrap();
        assert!(obstacle_of(&file, 1).unwrap().contains("more rights"));
        assert!(obstacle_of(&folder.path().join("nowhere"), 1).is_some());
    }
}
