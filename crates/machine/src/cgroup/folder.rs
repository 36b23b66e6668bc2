//! One cgroup, and the folders whose limits apply to it.

use std::path::{Path, PathBuf};

/// Version of a cgroup hierarchy.
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
    /// Version of the cgroup's hierarchy.
    pub version: Version,
    /// Folder of the cgroup, as named on the machine.
    pub folder: PathBuf,
    /// Mount point of the cgroup's hierarchy: the folder itself or one of its ancestors.
    pub mount_point: PathBuf,
}

impl Cgroup {
    /// Returns the folders that can limit the cgroup: its own first, the mount point last.
    pub fn lineage(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount_point))
    }

    /// Returns the cgroup's path below the mount point, with a leading `/`, as systemd and /proc name cgroups.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        Path::new("/").join(self.folder.strip_prefix(&self.mount_point).unwrap_or(&self.folder))
    }
}
