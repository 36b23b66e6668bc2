//! Decides which programs are started with the preload library, and adds it to them.

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

/// File name of the library.
const FILE: &str = "libcox_preload.so";
/// Variable that names another file for the library.
const VARIABLE: &str = "COX_PRELOAD";
/// Variable with the libraries that the dynamic loader loads before a program's own.
const LIST: &str = "LD_PRELOAD";
/// Variable that tells the library not to load into child processes. Its value is the library's own path.
const ALONE: &str = "COX_PRELOAD_ALONE";
/// Libraries that end the program if another library is loaded before them.
const FIRST: [&str; 4] = ["libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so"];
/// Maximum nesting of scripts: the kernel follows this many interpreters that are scripts themselves.
const MAX_SCRIPTS: u32 = 4;

/// Returns the path of the library: from COX_PRELOAD, else next to this executable, else where `make install` puts it.
#[must_use]
pub fn library() -> Option<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let own = env::current_exe().ok()?;
    let folder = own.parent()?;
    let places = [folder.join(FILE), folder.join("../lib/coxswain").join(FILE)];
    places.into_iter().find_map(|place| place.canonicalize().ok())
}

/// Adds the library to a program, if the program can load it and does not have it yet. With `alone`, child processes do not load it. Returns whether the
/// program has it now.
pub fn add_to(launch: &mut Launch, alone: bool) -> bool {
    if launch.variables.iter().any(|(name, _)| name == LIST) {
        return true;
    }
    let Some(program) = launch.command.first() else { return false };
    // LD_PRELOAD cannot contain a path with a blank or a colon.
    let Some(library) = library().filter(|path| !path.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)))
    else {
        return false;
    };
    if file_of(program).is_none_or(|file| obstacle(&file).is_some()) {
        return false;
    }
    let mut list = env::var_os(LIST).unwrap_or_default();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(&library);
    launch.variables.push((LIST.into(), list));
    if alone {
        launch.variables.push((ALONE.into(), library.into()));
    }
    true
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
