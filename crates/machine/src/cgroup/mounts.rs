//! Mount points of the cgroup hierarchies.

use std::path::{Component, Path, PathBuf};

use super::folder::{Cgroup, Version};
use crate::error::Error;
use crate::process::Membership;
use crate::root::{Root, present, unescape_octal};

const MOUNTS: &str = "/proc/self/mountinfo";

/// Words in the options of a version-1 mount that are not controllers; cgroups(7), cgroup-v1.c.
const V1_FLAGS: [&str; 9] =
    ["rw", "ro", "all", "none", "noprefix", "xattr", "clone_children", "cpuset_v2_mode", "favordynmods"];

/// The versions of cgroups in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No hierarchy is mounted.
    Absent,
    /// Version 1 only.
    V1,
    /// Version 2 only.
    V2,
    /// Both versions; each controller is in one of them.
    Hybrid,
}

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hierarchy {
    /// Version of the hierarchy.
    pub version: Version,
    /// Version 1: the controllers of the hierarchy, `name=x` for a named one. Version 2: the controllers that it
    /// offers.
    pub controllers: Vec<String>,
    /// Folder where the hierarchy is mounted.
    pub mount_point: PathBuf,
    /// The cgroup that appears at the mount point: `/`, unless only a part of the hierarchy is mounted.
    pub mount_root: PathBuf,
}

impl Hierarchy {
    /// Returns the folder of a cgroup named as in /proc/PID/cgroup; `None` if the cgroup is not below the mount point.
    #[must_use]
    pub fn cgroup_at(&self, path: &Path) -> Option<Cgroup> {
        let below = path.strip_prefix(&self.mount_root).ok()?;
        // "/../x" names a cgroup outside the namespace, which has no folder here.
        if below.components().any(|component| component == Component::ParentDir) {
            return None;
        }
        Some(self.cgroup_in(self.mount_point.components().chain(below.components()).collect()))
    }

    /// Returns the cgroup of a process with these memberships; `None` if it is in no cgroup of this hierarchy, or in one
    /// outside the part that is mounted here.
    #[must_use]
    pub fn cgroup_of(&self, memberships: &[Membership]) -> Option<Cgroup> {
        let is_it = |membership: &&Membership| match self.version {
            Version::V1 => membership.controllers.iter().any(|name| self.controllers.contains(name)),
            Version::V2 => membership.is_v2(),
        };
        self.cgroup_at(&memberships.iter().find(is_it)?.path)
    }

    /// Returns the cgroup that has this folder.
    pub(super) fn cgroup_in(&self, folder: PathBuf) -> Cgroup {
        Cgroup { version: self.version, folder, mount_point: self.mount_point.clone() }
    }
}

/// All mounted hierarchies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Hierarchies {
    /// The hierarchies in the order of mounting.
    pub mounted: Vec<Hierarchy>,
}

impl Hierarchies {
    /// Reads the mounts this process sees.
    ///
    /// Reads mountinfo, not `mounts`: only mountinfo tells which part of a hierarchy is mounted, and without it the
    /// folders inside a container cannot be found.
    ///
    /// # Errors
    /// When the mounts, or the controllers of the version-2 hierarchy, cannot be read.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let text = root.read_text(MOUNTS)?;
        let mut mounted = Vec::new();
        for line in text.lines() {
            let Some(mut hierarchy) = parse_line(line) else { continue };
            if hierarchy.version == Version::V2 {
                let offered = present(root.read_text(hierarchy.mount_point.join("cgroup.controllers")))?;
                hierarchy.controllers =
                    offered.unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect();
            }
            mounted.push(hierarchy);
        }
        Ok(Self { mounted })
    }

    /// Returns the versions of cgroups in use.
    #[must_use]
    pub fn mode(&self) -> Mode {
        let has = |version| self.mounted.iter().any(|hierarchy| hierarchy.version == version);
        match (has(Version::V1), has(Version::V2)) {
            (false, false) => Mode::Absent,
            (true, false) => Mode::V1,
            (false, true) => Mode::V2,
            (true, true) => Mode::Hybrid,
        }
    }

    /// Returns the mounted hierarchy that a folder belongs to; `None` if it is not below a mount point. Version 1 is
    /// mounted below a folder that may itself be a version-2 mount, so the deepest mount point counts.
    #[must_use]
    pub fn of_folder(&self, folder: &Path) -> Option<&Hierarchy> {
        let inside = self.mounted.iter().filter(|hierarchy| folder.starts_with(&hierarchy.mount_point));
        inside.max_by_key(|hierarchy| hierarchy.mount_point.components().count())
    }

    /// Returns the mounted hierarchies that have a controller, version 1 first. If version 1 uses the controller,
    /// version 2 does not offer it.
    pub fn of_controller<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Hierarchy> {
        let has = move |hierarchy: &&Hierarchy, version| {
            hierarchy.version == version && hierarchy.controllers.iter().any(|name| name == controller)
        };
        let v1 = self.mounted.iter().filter(move |hierarchy| has(hierarchy, Version::V1));
        let v2 = self.mounted.iter().filter(move |hierarchy| has(hierarchy, Version::V2));
        v1.chain(v2)
    }
}

/// Reads one line of proc_pid_mountinfo(5):
/// `id parent major:minor root mount-point options [optional…] - type source super-options`.
fn parse_line(line: &str) -> Option<Hierarchy> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let mount_root = unescape_octal(mount.next()?);
    let mount_point = unescape_octal(mount.next()?);
    let mut file_system = file_system.split(' ');
    let version = match file_system.next()? {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let controllers = match version {
        Version::V2 => Vec::new(),
        Version::V1 => file_system
            .nth(1)
            .unwrap_or_default()
            .split(',')
            .filter(|word| !V1_FLAGS.contains(word) && !word.starts_with("release_agent="))
            .map(str::to_owned)
            .collect(),
    };
    Some(Hierarchy { version, controllers, mount_point, mount_root })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_lines() {
        let line =
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 master:1 - cgroup cgroup rw,xattr,cpu,cpuacct";
        let hierarchy = parse_line(line).expect("a hierarchy");
        assert_eq!(hierarchy.version, Version::V1);
        assert_eq!(hierarchy.controllers, ["cpu", "cpuacct"]);
        assert_eq!(hierarchy.mount_point, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        let named = parse_line("1 2 0:3 / /c rw - cgroup cgroup rw,name=systemd").expect("named");
        assert_eq!(named.controllers, ["name=systemd"]);
        let unified = parse_line("1 2 0:3 /a\\040b /c rw - cgroup2 cgroup2 rw").expect("v2");
        assert_eq!((unified.version, unified.mount_root.as_path()), (Version::V2, Path::new("/a b")));
        assert_eq!(parse_line("23 27 0:22 / /sys rw,relatime - sysfs sysfs rw"), None);
        assert_eq!(parse_line("nonsense"), None);
    }

    #[test]
    fn only_cgroups_below_the_mounted_part_have_a_folder() {
        let hierarchy = parse_line("1 2 0:3 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw").expect("a hierarchy");
        let folder = |path: &str| hierarchy.cgroup_at(Path::new(path)).map(|cgroup| cgroup.folder);
        assert_eq!(folder("/docker/abc"), Some("/sys/fs/cgroup".into()));
        assert_eq!(folder("/docker/abc/x"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(folder("/docker/abcd"), None);
        assert_eq!(folder("/docker/abc/../x"), None);
        assert_eq!(folder("/"), None);
    }

    #[test]
    fn a_membership_and_a_folder_belong_to_their_hierarchy() {
        let lines = [
            "1 2 0:3 / /c rw - cgroup2 cgroup2 rw",
            "1 2 0:3 / /c/cpuset rw - cgroup cgroup rw,cpuset",
            "1 2 0:3 / /c/systemd rw - cgroup cgroup rw,name=systemd",
        ];
        let mounted = Hierarchies { mounted: lines.iter().filter_map(|line| parse_line(line)).collect() };
        let at = |folder: &str| mounted.of_folder(Path::new(folder)).map(|found| found.mount_point.clone());
        assert_eq!((at("/c/cpuset/a"), at("/c/x"), at("/d")), (Some("/c/cpuset".into()), Some("/c".into()), None));
        let member = |controllers: &[&str], path: &str| Membership {
            controllers: controllers.iter().map(|&name| name.to_owned()).collect(),
            path: path.into(),
        };
        let of = [member(&["name=systemd"], "/s"), member(&["cpuset"], "/job"), member(&[], "/u")];
        let folders: Vec<_> = mounted.mounted.iter().filter_map(|of_one| Some(of_one.cgroup_of(&of)?.folder)).collect();
        assert_eq!(folders, ["/c/u", "/c/cpuset/job", "/c/systemd/s"].map(Path::new));
        assert_eq!(mounted.mounted[1].cgroup_of(&of[..1]), None);
    }

    #[test]
    fn lineage_ends_at_the_mount_point() {
        let hierarchy = parse_line("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw").expect("v2");
        let cgroup = hierarchy.cgroup_at(Path::new("/a/b")).expect("below");
        let lineage: Vec<_> = cgroup.lineage().collect();
        assert_eq!(lineage, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"].map(Path::new));
        assert_eq!(cgroup.name(), Path::new("/a/b"));
    }
}
