//! Files that `cox-bench` writes replace older ones whole, or not at all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::skip::{Need, has};

/// A file system of so many bytes; unmounted with the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where none can be mounted; says so.
    fn of(test: &str, bytes: u32) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "cox-test"]).arg(folder.path()).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        has(mounted, test, Need::Namespaces, "cannot mount a tmpfs").then_some(SmallDisk(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = File::create(self.path("ballast")).unwrap();
        while file.write_all(&[1; 512]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// An experiment's exit code and what it said. Its folder of workloads is empty, so that it ends at once.
fn ended(experiment: &[&str], options: &[(&str, &Path)]) -> (i32, String) {
    let nothing = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cox-bench"));
    command.args(experiment).arg("--workloads").arg(nothing.path()).current_dir(nothing.path());
    options.iter().for_each(|(option, file)| {
        command.arg(option).arg(file);
    });
    let ran = command.output().unwrap();
    (ran.status.code().unwrap(), String::from_utf8(ran.stderr).unwrap())
}

const FAILED: i32 = 125;

/// A case that cannot be measured is among the measurements: so often that they do not fit into the room that an emptied older file would leave.
const MANY: [&str; 61] = {
    let mut words = ["triad"; 61];
    words[0] = "overhead";
    words
};

#[test]
fn a_full_disk_leaves_older_measurements_as_they_were() {
    let Some(disk) = SmallDisk::of("a_full_disk_leaves_older_measurements_as_they_were", 256 << 10) else { return };
    let json = disk.path("older.json");
    fs::write(&json, "older").unwrap();
    disk.fill();
    let (code, stderr) = ended(&MANY, &[("--json", &json)]);
    assert!(code == FAILED && stderr.contains("cannot write") && stderr.contains("No space left"), "{code} {stderr}");
    assert_eq!(fs::read_to_string(&json).unwrap(), "older");
    assert_eq!(fs::read_dir(disk.0.path()).unwrap().count(), 2, "nothing else is left there");
    // With room it is replaced.
    fs::remove_file(disk.path("ballast")).unwrap();
    let (_, stderr) = ended(&MANY, &[("--json", &json)]);
    assert!(fs::read_to_string(&json).unwrap().contains("schema_version"), "{stderr}");
}

#[test]
fn an_older_series_stays_where_nothing_can_be_measured() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("series"), "older").unwrap();
    fs::write(at("libcox_preload.so"), "").unwrap();
    fs::copy("/bin/true", at("cox")).unwrap();
    let files = [at("series"), at("cox")];
    let (code, stderr) = ended(&["umt", "heat", "--ways", "libgomp"], &[("--series", &files[0]), ("--cox", &files[1])]);
    assert_eq!((code, fs::read_to_string(&files[0]).unwrap().as_str()), (FAILED, "older"), "{stderr}");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (one, nowhere) = (folder.path().join("one"), Path::new("/nowhere/at/all"));
    let same = folder.path().join(".").join("one");
    for (options, said) in [
        (&[("--json", nowhere)][..], "cannot write '/nowhere/at/all'"),
        (&[("--series", nowhere)], "cannot write '/nowhere/at/all'"),
        (&[("--json", &one), ("--series", &same)], "--json and --series would both write to"),
    ] {
        let (code, stderr) = ended(&["umt", "heat"], options);
        assert!(code == FAILED && stderr.contains(said), "{options:?}: {code} {stderr}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{options:?}");
    }
}
