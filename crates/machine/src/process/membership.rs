//! /proc/PID/cgroup: the cgroup of a process in each hierarchy.

use std::path::PathBuf;

/// The cgroup in one hierarchy; cgroups(7).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// Controllers of a version-1 hierarchy (`name=x` for a named hierarchy); empty for version 2.
    pub controllers: Vec<String>,
    /// Path of the cgroup, relative to the root of the reader's cgroup namespace. It starts with `/../` if the process
    /// is outside that namespace.
    pub path: PathBuf,
}

impl Membership {
    /// Returns whether this is the version-2 hierarchy.
    #[must_use]
    pub fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }
}

/// Reads lines of the form `ID:controller,controller:/path`. The error is the malformed line.
pub(super) fn parse(text: &str) -> Result<Vec<Membership>, String> {
    text.lines()
        .map(|line| {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(line.to_owned());
            };
            if !path.starts_with('/') {
                return Err(line.to_owned());
            }
            let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            // A removed cgroup is still listed for its zombies, with this suffix.
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            Ok(Membership { controllers, path: PathBuf::from(path) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn both_versions_in_one_file() {
        let memberships = parse("9:name=systemd:/a\n4:cpu,cpuacct:/job:1/x\n0::/user.slice (deleted)\n").expect("fine");
        assert_eq!(memberships[0].controllers, ["name=systemd"]);
        assert_eq!(memberships[1].controllers, ["cpu", "cpuacct"]);
        assert_eq!(memberships[1].path, Path::new("/job:1/x"));
        assert!(!memberships[1].is_v2());
        assert!(memberships[2].is_v2());
        assert_eq!(memberships[2].path, Path::new("/user.slice"));
    }

    #[test]
    fn malformed_lines_are_named() {
        assert_eq!(parse("0::/\n4:cpu\n"), Err("4:cpu".to_owned()));
        assert_eq!(parse("4:cpu:relative"), Err("4:cpu:relative".to_owned()));
    }
}
