//! Finds the cgroup that a user names after `--cgroup`.

use std::path::{Component, Path, PathBuf};

use super::{Cgroup, Hierarchies, Version};
use crate::error::Error;
use crate::root::Root;

/// A file that every cgroup has, in both versions, and other folders do not have.
const MARK: &str = "cgroup.procs";

impl Hierarchies {
    /// Finds the cgroup that a user means by `path`. The first of these that exists:
    ///
    /// 1. a folder inside a mounted hierarchy, `/sys/fs/cgroup/user.slice`;
    /// 2. a cgroup as systemd and /proc name it, with or without the leading `/` (`user.slice/user-1000.slice`), below each mount
    ///    point, version 2 first.
    ///
    /// # Errors
    /// [`Error::Cgroup`] with the places searched, when no cgroup matches or the path contains `..`.
    pub fn resolve(&self, root: &Root, path: &Path) -> Result<Cgroup, Error> {
        let refuse = |reason: String| Err(Error::Cgroup { path: path.to_owned(), reason });
        if path.as_os_str().is_empty() {
            return refuse("the name is empty".to_owned());
        }
        if path.components().any(|component| component == Component::ParentDir) {
            return refuse("must not contain \"..\"".to_owned());
        }
        if self.mounted.is_empty() {
            return refuse("no cgroup hierarchy is mounted".to_owned());
        }
        if let Some(hierarchy) = self.of_folder(path)
            && root.exists(path.join(MARK))
        {
            return Ok(hierarchy.cgroup_in(path.components().collect()));
        }
        let name = path.strip_prefix("/").unwrap_or(path);
        let mut in_order: Vec<_> = self.mounted.iter().collect();
        in_order.sort_by_key(|hierarchy| hierarchy.version != Version::V2);
        for hierarchy in &in_order {
            let folder: PathBuf = hierarchy.mount_point.components().chain(name.components()).collect();
            if root.exists(folder.join(MARK)) {
                return Ok(hierarchy.cgroup_in(folder));
            }
        }
        // The message names only the first mount point: version 1 has a dozen.
        let others = if in_order.len() > 1 { " or the other hierarchies" } else { "" };
        let first = in_order[0].mount_point.display();
        refuse(format!(
            "no such cgroup below {first}{others} (systemd-cgls and /proc/PID/cgroup list the existing ones)"
        ))
    }
}
