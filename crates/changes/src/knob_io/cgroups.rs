//! Cgroups on the real machine: making and removing them, who is in them, and moving threads.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use machine::Root;
use machine::cgroup::{Hierarchies, Hierarchy, Version};
use machine::process::Task;

use super::kernel_file::is_straight;

/// How long a cgroup may stay busy after its last thread has left: a thread that ends counts until it is gone.
const BUSY: Duration = Duration::from_millis(2);

/// Returns the hierarchy that a cgroup's folder belongs to. The mount point itself is the root of the hierarchy, which
/// cannot be made or removed.
pub(super) fn hierarchy_of<'h>(mounted: &'h Hierarchies, folder: &Path) -> io::Result<&'h Hierarchy> {
    let found = mounted.of_folder(folder).filter(|_| is_straight(folder));
    found.ok_or_else(|| io::Error::other("it is not in a cgroup hierarchy"))
}

/// Returns whether the cgroup with this folder exists.
pub(super) fn exists(root: &Root, folder: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(root.path(folder)) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a cgroup, or removes one that has neither members nor cgroups below it.
pub(super) fn make(root: &Root, folder: &Path, present: bool) -> io::Result<()> {
    let path = root.path(folder);
    if present {
        return fs::create_dir(path);
    }
    match fs::remove_dir(&path) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            thread::sleep(BUSY);
            fs::remove_dir(path)
        }
        done => done,
    }
}

/// Returns the folder of the cgroup that a thread is in.
///
/// # Errors
/// Fails with ESRCH if the thread has ended; also fails if its cgroup has no folder here, because it is outside the
/// part of the hierarchy that is mounted.
pub(super) fn cgroup_of(task: &Task, hierarchy: &Hierarchy) -> io::Result<PathBuf> {
    let memberships = match task.cgroups() {
        Err(error) if error.is_gone() => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        memberships => memberships.map_err(machine::Error::into_io)?,
    };
    let outside = || io::Error::other("its cgroup has no folder here (in another container?)");
    hierarchy.cgroup_of(&memberships).map(|cgroup| cgroup.folder).ok_or_else(outside)
}

/// Moves a thread to a cgroup: in version 1 the thread alone, in version 2 its process, or the thread alone if the
/// cgroup is threaded (Documentation/admin-guide/cgroup-v2, "Threads").
pub(super) fn put(root: &Root, hierarchy: &Hierarchy, folder: &Path, tid: u32) -> io::Result<()> {
    match hierarchy.version {
        Version::V1 => write_id(root, &folder.join("tasks"), tid),
        Version::V2 => match write_id(root, &folder.join("cgroup.procs"), tid) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                write_id(root, &folder.join("cgroup.threads"), tid)
            }
            done => done,
        },
    }
}

/// The file with the controllers that are on below a cgroup.
const CONTROL: &str = "cgroup.subtree_control";

/// Returns whether a controller is on for the cgroups below one.
pub(super) fn is_on(root: &Root, cgroup: &Path, name: &str) -> io::Result<bool> {
    let text = root.read_text(cgroup.join(CONTROL)).map_err(machine::Error::into_io)?;
    Ok(text.split_ascii_whitespace().any(|word| word == name))
}

/// The files with a cgroup's own CPUs and memory nodes, and what each has if it has none.
const OWN: [(&str, &str); 4] =
    [("cpuset.cpus", ""), ("cpuset.cpus.exclusive", ""), ("cpuset.mems", ""), ("cpuset.cpus.partition", "member")];

/// Returns the cgroups directly below one that have CPUs or memory nodes of their own, which the kernel would forget without
/// the controller cpuset. For other controllers, returns none.
pub(super) fn users_of(root: &Root, cgroup: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    if name != "cpuset" {
        return Ok(Vec::new());
    }
    let names = root.list(cgroup).map_err(machine::Error::into_io)?;
    let has_own = |folder: &PathBuf| {
        let has = |(file, none): &(&str, &str)| root.read_text(folder.join(file)).is_ok_and(|own| own.trim() != *none);
        OWN.iter().any(has)
    };
    Ok(names.into_iter().map(|name| cgroup.join(name)).filter(has_own).collect())
}

/// Turns a controller on or off for the cgroups below one.
pub(super) fn turn(root: &Root, cgroup: &Path, name: &str, on: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(root.path(cgroup.join(CONTROL)))?;
    file.write_all(format!("{}{name}", if on { '+' } else { '-' }).as_bytes())
}

/// Fails with ESRCH if the thread has ended, and with another error if the cgroup does not exist.
fn write_id(root: &Root, path: &Path, tid: u32) -> io::Result<()> {
    let opened = OpenOptions::new().write(true).open(root.path(path));
    let mut file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!("there is no {} (any more)", path.display())),
        _ => error,
    })?;
    match file.write_all(tid.to_string().as_bytes()) {
        // The cgroup was removed after the file was opened.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            Err(io::Error::other(format!("there is no {} (any more)", path.display())))
        }
        done => done,
    }
}

/// Returns the ids of the threads in a cgroup, without those of other PID namespaces.
///
/// # Errors
/// Fails with ENOENT if the cgroup does not exist.
pub(super) fn threads_in(root: &Root, hierarchy: &Hierarchy, folder: &Path) -> io::Result<Vec<u32>> {
    let name = match hierarchy.version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.threads",
    };
    let text = root.read_text(folder.join(name)).map_err(machine::Error::into_io)?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|tid| *tid != 0).collect())
}

/// Returns the same file of the cgroups directly below that of `file`, if they are of version 1.
///
/// # Errors
/// Fails with ENOENT if the cgroup does not exist.
pub(super) fn nested_cpusets(root: &Root, mounted: &Hierarchies, file: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Ok(Vec::new()) };
    if mounted.of_folder(folder).is_none_or(|hierarchy| hierarchy.version != Version::V1) {
        return Ok(Vec::new());
    }
    let mut nested = Vec::new();
    for entry in fs::read_dir(root.path(folder))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            nested.push(folder.join(entry.file_name()).join(name));
        }
    }
    nested.sort();
    Ok(nested)
}
