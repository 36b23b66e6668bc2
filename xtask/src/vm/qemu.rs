//! Runs one virtual machine.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::judge::End;

/// The emulator.
pub const QEMU: &str = "qemu-system-x86_64";

/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);
/// The most that counts as running time between two looks. If this process and QEMU are both stopped for a while, the guest has not hung.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// What a boot needs.
#[derive(Debug)]
pub struct Boot<'a> {
    /// The kernel image.
    pub image: &'a Path,
    /// The guest's file system.
    pub initramfs: &'a Path,
    /// Words for the kernel's boot line.
    pub boot_line: &'a str,
    /// The jobs to run; none: all.
    pub jobs: &'a [String],
    /// Whether all jobs include the long ones.
    pub long: bool,
    /// Time limit.
    pub limit: Duration,
    /// Folder of the logs.
    pub folder: &'a Path,
}

impl Boot<'_> {
    /// Returns the path of the kernel's log.
    #[must_use]
    pub fn console(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// Returns the path of the jobs' results.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.folder.join("results.log")
    }

    /// Returns the boot line:
    /// - A crash ends the guest at once: `panic=-1` reboots, and QEMU ends instead of rebooting.
    /// - `tsc=reliable`: without it, 6.1 and 5.10 use the clock hpet, which is slow.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = "console=ttyS0 panic=-1 oops=panic tsc=reliable".to_owned();
        if !self.jobs.is_empty() {
            words.push_str(&format!(" cox.jobs={}", self.jobs.join(",")));
        } else if self.long {
            words.push_str(" cox.long");
        }
        if !self.boot_line.is_empty() {
            words.push_str(&format!(" {}", self.boot_line));
        }
        words
    }

    /// Runs the guest to its end or to the time limit. Returns how QEMU ended, and how long it ran.
    ///
    /// # Errors
    /// When QEMU cannot be started.
    pub fn run(&self) -> Result<(End, Duration)> {
        fs::create_dir_all(self.folder).with_context(|| self.folder.display().to_string())?;
        for log in [self.console(), self.results()] {
            File::create(&log).with_context(|| log.display().to_string())?;
        }
        let errors = File::create(self.folder.join("qemu.log"))?;
        // The kernel kills QEMU if this process is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", QEMU]);
        // One thread for all CPUs: with one for each, one guest in ten crashes when the kernel patches its code.
        command.args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "4", "-m", "1536"]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        for (name, log) in [("console", self.console()), ("results", self.results())] {
            // A comma in a path is doubled in QEMU's options.
            let path = log.display().to_string().replace(',', ",,");
            command.args(["-chardev", &format!("file,id={name},path={path}"), "-serial", &format!("chardev:{name}")]);
        }
        command.arg("-kernel").arg(self.image).arg("-initrd").arg(self.initramfs).arg("-append").arg(self.words());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut child = command.spawn().context("cannot start setpriv")?;
        let (mut ran, mut last) = (Duration::ZERO, Instant::now());
        loop {
            if let Some(status) = child.try_wait()? {
                let end = status.signal().map_or(End::Exit(status.code().unwrap_or(0)), End::Signal);
                return Ok((end, ran));
            }
            thread::sleep(LOOK);
            let now = Instant::now();
            ran += (now - last).min(LONGEST_STEP);
            last = now;
            if ran >= self.limit {
                child.kill()?;
                child.wait()?;
                return Ok((End::Limit(self.limit), ran));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_line_ends_with_the_words_of_the_matrix() {
        let here = Path::new(".");
        let jobs = ["run".to_owned(), "ulp".to_owned()];
        let boot = |boot_line, jobs, long| {
            Boot { image: here, initramfs: here, boot_line, jobs, long, limit: LOOK, folder: here }.words()
        };
        assert!(boot("nohz_full=1-3", &jobs, true).ends_with("tsc=reliable cox.jobs=run,ulp nohz_full=1-3"));
        assert!(boot("", &[], false).ends_with("tsc=reliable") && boot("x", &[], true).ends_with(" cox.long x"));
    }
}
