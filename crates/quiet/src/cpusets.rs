//! The cpusets that a session makes: one for the program, and in version 1 one for everything else.

use std::path::{Path, PathBuf};

use machine::CpuSet;

use crate::facts::Cpusets;

/// Beginning of the folder's name of a cpuset for a program. The number of its first CPU follows, so sessions with
/// disjoint CPUs have different folders.
const QUIET: &str = "cox-quiet-";
/// Name of the folder of the cpuset for everything else. All sessions share it.
const SYSTEM: &str = "cox-system";

/// The cpusets of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCpusets {
    /// The hierarchy, by its mount point.
    pub hierarchy: PathBuf,
    /// Folder of the program's cpuset.
    pub quiet: PathBuf,
    /// Folder of the cpuset for everything else. `None` in version 2: threads stay in their cgroups, which lose the
    /// quiet CPUs.
    pub system: Option<PathBuf>,
}

impl OwnCpusets {
    /// Returns the cpusets of a session with these quiet CPUs; `None` if no cpuset can be made.
    pub(crate) fn of(cpusets: &Cpusets, cpus: &CpuSet) -> Option<OwnCpusets> {
        let (mount, is_v1) = match cpusets {
            Cpusets::V1 { mount, .. } => (mount, true),
            Cpusets::V2 { mount, .. } => (mount, false),
            Cpusets::V2Harmful { .. } | Cpusets::None => return None,
        };
        let first = cpus.first().unwrap_or_default();
        let system = is_v1.then(|| mount.join(SYSTEM));
        Some(OwnCpusets { hierarchy: mount.clone(), quiet: mount.join(format!("{QUIET}{first}")), system })
    }
}

/// Returns whether a folder is the cpuset that a session has made for its program.
pub(crate) fn is_quiet_folder(folder: &Path, mount: &Path) -> bool {
    folder.parent() == Some(mount) && starts_with(folder, QUIET)
}

/// Returns whether a file has the CPUs of a cpuset that a session has made for its program.
pub(crate) fn is_quiet_list(file: &Path) -> bool {
    let is_list = file.file_name().is_some_and(|name| name == "cpuset.cpus" || name == "cpus");
    is_list && file.parent().is_some_and(|folder| starts_with(folder, QUIET))
}

/// Returns whether a path is in a cpuset that a session has made.
pub(crate) fn is_own(path: &Path, mount: &Path) -> bool {
    let Some(folder) = path.strip_prefix(mount).ok().and_then(|rest| rest.components().next()) else { return false };
    let folder = Path::new(folder.as_os_str());
    starts_with(folder, QUIET) || folder == Path::new(SYSTEM)
}

fn starts_with(folder: &Path, name: &str) -> bool {
    folder.file_name().is_some_and(|own| own.to_string_lossy().starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpusets_are_known_by_their_names() {
        let mount = PathBuf::from("/sys/fs/cgroup");
        let own =
            OwnCpusets::of(&Cpusets::V2 { mount: mount.clone(), frees_workers: false }, &"2-3,9".parse().unwrap())
                .unwrap();
        assert_eq!((own.quiet.as_path(), &own.system), (Path::new("/sys/fs/cgroup/cox-quiet-2"), &None));
        let known = ["cox-quiet-2", "cox-quiet-2/below", "cox-system", "system.slice", "a/cox-quiet-2"]
            .map(|path| (is_quiet_folder(&mount.join(path), &mount), is_own(&mount.join(path), &mount)));
        assert_eq!(known, [(true, true), (false, true), (false, true), (false, false), (false, false)]);
    }
}
