//! A control group with a limit, for one test.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The kernel's default period of a CPU quota, us.
const PERIOD_US: u32 = 100_000;

/// Time limit for removing the group: its last process leaves it shortly after it has been reaped.
const LINGER: Duration = Duration::from_secs(2);

/// A control group, removed when the value is dropped.
pub struct Group {
    folder: PathBuf,
    tasks: &'static str,
}

impl Group {
    /// Makes a group whose processes share the CPU time of `cpus` CPUs.
    pub fn with_quota(cpus: f64) -> Result<Group, String> {
        let quota_us = (cpus * f64::from(PERIOD_US)).round();
        let version_1 = [("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())];
        Group::limited("cpu", &version_1, &[("cpu.max", format!("{quota_us} {PERIOD_US}"))])
    }

    /// Makes a group for whose processes the disk of `folder` is slow: so many requests a second for reads, and as many for writes.
    pub fn with_slow_disk(folder: &Path, requests: u32) -> Result<Group, String> {
        let disk = disk_of(folder)?;
        let limit = format!("{disk} {requests}");
        let version_1 = ["read", "write"].map(|way| (["blkio.throttle.", way, "_iops_device"].concat(), limit.clone()));
        let version_1 = version_1.each_ref().map(|(file, limit)| (file.as_str(), limit.clone()));
        Group::limited("blkio", &version_1, &[("io.max", format!("{disk} riops={requests} wiops={requests}"))])
    }

    /// Makes a group with limits: those of cgroup version 1 if the controller has a version 1 hierarchy, otherwise those of version 2.
    fn limited(controller: &str, version_1: &[(&str, String)], version_2: &[(&str, String)]) -> Result<Group, String> {
        let root = Path::new("/sys/fs/cgroup");
        let own = root.join(controller);
        let (parent, tasks, limits) =
            if own.is_dir() { (own.as_path(), "tasks", version_1) } else { (root, "cgroup.procs", version_2) };
        let folder = parent.join(format!("cox-test-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group { folder, tasks };
        for (file, limit) in limits {
            let path = group.folder.join(file);
            // The file is not created: if it is missing, the controller is missing.
            let opened = OpenOptions::new().write(true).open(&path);
            let written = opened.and_then(|mut opened| opened.write_all(limit.as_bytes()));
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(group)
    }

    /// Returns a command line that starts another one in the group.
    pub fn within(&self) -> Vec<String> {
        let join = "echo $$ > \"$0\" && exec \"$@\"";
        vec!["sh".into(), "-c".into(), join.into(), self.tasks().display().to_string()]
    }

    /// Returns the file to which a process ID is written to put that process into the group.
    pub fn tasks(&self) -> PathBuf {
        self.folder.join(self.tasks)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begin = Instant::now();
        while let Err(error) = fs::remove_dir(&self.folder) {
            if begin.elapsed() > LINGER {
                // A remaining group must not fail the test.
                eprintln!("{}: {error}", self.folder.display());
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns `major:minor` of the disk that contains a folder. Limits apply to disks, not to partitions.
fn disk_of(folder: &Path) -> Result<String, String> {
    let device = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = format!("/sys/dev/block/{major}:{minor}");
    let block = fs::canonicalize(&link).map_err(|error| format!("{link}: {error}"))?;
    let disk = if block.join("partition").exists() { block.parent().unwrap_or(&block) } else { &block };
    let number = disk.join("dev");
    let text = fs::read_to_string(&number).map_err(|error| format!("{}: {error}", number.display()))?;
    Ok(text.trim().to_owned())
}
