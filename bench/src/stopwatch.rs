//! `cox-bench stopwatch FILE -- PROGRAM`: runs a program and writes its cost to FILE.
//!
//! The stopwatch runs between an observer and the program, so it measures how much slower the *program* became, without the observer's start and
//! report. Plain runs use it, too.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{Cost, run};

/// Runs the program. Returns its exit code, or 128+n if signal n killed it.
///
/// # Errors
/// When the program cannot be started or FILE cannot be written.
pub fn stopwatch(file: &Path, program: &[OsString]) -> Result<u8> {
    let (name, arguments) = program.split_first().context("no program given")?;
    let (status, cost) =
        run(Command::new(name).args(arguments)).with_context(|| format!("cannot run {}", Path::new(name).display()))?;
    fs::write(file, serde_json::to_vec(&cost)?).with_context(|| format!("cannot write {}", file.display()))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Reads the wall and CPU time that the stopwatch wrote to FILE, and removes the file, so that no later run can read the old values.
///
/// # Errors
/// When the file cannot be read, removed or parsed.
pub fn take(file: &Path) -> Result<Cost> {
    let text = fs::read(file).with_context(|| format!("cannot read the program's time from {}", file.display()))?;
    fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot parse the program's time in {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_can_be_taken_once_and_the_code_is_the_programs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cost");
        assert_eq!(stopwatch(&file, &["sh".into(), "-c".into(), "sleep 0.05; exit 7".into()]).unwrap(), 7);
        assert!(take(&file).unwrap().wall_ns >= 50_000_000);
        assert!(take(&file).is_err());
        assert_eq!(stopwatch(&file, &["sh".into(), "-c".into(), "kill -15 $$".into()]).unwrap(), 143);
        assert!(stopwatch(&file, &["/nonexistent/program".into()]).is_err());
    }
}
