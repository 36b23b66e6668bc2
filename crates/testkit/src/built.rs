//! Where this workspace's programs are built.

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

/// Where cargo and make build.
pub const TARGET: &str = here!("target");

/// The command under test, of the same build as the tests.
pub const COX: &str = if cfg!(debug_assertions) { here!("target/debug/cox") } else { here!("target/release/cox") };

/// The program that has the rights for eBPF, of the same build.
pub const COX_OBSERVE: &str =
    if cfg!(debug_assertions) { here!("target/debug/cox-observe") } else { here!("target/release/cox-observe") };

/// The package whose tests run the command: sources of test programs are below it.
pub const PACKAGE: &str = here!("crates/cox");

/// Pages that are installed with the command.
pub const DOCS: &str = here!("docs");

/// Where tests put what need not survive them.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn temporary() -> PathBuf {
    let folder = Path::new(TARGET).join("tmp");
    std::fs::create_dir_all(&folder).expect("create target/tmp");
    // Without `..`: messages name it as the kernel does.
    folder.canonicalize().expect("target/tmp")
}

/// The release build of cox where there is one: a debug build's own work is slow.
#[must_use]
pub fn fast_cox() -> PathBuf {
    let release = Path::new(TARGET).join("release/cox");
    if release.exists() { release } else { COX.into() }
}

/// Where the preload library was built; if it was not, says that `test` is skipped.
#[must_use]
pub fn preload_library(test: &str) -> Option<PathBuf> {
    let folder = Path::new(COX).parent().expect("a folder");
    let places = ["deps", ".", "../release"].map(|place| folder.join(place).join("libcox_preload.so"));
    let library = places.into_iter().find(|place| place.exists());
    if library.is_none() {
        skip(test, Need::Built, "needs libcox_preload.so (cargo build -p preload)");
    }
    library
}

/// A workload's path; builds the workloads if need be.
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

/// The command without what a surrounding `make -j` hands down: a job server that is not open here.
pub fn without_make(command: &mut Command) -> &mut Command {
    ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"]
        .map(OsStr::new)
        .into_iter()
        .fold(command, |command, name| command.env_remove(name))
}

/// The machine to oneself as far as the other measuring tests of this workspace go, also those of other test programs.
///
/// # Panics
/// When the lock cannot be had.
#[must_use]
pub fn turn() -> File {
    let turn = File::create(temporary().join("turn")).expect("create the lock file");
    flock(&turn, FlockOperation::LockExclusive).expect("take the lock");
    turn
}
