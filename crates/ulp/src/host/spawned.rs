//! ULPs that ULPs have started (`cox_ulp_spawn`). The host maps the program; the ULP that has asked makes the process. See `carriers::spawning`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::{HostError, Running, Ulps, comm, words};
use crate::carriers::{self, Asked, Kept};
use crate::program::image::{Image, LoadError, Loader};
use crate::task::{self, Beginning, Parent};

/// So many can be started, and so many may run at once.
pub(super) const MOST: usize = 4096;
pub(super) const AT_ONCE: usize = 192;

/// A program that is mapped, while it is not known whether its process exists.
pub(super) struct Promised {
    /// Number of the ULP that has asked.
    asker: usize,
    running: Running,
}

impl Ulps {
    /// Answers the ULPs that have asked for others.
    pub(super) fn answer_all(&mut self) {
        self.look_for_promised();
        for (asker, asked) in self.carriers.asked() {
            let answer = self.prepare(asker, asked);
            self.carriers.answer(asker, answer);
        }
    }

    /// Maps the program that a ULP has asked for. Returns the number of the new ULP and how its process is made, or an error number.
    fn prepare(&mut self, asker: usize, asked: Asked) -> Result<(usize, libc::clone_args), i32> {
        let others = self.alive.values().filter(|one| one.loader.is_some()).count();
        if others + self.promised.len() + self.lingering.len() >= AT_ONCE {
            return Err(libc::EAGAIN);
        }
        let path = words::string(asked.path)?;
        let (arguments, environment) = (words::strings(asked.arguments)?, words::strings(asked.environment)?);
        let path = self.path_for(asker, Path::new(OsStr::from_bytes(path.as_bytes())))?;
        access(&path, Access::EXEC_OK).map_err(Errno::raw_os_error)?;
        if path.is_dir() {
            return Err(libc::EACCES);
        }
        let mut loader = Box::new(Loader::of(&path).map_err(|error| errno(&HostError::from(error)))?);
        loader.add_to_vector(carriers::auxiliary_entry());
        // The number is taken even if the program cannot be mapped: no two programs ever have the same.
        let number = self.carriers.add().ok_or(libc::ENOSPC)?;
        self.nodes.add();
        let image = self.load(&loader, arguments, environment, number).map_err(|error| {
            self.carriers.set_status(number, NEVER_STARTED);
            errno(&error)
        })?;
        let name = comm(&path.file_name().unwrap_or_default().to_string_lossy(), number);
        let (gs_base, pid) = (self.carriers.task_of(number), self.carriers.pid_of(number));
        // The ULP that makes the process has none of the host's descriptors.
        let beginning = Beginning { name: &name, mask: asked.mask, gs_base, pid, close: &[] };
        let arguments = task::prepare(&image, &beginning, Parent::Host);
        self.promised.push(Promised { asker, running: Running { number, image, loader: Some(loader) } });
        Ok((number, arguments))
    }

    /// Returns a path of a ULP as one of the host, whose working directory is another.
    fn path_for(&self, asker: usize, path: &Path) -> Result<PathBuf, i32> {
        if path.is_absolute() {
            return Ok(path.to_owned());
        }
        if path.as_os_str().is_empty() {
            return Err(libc::ENOENT);
        }
        let directory = fs::read_link(format!("/proc/{}/cwd", self.carriers.pid(asker)));
        Ok(directory.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOENT))?.join(path))
    }

    /// Finds out which of the promised processes exist by now.
    pub(super) fn look_for_promised(&mut self) {
        for Promised { asker, running } in std::mem::take(&mut self.promised) {
            match self.carriers.kept(asker, running.number) {
                Kept::Exists(pid) => {
                    self.spawned += 1;
                    self.alive.insert(pid, running);
                    self.at_once = self.at_once.max(self.alive.len());
                    if self.is_given_up {
                        // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
                        unsafe { libc::kill(pid, libc::SIGKILL) };
                    }
                }
                Kept::NotYet => self.promised.push(Promised { asker, running }),
                Kept::Never => self.drop_promise(running),
            }
        }
    }

    /// Learns that a ULP has ended: what it has not made by now it never will.
    pub(super) fn forget_promises_to(&mut self, ended: usize) {
        self.look_for_promised();
        let in_vain = self.promised.extract_if(.., |promised| promised.asker == ended).collect::<Vec<_>>();
        in_vain.into_iter().for_each(|promised| self.drop_promise(promised.running));
    }

    /// Unmaps a program that was never started.
    fn drop_promise(&mut self, Running { number, image, .. }: Running) {
        self.carriers.set_status(number, NEVER_STARTED);
        self.nodes.ended(number);
        self.arena.give_back(Image::into_memory(image));
    }
}

/// What waitpid(2) says of a process that was killed at once.
const NEVER_STARTED: i32 = libc::SIGKILL;

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
