//! The PID namespace of this process, and whether /proc shows the same one.
//!
//! In a container, a thread has one id inside and others outside. /proc shows the ids of the PID namespace it was
//! mounted in, and users pass such ids to cox. cox can use them only if /proc was mounted in cox's own namespace.

use std::path::Path;

use crate::error::Error;
use crate::root::Root;

/// The number of the machine's first PID namespace: `PROC_PID_INIT_INO`, include/linux/proc_ns.h.
const FIRST: u32 = 0xEFFF_FFFC;

const OWN: &str = "/proc/self/ns/pid";

/// The number of the machine's first cgroup namespace: `PROC_CGROUP_INIT_INO`, include/linux/proc_ns.h.
const FIRST_OF_CGROUPS: u32 = 0xEFFF_FFFB;

const OWN_OF_CGROUPS: &str = "/proc/self/ns/cgroup";

/// Returns the number of this process's PID namespace; `None` in the machine's first one, where ids are the kernel's
/// own.
///
/// # Errors
/// When /proc/self/ns/pid cannot be read (no /proc), or does not have the form that namespaces(7) describes.
pub fn of_this_process(root: &Root) -> Result<Option<u32>, Error> {
    other_than(root, OWN, FIRST)
}

/// Returns the number of this process's cgroup namespace; `None` in the machine's first one, whose cgroups have the kernel's
/// own paths.
///
/// # Errors
/// As [`of_this_process`], for /proc/self/ns/cgroup.
pub fn of_cgroups(root: &Root) -> Result<Option<u32>, Error> {
    other_than(root, OWN_OF_CGROUPS, FIRST_OF_CGROUPS)
}

fn other_than(root: &Root, path: &str, first: u32) -> Result<Option<u32>, Error> {
    let link = root.read_link(path)?;
    match number(&link) {
        Some(number) => Ok((number != first).then_some(number)),
        None => Err(Error::Format {
            path: root.path(path),
            reason: format!("{link:?} does not have the form that namespaces(7) describes"),
        }),
    }
}

/// Reads the namespace number from a link such as `pid:[4026531836]`.
fn number(link: &Path) -> Option<u32> {
    link.to_str()?.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}

/// Returns whether /proc lists this process under `own_pid`, the id that the process itself sees. If not, /proc belongs
/// to another PID namespace, in which the same id means another thread than here.
///
/// # Errors
/// When there is no /proc.
pub fn proc_is_ours(root: &Root, own_pid: u32) -> Result<bool, Error> {
    let link = root.read_link("/proc/self")?;
    Ok(link.to_str().and_then(|name| name.parse().ok()) == Some(own_pid))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_container_is_told_from_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(folder.path().join("proc/7/ns")).unwrap();
        symlink("7", folder.path().join("proc/self")).unwrap();
        let link = folder.path().join("proc/7/ns/pid");
        for (text, expected) in
            [("pid:[4026531836]", Some(None)), ("pid:[4026532177]", Some(Some(4_026_532_177))), ("x", None)]
        {
            symlink(text, &link).unwrap();
            assert_eq!(of_this_process(&root).ok(), expected, "{text}");
            fs::remove_file(&link).unwrap();
        }
        assert!(of_this_process(&root).is_err());
        for (number, expected) in [("4026531835", None), ("4026532178", Some(4_026_532_178))] {
            let link = folder.path().join("proc/7/ns/cgroup");
            symlink(format!("cgroup:[{number}]"), &link).unwrap();
            assert_eq!(of_cgroups(&root).unwrap(), expected);
            fs::remove_file(&link).unwrap();
        }
        assert!(proc_is_ours(&root, 7).unwrap());
        assert!(!proc_is_ours(&root, 1).unwrap());
    }
}
