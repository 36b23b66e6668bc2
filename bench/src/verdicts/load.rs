//! What the experiment does around a program: another program that uses a CPU, and a quota by a control group.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use machine::Root;
use machine::cgroup::{Hierarchies, Version};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::runtimes::leftovers;
use crate::tools::Tools;

/// Seconds after which another program ends even if cox-bench is killed: longer than any run.
const HOG_S: &str = "120";

/// Another program that uses one CPU all the time, until the value is dropped.
pub struct Hog(Child);

impl Hog {
    /// Starts the workload `hog`, or a shell that spins.
    ///
    /// # Errors
    /// When neither can be started.
    pub fn start(tools: &Tools) -> Result<Hog> {
        let mut command = match tools.workload("hog") {
            Ok(path) => {
                let mut command = Command::new(path);
                command.args(["--threads", "1", "--seconds", HOG_S]);
                command
            }
            Err(_) => {
                let mut command = Command::new("timeout");
                command.args([HOG_S, "sh", "-c", "while :; do :; done"]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Hog(command.process_group(0).spawn().context("cannot start the other program")?))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // The call fails if the program has ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Period of a quota, us: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// A control group with a CPU quota; removed when the value is dropped.
pub struct Quota(PathBuf);

impl Quota {
    /// Makes a control group whose processes may use `cpus` CPUs.
    ///
    /// # Errors
    /// Without the right to make groups, or without a `cpu` controller.
    pub fn new(cpus: f64) -> Result<Quota> {
        let hierarchies = Hierarchies::read(&Root::live())?;
        let Some(hierarchy) = hierarchies.of_controller("cpu").next() else {
            bail!("no cgroup has the cpu controller")
        };
        for name in leftovers::in_folder(&hierarchy.mount_point) {
            // A group that still has a process cannot be removed; it stays until a later clean-up.
            let _ = fs::remove_dir(hierarchy.mount_point.join(name));
        }
        let folder = hierarchy.mount_point.join(leftovers::name("quota"));
        if !folder.is_dir() {
            fs::create_dir(&folder).with_context(|| format!("cannot make a control group in {}", folder.display()))?;
        }
        let quota = Quota(folder);
        let allowed_us = (cpus * PERIOD_US as f64) as u64;
        let settings: &[(&str, String)] = match hierarchy.version {
            Version::V1 => {
                &[("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", allowed_us.to_string())]
            }
            Version::V2 => &[("cpu.max", format!("{allowed_us} {PERIOD_US}"))],
        };
        for (name, value) in settings {
            fs::write(quota.0.join(name), value).with_context(|| format!("cannot set {name} to {value}"))?;
        }
        Ok(quota)
    }

    /// Returns the words that precede a command to put it into the group.
    pub fn words(&self) -> Vec<OsString> {
        let enter = "echo $$ > \"$0\" && exec \"$@\"";
        vec!["sh".into(), "-c".into(), enter.into(), self.0.join("cgroup.procs").into()]
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group that still has a process cannot be removed. All runs have been waited for, so this is rare.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use testkit::skip::{Need, skip};

    use super::*;

    #[test]
    fn a_hog_ends_with_its_value() {
        let tools = Tools::find(None, Some(Path::new("/bin"))).unwrap();
        let hog = Hog::start(&tools).unwrap();
        let pid = Pid::from_child(&hog.0);
        assert!(rustix::process::test_kill_process(pid).is_ok());
        drop(hog);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn a_quota_is_set_and_removed_where_that_is_possible() {
        let quota = match Quota::new(1.5) {
            Ok(quota) => quota,
            Err(error) => return skip("a_quota_is_set_and_removed", Need::Cgroup, format!("{error:#}")),
        };
        let folder = quota.0.clone();
        let words = quota.words();
        let status = Command::new(&words[0]).args(&words[1..]).args(["cat", "/proc/self/cgroup"]).output().unwrap();
        assert!(String::from_utf8_lossy(&status.stdout).contains("cox-bench-"));
        drop(quota);
        assert!(!folder.exists());
    }
}
