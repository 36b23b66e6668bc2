//! Packing whose journal or restoring fails: every mask is restored, or the exit code is not 0 and the rest is named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;
use testkit::packed::{Place, Runs, two_cpus};
use testkit::run::{NOBODY, as_user, path, run, wait_for, workload};
use testkit::skip::{Need, skip};

/// What makes the folder of journals a file system of `$1` KiB, which nobody else sees, and starts the rest there.
const ON_A_SMALL_DISK: &str = "mount --make-rprivate / && mkdir -p \"$2\" && mount -t tmpfs -o mode=700,size=\"$1\"k none \"$2\" && shift 2 && exec \"$@\"";

#[test]
fn a_full_disk_leaves_no_mask_changed_or_says_which() {
    let Some((_, cpus)) = two_cpus("a_full_disk_leaves_no_mask_changed_or_says_which") else { return };
    let runs = Runs::start(&[&workload("storm"), "--sleepers", "150", "--seconds", "120"]);
    wait_for("all threads", || (runs.masks().len() == 151).then_some(()));
    let before = runs.masks();
    let last = cpus.rsplit(['-', ',']).next().unwrap();
    let mut codes = Vec::new();
    for size in ["4", "8", "12", "16", "24", "32", "48", "64", "4096"] {
        for verb in [["pack", "--cpus"], ["run", "--pack-cpus"]] {
            let place = Place::new();
            let folder = place.folder();
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", ON_A_SMALL_DISK, "sh", size]).arg(&folder).arg(testkit::run::COX);
            command.args([verb[0], "-q", verb[1], last, "--pid", &runs.pid(), "--for", "300ms"]);
            let ran = run(command.env("COX_CHANGES", &folder).stdin(Stdio::null()));
            assert!(!ran.stderr.contains("panicked"), "{size} KiB, {verb:?}: {}", ran.stderr);
            let is_back = runs.is_as(&before);
            assert!(is_back || ran.code != 0, "{size} KiB, {verb:?}: {}", ran.stderr);
            assert!(is_back || ran.stderr.contains("put back"), "{size} KiB, {verb:?}: {}", ran.stderr);
            assert!(ran.code == 0 || !ran.stderr.is_empty(), "{size} KiB, {verb:?}: it says why");
            assert!(is_back, "{size} KiB, {verb:?}: room for undoing is reserved: {}", ran.stderr);
            codes.push(ran.code);
        }
    }
    assert!(codes[0] != 0 && codes.ends_with(&[0, 0]), "no room at all, and enough: {codes:?}");
}

/// A thread that has become another user keeps the mask that cox has set: this user may not change it back.
#[test]
fn what_cannot_be_put_back_is_said_and_is_no_success() {
    let test = "what_cannot_be_put_back_is_said_and_is_no_success";
    let Some((_, cpus)) = two_cpus(test) else { return };
    let counts = |place: &&str| statvfs(*place).is_ok_and(|stat| !stat.f_flag.contains(StatVfsMountFlags::NOSUID));
    let Some(place) = ["/tmp", "/var/tmp"].into_iter().find(counts) else {
        return skip(test, Need::Capabilities, "/tmp and /var/tmp are mounted nosuid");
    };
    let place = Place(TempDir::new_in(place).unwrap());
    let last = cpus.rsplit(['-', ',']).next().unwrap();
    let (changes, sleep) = (path(&place.0, "changes"), path(&place.0, "cox-test-sleep"));
    let cox = path(&place.0, "cox");
    fs::copy(testkit::run::COX, &cox).unwrap();
    fs::copy("/bin/sleep", &sleep).unwrap();
    fs::set_permissions(&sleep, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&changes).unwrap();
    fs::set_permissions(&changes, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&changes, Some(NOBODY), Some(NOBODY)).unwrap();
    // Taken hold of as what it is, then another program, of root's. `$0` waits until a journal names it, as a mask that
    // it has from its parent tells nothing; and the program waits for `$0`.
    let waits = format!(
        "sh -c 'until grep -qs \"tid.:$$,\" {changes}/*; do sleep 0.02; done; exec $0 4' $0 & \
         until grep -q cox-test-sleep /proc/$!/comm; do sleep 0.02; done; exit $1"
    );
    for verb in [["pack", "--cpus"], ["run", "--pack-cpus"]] {
        for (own, expected) in [("0", 1), ("7", 7)] {
            let mut command = Command::new("setpriv");
            command.args(as_user(NOBODY)).args([&cox, verb[0], "-q", verb[1], last]);
            if verb[0] == "pack" {
                command.args(["--backend", "proc"]);
            }
            command.args(["--", "sh", "-c", &waits, &sleep, own]).env("COX_CHANGES", &changes).stdin(Stdio::null());
            let ran = run(&mut command);
            assert_eq!(ran.code, expected, "{verb:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("not everything was put back"), "{verb:?}: {}", ran.stderr);
            // Which thread, why, and what to do.
            let says = ["affinity of thread ", "not permitted", "to restore it: taskset -pc "];
            assert!(says.iter().all(|part| ran.stderr.contains(part)), "{verb:?}: {}", ran.stderr);
        }
    }
}
