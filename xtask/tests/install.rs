//! `make install` installs everything or nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use xtask::workspace;

/// Installs what is in `built` below `destination`.
fn install(built: &Path, destination: &Path) -> Output {
    let mut make = Command::new("make");
    // As a user calls it, and not as a part of the make that runs the tests.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL").current_dir(workspace::root());
    make.arg("install").arg("PREFIX=/usr").arg(format!("DESTDIR={}", destination.display()));
    make.arg(format!("RELEASE={}", built.display())).output().unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}

/// A `cox` that prints a word where the true one prints completions or writes man pages.
const COX: &str = "#!/bin/sh\nif [ \"$1\" = man ]; then echo page >\"$2/cox.1\"; else echo word; fi\n";

fn executable(path: PathBuf) {
    fs::write(&path, COX).unwrap();
    assert!(Command::new("chmod").arg("755").arg(path).status().unwrap().success());
}

#[test]
fn half_of_it_is_not_installed() {
    let (built, destination) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // What `make demo` builds.
    executable(built.path().join("cox"));
    let output = install(built.path(), destination.path());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("cox-bench") && said.contains("make build"), "{said}");
    assert_eq!(files(destination.path()), Vec::<PathBuf>::new());
}

#[test]
fn all_of_it_is() {
    let (built, destination) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for file in ["cox", "cox-bench", "libcox_preload.so", "libcox_umt.so"] {
        executable(built.path().join(file));
    }
    let output = install(built.path(), destination.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let usr = destination.path().join("usr");
    for file in [
        "bin/cox",
        "bin/cox-bench",
        "lib/coxswain/libcox_preload.so",
        "lib/libcox_umt.so",
        "lib/pkgconfig/cox-umt.pc",
        "include/cox_umt.h",
        "share/man/man1/cox.1",
        "share/man/man3/cox_umt.3",
        "share/bash-completion/completions/cox",
        "share/doc/coxswain/README.md",
        "share/doc/coxswain/LICENSE-APACHE",
        "share/doc/coxswain/LICENSE-BPF",
        "share/doc/coxswain/LICENSE-MIT",
        "share/doc/coxswain/docs/run.md",
        "share/doc/coxswain/docs/advice/imbalance.md",
    ] {
        assert!(usr.join(file).is_file(), "{file}");
    }
}
