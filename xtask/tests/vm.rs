//! cox works on a kernel in a virtual machine: one of those that `make vm` boots, with the programs of the test build.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testkit::built;
use testkit::skip::{Need, skip};
use xtask::vm::kernels::{CLOUD, PINNED, Store};
use xtask::{vm, workspace};

/// The kernel of `make vm-kernel`.
const KERNEL: &str = "6.18";

fn vm(work: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let programs = Path::new(built::COX).parent().unwrap();
    command.args(["vm", "--no-download", "--work"]).arg(work).arg("--programs").arg(programs);
    command.args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the image of the kernel, and skips `test` if a guest cannot be started here.
fn image(test: &str) -> Option<String> {
    if let Some(reason) = vm::missing() {
        skip(test, Need::Vm, reason);
        return None;
    }
    built::preload_library(test)?;
    let folder = workspace::root().join("target/vm");
    let pinned = PINNED.iter().find(|pinned| pinned.version == KERNEL).unwrap();
    let store = Store { folder: &folder, mirror: None, download: false };
    let kernel = store.stored(&format!("{}{CLOUD}", pinned.package));
    if kernel.is_none() {
        skip(test, Need::Vm, "needs a kernel (make vm-kernel)");
    }
    Some(kernel?.image.to_str().unwrap().to_owned())
}

/// One job for each part of cox; `trace` runs the BPF programs of `run`, and more. All jobs: `make vm`.
const JOBS: &str = "doctor,trace,pack,overlap,noise,ulp,quiet";

#[test]
fn cox_works_on_a_tickless_kernel() {
    let Some(image) = image("cox_works_on_a_tickless_kernel") else { return };
    assert!(Path::new(&built::workload("mandelbrot")).exists());
    let work = tempfile::tempdir_in(built::temporary()).unwrap();
    let output = vm(work.path(), &["--image", &image, "--boot-line", "nohz_full=1-3", "--jobs", JOBS]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("1 boots, 0 differ"), "{said}");
    // The archive is small enough for the guest's memory.
    assert!(fs::metadata(work.path().join("initramfs")).unwrap().len() < 60 << 20);
}

/// A guest that does not end is ended, and its log is shown.
#[test]
fn a_guest_that_hangs_is_ended() {
    let Some(image) = image("a_guest_that_hangs_is_ended") else { return };
    assert!(Path::new(&built::workload("mandelbrot")).exists());
    let work = tempfile::tempdir_in(built::temporary()).unwrap();
    let output = vm(work.path(), &["--image", &image, "--boot-line", "", "--limit", "10"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hangs: it did not end within 10 s") && said.contains("console.log:\n    ["), "{said}");
}

#[test]
fn what_is_not_there_is_skipped_unless_it_is_required() {
    let work = tempfile::tempdir().unwrap();
    let run = |required: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["vm", "--no-download", "--work"]).arg(work.path()).env("COX_TEST_REQUIRE", required);
        command.output().unwrap()
    };
    let skipped = run("root,bpf");
    assert_eq!(skipped.status.code(), Some(0), "{}", text(&skipped));
    assert!(String::from_utf8_lossy(&skipped.stderr).starts_with("skipped: vm: no"), "{}", text(&skipped));
    let required = run("root, vm");
    assert_eq!(required.status.code(), Some(2));
    assert!(text(&required).contains("COX_TEST_REQUIRE has vm"), "{}", text(&required));
}
