//! One cgroup, and where its limits come from.

use std::path::{Path, PathBuf};

/// Version of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per set of controllers.
    V1,
    /// The unified hierarchy.
    V2,
}

/// One cgroup: a folder in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cgroup {
    /// Version of its hierarchy.
    pub version: Version,
    /// Its folder, as named on the machine.
    pub folder: PathBuf,
    /// The mount point of its hierarchy; the folder itself or above it.
    pub mount_point: PathBuf,
}

impl Cgroup {
    /// The folders that can limit it: its own first, the mount point last.
    pub fn lineage(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount_point))
    }

    /// Its path below the mount point, with a leading `/`, as systemd and /proc name cgroups.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        Path::new("/").join(self.folder.strip_prefix(&self.mount_point).unwrap_or(&self.folder))
    }
}
