//! The processes and threads in a cgroup and in the cgroups below it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Cgroup, Version};
use crate::error::Error;
use crate::process::Task;
use crate::root::{Root, present};

impl Cgroup {
    /// Returns the processes in this cgroup and below it. Skips cgroups that vanish meanwhile, and processes of other
    /// PID namespaces, which have no id here.
    ///
    /// # Errors
    /// When a folder or file of a cgroup exists and cannot be read.
    pub fn pids(&self, root: &Root) -> Result<BTreeSet<u32>, Error> {
        let mut pids = BTreeSet::new();
        for folder in self.subtree(root)? {
            match read_ids(root, &folder.join("cgroup.procs")) {
                Ok(more) => pids.extend(more),
                // In version 2, a threaded cgroup lists only its threads, not processes.
                Err(error) if is_threaded(&error) => {
                    for tid in read_ids(root, &folder.join("cgroup.threads"))? {
                        pids.extend(present(Task::process(root, tid).status())?.map(|status| status.tgid));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pids)
    }

    /// Returns the threads in this cgroup and below it, with the same exceptions as [`Cgroup::pids`].
    ///
    /// # Errors
    /// When a folder or file of a cgroup exists and cannot be read.
    pub fn tids(&self, root: &Root) -> Result<BTreeSet<u32>, Error> {
        let name = match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        let mut tids = BTreeSet::new();
        for folder in self.subtree(root)? {
            tids.extend(read_ids(root, &folder.join(name))?);
        }
        Ok(tids)
    }

    /// Returns this cgroup's folder and those of all cgroups below it.
    fn subtree(&self, root: &Root) -> Result<Vec<PathBuf>, Error> {
        let mut folders = vec![self.folder.clone()];
        let mut next = 0;
        while next < folders.len() {
            let folder = folders[next].clone();
            next += 1;
            for name in present(root.list(&folder))?.unwrap_or_default() {
                let below = folder.join(name);
                // Cgroupfs contains no links. Not following links keeps the walk finite in an unusual tree.
                let is_folder = root.path(&below).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
                if is_folder {
                    folders.push(below);
                }
            }
        }
        Ok(folders)
    }
}

/// Reads one number per line. The kernel prints 0 for a process without an id in our PID namespace; such lines are left
/// out.
fn read_ids(root: &Root, path: &Path) -> Result<Vec<u32>, Error> {
    let text = present(root.read_text(path))?.unwrap_or_default();
    let ids: Result<Vec<u32>, _> = text.lines().map(str::parse).collect();
    match ids {
        Ok(ids) => Ok(ids.into_iter().filter(|&id| id != 0).collect()),
        Err(_) => Err(root.format_error(path, "not a list of process numbers".to_owned())),
    }
}

fn is_threaded(error: &Error) -> bool {
    match error {
        Error::Read { source, .. } => Errno::from_io_error(source) == Some(Errno::OPNOTSUPP),
        _ => false,
    }
}
