//! Control groups: their mount points, the cgroup of a process, their limits and their members.
//!
//! Version 1 has one hierarchy per controller or per set of controllers; version 2 has one hierarchy for all. A hybrid
//! system has both, with each controller in one of them. A limit of any ancestor applies too, so readers walk from a
//! cgroup up to the mount point. Inside a container, ancestors above the mount point are not visible: their limits
//! apply, but cox does not see them.

mod folder;
mod limit;
mod members;
mod mounts;
mod resolve;

pub use folder::{Cgroup, Version};
pub use limit::{CpuQuota, ThrottleCounts, Throttling, most_throttled};
pub use mounts::{Hierarchies, Hierarchy, Mode};

use crate::error::Error;
use crate::process::Membership;

impl Hierarchies {
    /// Returns the cgroup that controls `controller` (e.g. `cpu`, `cpuset`) for a process with these memberships;
    /// `None` if no hierarchy with that controller is mounted, or if the process is in none of them.
    ///
    /// # Errors
    /// [`Error::Cgroup`] when the process's cgroup is outside the part that is mounted here (another container's).
    pub fn cgroup_of(&self, memberships: &[Membership], controller: &str) -> Result<Option<Cgroup>, Error> {
        let mut outside = None;
        for hierarchy in self.of_controller(controller) {
            let membership = memberships.iter().find(|membership| match hierarchy.version {
                Version::V1 => membership.controllers.iter().any(|name| name == controller),
                Version::V2 => membership.is_v2(),
            });
            let Some(membership) = membership else { continue };
            match hierarchy.cgroup_at(&membership.path) {
                Some(cgroup) => return Ok(Some(cgroup)),
                None => outside = Some((hierarchy, &membership.path)),
            }
        }
        match outside {
            None => Ok(None),
            Some((hierarchy, path)) => Err(Error::Cgroup {
                path: path.clone(),
                reason: format!(
                    "it is outside the part of the hierarchy that is mounted at {} (in another container?)",
                    hierarchy.mount_point.display()
                ),
            }),
        }
    }
}
