//! Control groups: where they are mounted, which one a process is in, what they limit, who is in them.
//!
//! Version 1 has a hierarchy per controller (or per set of controllers), version 2 one for all; a hybrid
//! system has both, each controller in one of them. A limit of any ancestor binds, so readers walk from
//! a cgroup up to the mount point. Ancestors above the mount point (outside a container) cannot be seen:
//! their limits bind unnoticed.

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
    /// The cgroup that rules `controller` (e.g. `cpu`, `cpuset`) for a process with these memberships;
    /// `None` when no hierarchy with that controller is mounted or the process is in none.
    ///
    /// # Errors
    /// [`Error::Cgroup`] when the process' cgroup is outside of what is mounted here (another container's).
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
                    "outside of what is mounted at {} (another container?)",
                    hierarchy.mount_point.display()
                ),
            }),
        }
    }
}
