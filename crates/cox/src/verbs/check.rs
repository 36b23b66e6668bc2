//! `cox check`: whether a program can run as a ULP, and what else cox can do for it, as far as its file shows.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use outputs::Output;
use outputs::diagnostics::say;
use rustix::fs::getxattr;
use rustix::process::{Resource, getrlimit};
use session::launch::file_of;
use session::preload;
use symbols::elf::Dynamic;
use ulp::program::check::{Facts, OWN_FILE, Remark, remarks};
use ulp::program::image::{LoadError, Loader};

use crate::faces::print;
use crate::{cli, python};

use super::ulp::{CANNOT_EXECUTE, host, refuse};

/// Exit code if the program cannot run as a ULP.
const CANNOT: u8 = 1;
/// Mode bits of set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;
/// The functions by which code of gcc makes OpenMP tasks.
const TASKS: [&str; 2] = ["GOMP_task", "GOMP_taskloop"];
/// How much of a file is in memory when it is searched, bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Prints whether a program can run as a ULP, and what is different for it.
///
/// # Errors
/// When its file cannot be read, or the text cannot be written.
pub fn check(options: &cli::Check) -> Result<u8> {
    let name = &options.file;
    let Some(file) = file_of(name) else { return Ok(refuse(name)) };
    let launcher = host().ok().and_then(|host| python::instead_of(&file, &host));
    let by_launcher = launcher.is_some();
    let file = launcher.unwrap_or(file);
    let (text, code) = match Loader::of(&file) {
        Ok(loader) => (can(name, loader.file(), by_launcher)?, 0),
        Err(error @ (LoadError::Unfit { .. } | LoadError::Script { .. })) => {
            (format!("runs as a ULP: no\n  {error}\n"), CANNOT)
        }
        // The interpreter of a script, or the dynamic linker.
        Err(LoadError::Read { path, source }) if path != file => {
            (format!("runs as a ULP: no\n  {} needs {}: {source}\n", file.display(), path.display()), CANNOT)
        }
        Err(LoadError::Read { path, source }) => {
            say(&format!("cannot read {}: {source}", path.display()));
            return Ok(CANNOT_EXECUTE);
        }
        Err(error) => return Err(error.into()),
    };
    print(Some(Output::Stdout), false, |_| text)?;
    Ok(code)
}

/// Returns the text about a program that can run. `file`: what is executed. `by_launcher`: it is the launcher for Python.
fn can(name: &OsStr, file: &Path, by_launcher: bool) -> Result<String> {
    let program = Dynamic::read(file);
    let imports = program.as_ref().map_or(&[][..], |program| &program.imports);
    let facts = Facts {
        imports,
        names_own_file: contains(file, OWN_FILE.as_bytes())
            .with_context(|| format!("cannot read {}", file.display()))?,
        gives_rights: gives_rights(file)?,
        tunables: &std::env::var("GLIBC_TUNABLES").unwrap_or_default(),
        address_space: getrlimit(Resource::As).current,
    };
    let tasks = imports.iter().any(|import| TASKS.contains(&import.as_str()));
    let overlap = match overlap::fitness::why_not(name) {
        Some(why) if tasks => Some(why),
        None if tasks => Some("OpenMP tasks found: cox run --overlap applies".to_owned()),
        _ => None,
    };
    let preload = preload::obstacle(file).map(|why| format!("libcox_preload.so cannot be loaded into it: {why}"));
    let launcher = by_launcher.then(|| {
        "the program is linked to fixed addresses, so that cox ulp runs Python's library instead (cox-ulp-python)"
            .to_owned()
    });
    Ok(told(&remarks(&facts), launcher.into_iter().chain(overlap).chain(preload)))
}

/// Returns the text about a program that can run.
fn told(remarks: &[Remark], besides: impl Iterator<Item = String>) -> String {
    let mut text = "runs as a ULP: yes\n".to_owned();
    for Remark { what, way_out } in remarks {
        text += &format!("  {what}\n    -> {way_out}\n");
    }
    besides.for_each(|line| text += &format!("besides: {line}\n"));
    text
}

/// Whether a file gives rights to who executes it.
fn gives_rights(file: &Path) -> Result<bool> {
    let mode = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.permissions().mode();
    let mut capabilities = [0; 64];
    Ok(mode & SET_IDS != 0 || getxattr(file, c"security.capability", &mut capabilities[..]).is_ok())
}

/// Whether a file contains these bytes.
fn contains(file: &Path, wanted: &[u8]) -> std::io::Result<bool> {
    let mut file = File::open(file)?;
    let mut piece = Vec::new();
    loop {
        // What is wanted may be on both sides of a border.
        let kept = piece.len().min(wanted.len() - 1);
        piece.drain(..piece.len() - kept);
        if file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)? == 0 {
            return Ok(false);
        }
        if piece.windows(wanted.len()).any(|window| window == wanted) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crosses_the_border_of_a_piece_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for at in [0, PIECE_BYTES - 5, PIECE_BYTES, 2 * PIECE_BYTES - 1] {
            let mut bytes = vec![b'.'; 2 * PIECE_BYTES + 100];
            bytes[at..at + 14].copy_from_slice(OWN_FILE.as_bytes());
            fs::write(file.path(), &bytes).unwrap();
            assert!(contains(file.path(), OWN_FILE.as_bytes()).unwrap(), "{at}");
            bytes[at + 7] = b'.';
            fs::write(file.path(), &bytes).unwrap();
            assert!(!contains(file.path(), OWN_FILE.as_bytes()).unwrap(), "{at}");
        }
    }
}
