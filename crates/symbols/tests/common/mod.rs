//! Shared by the tests on real programs: compiling the fixtures.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles fixtures/`source` with `compiler` and `flags` into `folder`.
pub fn compile(compiler: &str, source: &str, flags: &[&str], folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(source);
    let name = format!("{}{}", compiler, flags.concat()).replace(['/', '='], "_");
    let program = folder.join(name);
    let output = Command::new(compiler)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .args(flags)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{compiler} {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Whether `compiler` is installed. gcc is what the project builds with, so only others are asked for.
pub fn installed(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}
