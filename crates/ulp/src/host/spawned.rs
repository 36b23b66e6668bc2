//! ULPs that ULPs have started (`cox_ulp_spawn`). The host maps the program; the ULP that has asked makes the process. See `carriers::spawning`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::error::HostError;
use super::ulp_memory;
use super::ulps::{Pending, Running, Spawned, Ulps, comm};
use crate::carriers::{self, Asked, Crashes, Created};
use crate::program::image::{LoadError, Loader};
use crate::task::{self, Beginning, Parent};

/// Maximum number of ULPs that ULPs start: in all, and at a time.
pub(super) const MOST: usize = 4096;
pub(super) const AT_ONCE: usize = 192;

impl Ulps {
    /// Answers the ULPs that have asked for others.
    pub(super) fn answer_all(&mut self) {
        self.look_for_pending();
        for (requester, asked) in self.carriers.asked() {
            let answer = self.prepare(requester, asked);
            self.carriers.answer(requester, answer);
        }
    }

    /// Maps the program that a ULP has asked for. Returns the number of the new ULP and how its process is made, or an error number.
    fn prepare(&mut self, requester: usize, asked: Asked) -> Result<(usize, libc::clone_args), i32> {
        if self.is_told_to_end {
            return Err(libc::EINTR);
        }
        let others = self.alive.values().filter(|one| one.spawned.is_some()).count();
        if others + self.pending.len() + self.lingering.len() >= AT_ONCE {
            return Err(libc::EAGAIN);
        }
        let path = ulp_memory::string(asked.path)?;
        let arguments = ulp_memory::strings(asked.arguments)?;
        let environment = ulp_memory::strings(asked.environment)?;
        let path = self.path_for(requester, Path::new(OsStr::from_bytes(path.as_bytes())))?;
        let mut loader = executable(&path)?;
        loader.add_to_vector(carriers::auxiliary_entry());
        loader.add_stack_for_handlers(self.crashes.as_ref().map_or(0, |(crashes, _)| crashes.stack_bytes()));
        let close = descriptors_to_close(self.carriers.pid(requester))?;
        // A number is used once, even if its program cannot be mapped.
        let number = self.carriers.add().ok_or(libc::ENOSPC)?;
        self.nodes.add();
        let image = self.load(&loader, arguments, environment, number).map_err(|error| {
            self.carriers.never_started(number);
            errno(&error)
        })?;
        let name = comm(&path.file_name().unwrap_or_default().to_string_lossy(), number);
        let (gs_base, pid) = (self.carriers.task_of(number), self.carriers.pid_of(number));
        let prepare = self.crashes.is_some().then_some(Crashes::PREPARE);
        let beginning = Beginning { name: &name, mask: asked.mask, gs_base, pid, close: &close, prepare };
        let arguments = task::prepare(&image, &beginning, Parent::Host);
        let spawned = Some(Spawned { _path: loader.into_path(), _close: close });
        self.pending.push(Pending { requester, running: Running { number, image, spawned }, signals: Vec::new() });
        Ok((number, arguments))
    }

    /// Returns a path of a ULP as one of the host, whose working directory is another.
    fn path_for(&self, requester: usize, path: &Path) -> Result<PathBuf, i32> {
        if path.is_absolute() {
            return Ok(path.to_owned());
        }
        if path.as_os_str().is_empty() {
            return Err(libc::ENOENT);
        }
        let directory = fs::read_link(format!("/proc/{}/cwd", self.carriers.pid(requester)));
        Ok(directory.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOENT))?.join(path))
    }

    /// Finds out which of the pending processes exist by now.
    pub(super) fn look_for_pending(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match self.carriers.created(pending.requester, pending.running.number) {
                Created::As(pid) => {
                    self.spawned += 1;
                    let killed = self.is_given_up.then_some(libc::SIGKILL);
                    for signal in pending.signals.into_iter().chain(killed) {
                        // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
                        unsafe { libc::kill(pid, signal) };
                    }
                    self.alive.insert(pid, pending.running);
                    self.at_once = self.at_once.max(self.alive.len());
                }
                Created::NotYet => self.pending.push(pending),
                Created::Never => self.drop_one(pending),
            }
        }
    }

    /// Keeps a signal for those that do not exist yet.
    pub(super) fn keep_for_pending(&mut self, signal: i32) {
        self.look_for_pending();
        self.pending.iter_mut().for_each(|one| one.signals.push(signal));
    }

    /// Drops what a ULP that has ended has asked for and not made.
    pub(super) fn drop_pending_of(&mut self, requester: usize) {
        self.look_for_pending();
        let theirs = self.pending.extract_if(.., |pending| pending.requester == requester).collect::<Vec<_>>();
        theirs.into_iter().for_each(|pending| self.drop_one(pending));
    }

    /// Unmaps a program that was never started.
    fn drop_one(&mut self, Pending { running: Running { number, image, .. }, .. }: Pending) {
        self.carriers.never_started(number);
        self.nodes.ended(number);
        self.arena.give_back(image.into_memory());
    }
}

/// Reads an executable file.
fn executable(path: &Path) -> Result<Loader, i32> {
    access(path, Access::EXEC_OK).map_err(Errno::raw_os_error)?;
    // Opening others can block, or be a directory.
    if !path.is_file() {
        return Err(libc::EACCES);
    }
    Loader::of(path).map_err(|error| errno(&HostError::from(error)))
}

/// Returns those descriptors of a process that a program that it executes would not have (O_CLOEXEC).
fn descriptors_to_close(pid: i32) -> Result<Vec<i32>, i32> {
    let list = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let list = list.map_err(|error| error.raw_os_error().unwrap_or(libc::ESRCH))?;
    let closes = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?.trim();
        let flags = i32::from_str_radix(flags, 8).ok()?;
        if flags & libc::O_CLOEXEC == 0 { None } else { entry.file_name().to_str()?.parse().ok() }
    };
    Ok(list.flatten().filter_map(closes).collect())
}

/// Returns the error number for a program that cannot be started, as execve(2) has it.
fn errno(error: &HostError) -> i32 {
    match error {
        HostError::Load(LoadError::Unfit { .. } | LoadError::Script { .. }) => libc::ENOEXEC,
        HostError::Load(LoadError::TooLong { .. }) => libc::E2BIG,
        HostError::Load(LoadError::Read { source, .. }) => source.raw_os_error().unwrap_or(libc::EIO),
        HostError::Load(LoadError::Map { source, .. }) | HostError::Os { source, .. } => {
            source.raw_os_error().unwrap_or(libc::ENOMEM)
        }
        HostError::Start { why, .. } => why.raw_os_error().unwrap_or(libc::EAGAIN),
    }
}
