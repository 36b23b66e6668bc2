//! The paths of a walk.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::steps;
use crate::workspace;

/// The paths of a walk.
pub(super) struct Places {
    /// This repository.
    pub(super) repository: PathBuf,
    /// The root file system.
    pub(super) root: PathBuf,
    /// Folder of files that the next walk can reuse.
    pub(super) cache: PathBuf,
    /// Folder of the steps' logs.
    pub(super) logs: PathBuf,
    /// Folder of the Rust toolchain.
    pub(super) sysroot: PathBuf,
}

impl Places {
    pub(super) fn new(folder: &Path) -> Result<Places> {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot start rustc")?;
        let sysroot = String::from_utf8(output.stdout).context("the toolchain's path is not valid UTF-8")?;
        Ok(Places {
            repository: workspace::root(),
            root: folder.join("root"),
            cache: folder.join("cache"),
            logs: folder.join("logs"),
            sysroot: PathBuf::from(sysroot.trim_end()),
        })
    }

    /// Returns the folder of the Debian packages that apt has downloaded.
    pub(super) fn archives(&self) -> PathBuf {
        self.cache.join("archives")
    }

    /// Returns the folder that keeps, for the next walk, the build output of the git clone in this home folder.
    pub(super) fn kept(&self, home: &Path) -> PathBuf {
        let name = home.strip_prefix(&self.root).unwrap_or(home).to_string_lossy().replace('/', "-");
        self.cache.join(format!("target-{name}"))
    }

    /// Returns README.md in the clone.
    pub(super) fn readme(&self) -> PathBuf {
        self.root.join("root").join(steps::CLONE).join("README.md")
    }
}
