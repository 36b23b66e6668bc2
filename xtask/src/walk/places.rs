//! Where things of a walk are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::steps;
use crate::workspace;

/// Where things of a walk are.
pub(super) struct Places {
    /// This repository.
    pub(super) repository: PathBuf,
    /// The root file system.
    pub(super) root: PathBuf,
    /// What the next walk can use.
    pub(super) cache: PathBuf,
    /// What each step printed.
    pub(super) logs: PathBuf,
    /// The Rust toolchain.
    pub(super) sysroot: PathBuf,
}

impl Places {
    pub(super) fn new(folder: &Path) -> Result<Places> {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot start rustc")?;
        let sysroot = String::from_utf8(output.stdout).context("the toolchain's folder")?;
        Ok(Places {
            repository: workspace::root(),
            root: folder.join("root"),
            cache: folder.join("cache"),
            logs: folder.join("logs"),
            sysroot: PathBuf::from(sysroot.trim_end()),
        })
    }

    /// Debian packages that apt has fetched.
    pub(super) fn archives(&self) -> PathBuf {
        self.cache.join("archives")
    }

    /// What cargo built in this home's clone.
    pub(super) fn kept(&self, home: &Path) -> PathBuf {
        let name = home.strip_prefix(&self.root).unwrap_or(home).to_string_lossy().replace('/', "-");
        self.cache.join(format!("target-{name}"))
    }

    /// README.md as it is in the clone.
    pub(super) fn readme(&self) -> PathBuf {
        self.root.join("root").join(steps::CLONE).join("README.md")
    }
}
