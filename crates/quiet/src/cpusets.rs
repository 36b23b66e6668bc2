//! The cpusets that a session makes: one for the program, and in version 1 one for everything else.

use std::cmp::Reverse;
use std::collections::BTreeMap;
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
    /// Prefix of the names of its files.
    pub prefix: &'static str,
    /// Folder of the program's cpuset.
    pub quiet: PathBuf,
    /// Folder of the cpuset for everything else. `None` in version 2: threads stay in their cgroups, which lose the
    /// quiet CPUs.
    pub system: Option<PathBuf>,
}

impl OwnCpusets {
    /// Returns the cpusets of a session with these quiet CPUs; `None` if no cpuset can be made.
    pub(crate) fn of(cpusets: &Cpusets, cpus: &CpuSet) -> Option<OwnCpusets> {
        let (mount, prefix, is_v1) = match cpusets {
            Cpusets::V1 { mount, prefix } => (mount, *prefix, true),
            Cpusets::V2 { mount, .. } => (mount, "cpuset.", false),
            Cpusets::V2Harmful { .. } | Cpusets::Foreign { .. } | Cpusets::None => return None,
        };
        let first = cpus.first().unwrap_or_default();
        let system = is_v1.then(|| mount.join(SYSTEM));
        let quiet = mount.join(format!("{QUIET}{first}"));
        Some(OwnCpusets { hierarchy: mount.clone(), prefix, quiet, system })
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

/// What a cpuset of version 1 loses when CPUs become quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Its folder.
    pub folder: PathBuf,
    /// The quiet CPUs that can be taken from it, whether it has them or not; none if it has no other CPUs.
    pub cpus: CpuSet,
}

/// Decides which quiet `cpus` can be taken from cpusets of version 1, given by their folders with their CPUs. The inner ones
/// come first, because a cpuset must contain those in it: the kernel refuses another order (`validate_change` in
/// kernel/cgroup/cpuset.c). One that has only quiet CPUs keeps them, and so do all that contain it. One without CPUs has no
/// threads, and is left out.
pub(crate) fn losses(cpusets: &BTreeMap<PathBuf, CpuSet>, cpus: &CpuSet) -> Vec<Loss> {
    let mut losses: Vec<Loss> = Vec::new();
    let with_cpus = || cpusets.iter().filter(|(_, its)| !its.is_empty());
    let keepers: Vec<(&PathBuf, &CpuSet)> = with_cpus().filter(|(_, its)| its.is_subset(cpus)).collect();
    for (folder, its) in with_cpus() {
        let inside = keepers.iter().filter(|(inner, _)| inner.starts_with(folder));
        let kept = inside.fold(CpuSet::new(), |all, (_, inner)| all.union(inner));
        let lost = if its.is_subset(cpus) { CpuSet::new() } else { cpus.difference(&kept) };
        losses.push(Loss { folder: folder.clone(), cpus: lost });
    }
    losses.sort_by_key(|loss| Reverse(loss.folder.components().count()));
    losses
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

    #[test]
    fn a_cpuset_keeps_what_one_in_it_cannot_lose() {
        let sets = [("a", "0-3"), ("a/b", "0-2"), ("a/b/only", "1"), ("a/c", "1-3"), ("a/none", ""), ("all", "1-2")];
        let sets = sets.map(|(folder, cpus)| (PathBuf::from(folder), cpus.parse().unwrap()));
        let losses = losses(&sets.into(), &"1-2".parse().unwrap());
        let losses: Vec<(&str, String)> =
            losses.iter().map(|loss| (loss.folder.to_str().unwrap(), loss.cpus.to_string())).collect();
        let expected = [("a/b/only", ""), ("a/b", "2"), ("a/c", "1-2"), ("a", "2"), ("all", "")];
        assert_eq!(losses, expected.map(|(folder, cpus)| (folder, cpus.to_owned())));
    }
}
