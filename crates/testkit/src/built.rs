//! Paths of this workspace's programs.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use rustix::fs::{FlockOperation, flock};

use crate::skip::{Need, skip};

macro_rules! here {
    ($path:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path)
    };
}

/// The build folder of cargo and make.
pub const TARGET: &str = here!("target");

/// The cox under test, of the same build type as the tests.
pub const COX: &str = if cfg!(debug_assertions) { here!("target/debug/cox") } else { here!("target/release/cox") };

/// The cox-observe under test, of the same build type as the tests.
pub const COX_OBSERVE: &str =
    if cfg!(debug_assertions) { here!("target/debug/cox-observe") } else { here!("target/release/cox-observe") };

/// The package with the sources of test programs.
pub const PACKAGE: &str = here!("crates/cox");

/// The folder of the pages that are installed with cox.
pub const DOCS: &str = here!("docs");

/// Returns the folder for tests' temporary files.
///
/// # Panics
/// When the folder cannot be created.
#[must_use]
pub fn temporary() -> PathBuf {
    let folder = Path::new(TARGET).join("tmp");
    std::fs::create_dir_all(&folder).expect("create target/tmp");
    // A path without `..`, so that it equals the path in messages, which comes from the kernel.
    folder.canonicalize().expect("target/tmp")
}

/// Returns the path of the preload library. If it has not been built, skips `test`.
#[must_use]
pub fn preload_library(test: &str) -> Option<PathBuf> {
    let folder = Path::new(COX).parent().expect("a folder");
    let places = ["deps", "."].map(|place| folder.join(place).join("libcox_preload.so"));
    let library = places.into_iter().find(|place| place.exists());
    if library.is_none() {
        skip(test, Need::Built, "needs libcox_preload.so (cargo build -p preload)");
    }
    library
}

/// Returns the path of a workload. Builds the workloads if necessary.
///
/// # Panics
/// When they cannot be built.
#[must_use]
pub fn workload(name: &str) -> String {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let mut make = Command::new("make");
        make.args(["-s", "-C", here!("workloads")]);
        assert!(without_make(&mut make).status().expect("start make").success(), "make -C workloads");
    });
    format!("{TARGET}/workloads/{name}")
}

/// Removes the variables of a surrounding `make -j` from a command: its job server is not open here.
pub fn without_make(command: &mut Command) -> &mut Command {
    ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"]
        .map(OsStr::new)
        .into_iter()
        .fold(command, |command, name| command.env_remove(name))
}

/// Takes a lock so that no other measuring test of this workspace runs at the same time, in any test program. Hold the returned file while the test
/// runs.
///
/// # Panics
/// When the lock cannot be taken.
#[must_use]
pub fn turn() -> File {
    let turn = File::create(temporary().join("turn")).expect("create the lock file");
    flock(&turn, FlockOperation::LockExclusive).expect("take the lock");
    turn
}
