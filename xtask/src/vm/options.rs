//! The command line of `cargo xtask vm`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use anyhow::{Result, ensure};
use clap::Parser;

use super::kernels::{Kernel, PINNED};

/// Boots Debian's kernels in virtual machines, runs cox in them, and compares what it could do there with kernel/vm/expected.txt.
///
/// Needs no root and no KVM. Downloads kernels with apt into target/vm and installs nothing. Exit code: 0 as expected, or skipped because QEMU or the
/// network is missing (but 2 if `COX_TEST_REQUIRE` names vm); 1 some kernel differs, hangs or crashes; 2 the virtual machines could not be started.
#[derive(Debug, Parser)]
#[command(name = "xtask vm", bin_name = "cargo xtask vm")]
pub struct Options {
    /// Also boot the newest kernel in Debian, the newest of each series since 6.18, and Debian's larger build of each kernel; and run the long jobs
    #[arg(long)]
    pub all: bool,
    /// Boot only kernels of this version, such as 6.12 (may be given more than once); default: all pinned kernels
    #[arg(long = "kernel", value_name = "VERSION", conflicts_with = "all")]
    pub kernels: Vec<String>,
    /// Boot this kernel image (may be given more than once)
    #[arg(long = "image", value_name = "PATH", conflicts_with_all = ["all", "kernels"])]
    pub images: Vec<PathBuf>,
    /// Boot with these words only (may be given more than once); default: once without and once with nohz_full=1-3
    #[arg(long = "boot-line", value_name = "WORDS")]
    pub boot_lines: Vec<String>,
    /// Run only these jobs of kernel/vm/init: run,noise
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub jobs: Vec<String>,
    /// Folder of cox, cox-observe, cox-ulp-host, libcox_preload.so and quiet-check; default: target/release
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// Folder of the results, and of what is downloaded; default: target/vm
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// Time limit for one boot with all its jobs, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub limit: u64,
    /// Number of guests that run at the same time, each on one CPU and with 1.5 GB of memory; default: one for each CPU, at most 4
    #[arg(long, value_name = "N")]
    pub at_once: Option<usize>,
    /// Boot the other kernels, too, after one that differs
    #[arg(long)]
    pub keep_going: bool,
    /// Append finished boots to FILE, and do not repeat those that an earlier run of the same programs has written there
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Download the kernels, and boot none
    #[arg(long, conflicts_with = "no_download")]
    pub fetch: bool,
    /// Use only kernels that are in target/vm already
    #[arg(long)]
    pub no_download: bool,
    /// Debian's mirror; default: the mirror that this machine's apt uses
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
}

/// At most so many guests run at the same time, unless the command line says otherwise.
const MOST_AT_ONCE: usize = 4;

/// Jobs of kernel/vm/init that take minutes: only for `--all`, or if they are named.
pub const LONG_JOBS: [&str; 2] = ["quiet-kills", "quiet-storm"];

/// The boot lines of the matrix. Kernels without `CONFIG_NO_HZ_FULL` are booted with the first one only.
pub const BOOT_LINES: [&str; 2] = ["", "nohz_full=1-3"];

impl Options {
    /// Checks what clap cannot check.
    ///
    /// # Errors
    /// When no pinned kernel has a version that was asked for.
    pub fn check(&self) -> Result<()> {
        for version in &self.kernels {
            let known = PINNED.map(|pinned| pinned.version);
            ensure!(known.contains(&version.as_str()), "no kernel {version} is pinned; there are {}", known.join(", "));
        }
        Ok(())
    }

    /// Returns whether a boot runs this job.
    #[must_use]
    pub fn has_job(&self, job: &str) -> bool {
        if self.jobs.is_empty() {
            return self.all || !LONG_JOBS.contains(&job);
        }
        self.jobs.iter().any(|one| one == job)
    }

    /// Returns how many guests run at the same time.
    #[must_use]
    pub fn at_once(&self) -> usize {
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.at_once.unwrap_or(cpus.min(MOST_AT_ONCE)).max(1)
    }

    /// Returns the boot lines for a kernel.
    #[must_use]
    pub fn boot_lines(&self, kernel: &Kernel) -> Vec<String> {
        if !self.boot_lines.is_empty() {
            return self.boot_lines.clone();
        }
        BOOT_LINES.iter().take(if kernel.can_stop_ticks() { 2 } else { 1 }).map(|words| (*words).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_its_boot_lines() {
        let options = |words: &[&str]| Options::parse_from([&["vm"], words].concat());
        let kernel = |release: &str| Kernel { release: release.to_owned(), image: PathBuf::new() };
        assert_eq!(options(&[]).boot_lines(&kernel("6.1.0")), ["", "nohz_full=1-3"]);
        assert_eq!(options(&[]).boot_lines(&kernel("5.10.0")), [""]);
        assert_eq!(options(&["--boot-line", "nohz_full=2 quiet"]).boot_lines(&kernel("5.10.0")), ["nohz_full=2 quiet"]);
        let has = |words: &[&str]| ["quiet", "quiet-storm"].map(|job| options(words).has_job(job));
        assert_eq!(
            (has(&[]), has(&["--all"]), has(&["--jobs", "run,quiet-storm"])),
            ([true, false], [true; 2], [false, true])
        );
        assert!(options(&["--kernel", "6.1"]).check().is_ok());
        assert!(options(&["--kernel", "6.2"]).check().is_err());
    }
}
