//! Mount points of the cgroup hierarchies.

use std::path::{Component, Path, PathBuf};

use super::folder::{Cgroup, Version};
use crate::error::Error;
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
    fn lineage_ends_at_the_mount_point() {
        let hierarchy = parse_line("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw").expect("v2");
        let cgroup = hierarchy.cgroup_at(Path::new("/a/b")).expect("below");
        let lineage: Vec<_> = cgroup.lineage().collect();
        assert_eq!(lineage, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"].map(Path::new));
        assert_eq!(cgroup.name(), Path::new("/a/b"));
    }
}
