//! `make install` installs everything or nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::skip::{Need, skip};
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

fn build(folder: &Path) {
    for file in [
        "cox",
        "cox-bench",
        "cox-observe",
        "cox-ulp-host",
        "cox-ulp-python",
        "libcox_preload.so",
        "libcox_loops.so",
        "libcox_umt.so",
    ] {
        executable(folder.join(file));
    }
}

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
    build(built.path());
    let output = install(built.path(), destination.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let usr = destination.path().join("usr");
    for file in [
        "bin/cox",
        "bin/cox-bench",
        "libexec/coxswain/cox-observe",
        "libexec/coxswain/cox-ulp-host",
        "libexec/coxswain/cox-ulp-python",
        "lib/coxswain/libcox_preload.so",
        "lib/coxswain/libcox_loops.so",
        "lib/libcox_umt.so",
        "lib/pkgconfig/cox-umt.pc",
        "include/cox_ulp.h",
        "include/cox_umt.h",
        "share/man/man1/cox.1",
        "share/man/man3/cox_ulp.3",
        "share/man/man3/cox_umt.3",
        "share/man/man8/cox-observe.8",
        "share/bash-completion/completions/cox",
        "share/doc/coxswain/README.md",
        "share/doc/coxswain/LICENSE-APACHE",
        "share/doc/coxswain/LICENSE-BPF",
        "share/doc/coxswain/LICENSE-MIT",
        "share/doc/coxswain/docs/run.md",
        "share/doc/coxswain/docs/page.png",
        "share/doc/coxswain/docs/ulp.svg",
        "share/doc/coxswain/docs/advice/imbalance.md",
    ] {
        assert!(usr.join(file).is_file(), "{file}");
    }
}

/// A package is built on another system than the one it goes to: that one's groups stay as they are, and what is left to do is said.
#[test]
fn a_package_leaves_groups_and_capabilities_to_its_system() {
    let (built, destination) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    build(built.path());
    let groups = fs::read("/etc/group").unwrap();
    let output = install(built.path(), destination.path());
    let said = String::from_utf8(output.stdout).unwrap();
    for command in ["groupadd --system coxswain-all", "setcap cap_bpf,cap_perfmon+ep /usr/libexec/coxswain/cox-observe"]
    {
        assert!(said.lines().any(|line| line.trim() == command), "{said}");
    }
    assert_eq!(fs::read("/etc/group").unwrap(), groups);
    assert!(capabilities(&destination.path().join("usr/libexec/coxswain/cox-observe")).is_empty());
}

fn capabilities(file: &Path) -> String {
    let output = Command::new("getcap").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// On this system, but with an /etc that is a copy and seen by this make only.
#[test]
fn root_gives_the_rights_to_the_observers() {
    let test = "root_gives_the_rights_to_the_observers";
    let in_private = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--"])
            .args(words)
            .env_remove("MAKEFLAGS")
            .env_remove("MFLAGS")
            .env_remove("MAKELEVEL");
        command.current_dir(workspace::root());
        command
    };
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root || !in_private(&["true"]).status().is_ok_and(|status| status.success()) {
        return skip(test, Need::Namespaces, "needs root and mount namespaces");
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (built, prefix, etc) = (folder.path().join("built"), folder.path().join("prefix"), folder.path().join("etc"));
    fs::create_dir(&built).unwrap();
    build(&built);
    assert!(Command::new("cp").arg("-a").arg("/etc").arg(&etc).status().unwrap().success());
    let script = "mount --bind \"$0\" /etc && exec make install PREFIX=\"$1\" RELEASE=\"$2\" OBSERVERS=\"$3\" DESTDIR=";
    let install = |group: &str| {
        let mut command = in_private(&["sh", "-c", script]);
        command.arg(&etc).arg(&prefix).arg(&built).arg(group).output().unwrap()
    };
    let refused = install("no-such-group");
    assert!(!refused.status.success() && !prefix.exists(), "{}", String::from_utf8_lossy(&refused.stderr));

    let output = install("users");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let observe = prefix.join("libexec/coxswain/cox-observe");
    let status = fs::metadata(&observe).unwrap();
    let groups = fs::read_to_string(etc.join("group")).unwrap();
    let id = |name: &str| {
        let line = groups.lines().find(|line| line.starts_with(&format!("{name}:")));
        line.and_then(|line| line.split(':').nth(2)?.parse::<u32>().ok())
    };
    assert_eq!((status.mode() & 0o7777, status.uid(), Some(status.gid())), (0o750, 0, id("users")));
    let has = capabilities(&observe);
    assert!(has.contains("cap_bpf") && has.contains("cap_perfmon") && has.contains("=ep"), "{has}");
    assert!(groups.lines().any(|line| line.starts_with("coxswain-all:") && line.ends_with(':')), "{groups}");
    // Once more, for everybody: the group stays, the mode changes.
    assert!(install("").status.success());
    assert_eq!(fs::metadata(&observe).unwrap().mode() & 0o7777, 0o755);
    assert!(capabilities(&observe).contains("cap_bpf"));
}

/// Targets of a page's links to files: `](TARGET)` and `](TARGET#PART)`, outside of code.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.map(|target| target.split('#').next().unwrap_or_default());
    targets.filter(|target| !target.is_empty() && !target.contains(':') && !target.contains(' ')).collect()
}

#[test]
fn links_of_installed_pages_lead_to_installed_files() {
    let (built, destination) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    build(built.path());
    assert!(install(built.path(), destination.path()).status.success());
    let pages = files(&destination.path().join("usr/share/doc"));
    let pages: Vec<_> = pages.into_iter().filter(|file| file.extension().is_some_and(|end| end == "md")).collect();
    let mut followed = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            assert!(page.parent().unwrap().join(link).exists(), "{}: {link}", page.display());
            followed += 1;
        }
    }
    assert!(followed > 100, "{followed}");
}
