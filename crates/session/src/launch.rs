//! Starts the program: fork, wait at a gate, exec.
//!
//! The child blocks on reading the gate, which is a pipe. One byte lets the child continue. End of file means that cox
//! has died, and the child exits without starting the program. A second pipe is closed by a successful exec; if exec
//! fails, it carries the errno.
//!
//! Between fork and exec, the child makes only async-signal-safe calls. All data for them (arguments, candidates on
//! PATH) is built before the fork.
//!
//! If a session starts several programs, none starts unless all can be executed, as far as that can be checked
//! beforehand: see [`rehearse`].

mod rehearsal;

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use machine::Root;
use machine::process::Task;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, waitid, waitpid,
};

use crate::target::{Exit, Launch};
use crate::{sigpipe, streams};
pub use rehearsal::{Rehearsed, rehearse};

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run '{program}': {why}")]
pub struct LaunchError {
    program: String,
    why: String,
    exit_code: i32,
}

/// Exit codes as in env(1) and shells: the program was not found, or it cannot be executed.
const NOT_FOUND: i32 = 127;
const CANNOT_EXECUTE: i32 = 126;

impl LaunchError {
    /// Returns cox's exit code for this error: 127 if the program was not found, 126 if it cannot be executed.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        self.exit_code
    }
}

/// A forked child that waits before its exec, until cox opens the gate (a pipe).
pub struct Child {
    process: Running,
    gate: OwnedFd,
    status: OwnedFd,
    program: OsString,
}

/// A child that cox has let continue to its exec.
pub struct Running {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Child {
    /// Forks a child that waits for [`Child::go`]. `mask` is the signal mask of the program.
    pub fn fork(launch: &Launch, mask: libc::sigset_t) -> Result<Child> {
        let prepared = Prepared::new(launch)?;
        let words = prepared.words();

        let (gate_read, gate) = pipe_with(PipeFlags::CLOEXEC).context("pipe")?;
        let (status, status_write) = pipe_with(PipeFlags::CLOEXEC).context("pipe")?;
        let child_signal = child_signal();
        // SAFETY: the child only makes async-signal-safe calls until it execs or exits, so that other threads of cox do no harm.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // The child must not hold the write end; otherwise it would never read end of file.
            drop(gate);
            let mut byte = 0u8;
            // SAFETY: the block makes only system calls, on an open descriptor and on `byte`; `_exit` does not return.
            unsafe {
                if libc::read(gate_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                    libc::_exit(125);
                }
            }
            fail(&status_write, become_program(&words, &mask, child_signal));
        }
        let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error).context("fork")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open")?;
        let child = Child { process: Running { pid, pidfd }, gate, status, program: prepared.program };
        child.wait_until_at_gate()?;
        Ok(child)
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until the child sleeps in its read of the gate (a pipe). Observers may start to track the child only then:
    /// they count its time from its next switch-in, which must be the one after the gate opens.
    fn wait_until_at_gate(&self) -> Result<()> {
        let task = Task::process(&Root::live(), self.pid());
        loop {
            match task.stat()?.state {
                'S' => return Ok(()),
                'Z' | 'X' => anyhow::bail!("the forked child ended before cox started the program"),
                _ => std::thread::sleep(std::time::Duration::from_micros(50)),
            }
        }
    }

    /// Lets the child continue, and waits until its exec has succeeded or failed.
    ///
    /// # Errors
    /// [`LaunchError`] when the program cannot be executed.
    pub fn go(self) -> Result<Running> {
        fs::File::from(self.gate).write_all(b"g").context("cannot start the program")?;
        let mut errno = [0; 4];
        // Either a successful exec closes the other end of this pipe, or the errno of a failed exec arrives.
        match fs::File::from(self.status).read_exact(&mut errno) {
            Ok(()) => {
                waitpid(Some(self.process.pid), WaitOptions::empty()).context("waitpid")?;
                Err(why_not(&self.program, i32::from_ne_bytes(errno)).into())
            }
            Err(_) => Ok(self.process),
        }
    }
}

impl Running {
    /// Returns whether the program has ended. Does not reap it.
    pub fn has_ended(&self) -> Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid), look).context("waitid")?.is_some())
    }

    /// Waits for the end of the program. Returns its exit, and its CPU time with that of all descendants that were
    /// waited for, ns.
    pub fn reap(&self) -> Result<(Exit, u64)> {
        let pid = self.pid.as_raw_nonzero().get();
        loop {
            let mut status = 0;
            let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: both pointers are valid for writing.
            if unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) } != pid {
                let error = std::io::Error::last_os_error();
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error).context("wait4");
            }
            // SAFETY: zeroed above, and any bits are valid in this struct of integers.
            let usage = unsafe { usage.assume_init() };
            let cpu_ns = [usage.ru_utime, usage.ru_stime]
                .iter()
                .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000)
                .sum();
            if libc::WIFEXITED(status) {
                return Ok((Exit::Code(libc::WEXITSTATUS(status)), cpu_ns));
            }
            if libc::WIFSIGNALED(status) {
                return Ok((Exit::Signal(libc::WTERMSIG(status)), cpu_ns));
            }
        }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Sends a signal to the program. Errors are ignored: the program may just have ended.
    pub fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = pidfd_send_signal(&self.pidfd, signal);
        }
    }
}

impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// The data that a child needs between fork and exec.
struct Prepared {
    program: OsString,
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    has_no_input: bool,
    /// Affinity mask, as [`machine::CpuSet::words`] has it.
    mask: Option<Vec<u64>>,
}

/// The data of a [`Prepared`] in the form that system calls take. Lists of pointers end with a null pointer.
struct Words<'p> {
    candidates: &'p [CString],
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    has_no_input: bool,
    mask: Option<&'p [u64]>,
}

impl Prepared {
    fn new(launch: &Launch) -> Result<Prepared> {
        let command = &launch.command;
        let program = command.first().context("no program given")?.clone();
        // Leave out the variable that names the file for this cox's timings: if the program starts another cox, that cox
        // would write to the same file.
        let is_ours = |name: &OsString| name == arch::laps::VARIABLE;
        let is_changed = |name: &OsString| launch.variables.iter().any(|(other, _)| other == name);
        let inherited = env::vars_os().filter(|(name, _)| !is_ours(name) && !is_changed(name));
        let environment: Vec<OsString> = inherited
            .chain(launch.variables.iter().cloned())
            .map(|(name, value)| {
                let mut pair = name;
                pair.push("=");
                pair.push(value);
                pair
            })
            .collect();
        Ok(Prepared {
            candidates: candidates(&program)?,
            arguments: strings(command.iter().map(OsString::as_os_str))?,
            environment: strings(environment.iter().map(OsString::as_os_str))?,
            has_no_input: launch.has_no_input,
            mask: launch.cpus.as_ref().map(|cpus| cpus.words().to_vec()),
            program,
        })
    }

    fn words(&self) -> Words<'_> {
        let (argv, envp) = (pointers(&self.arguments), pointers(&self.environment));
        let mask = self.mask.as_deref();
        Words { candidates: &self.candidates, argv, envp, has_no_input: self.has_no_input, mask }
    }
}

/// Returns the disposition that SIGCHLD had when cox was started, and sets the default. If the caller of cox ignores
/// SIGCHLD, the kernel reaps children automatically, and their exits would be lost.
fn child_signal() -> libc::sighandler_t {
    // Queried only once: at later calls the disposition is the one set here.
    static INHERITED: OnceLock<libc::sighandler_t> = OnceLock::new();
    // SAFETY: setting a default disposition has no memory effects.
    *INHERITED.get_or_init(|| unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) })
}

/// Runs in the child: sends the errno and exits.
fn fail(status: &OwnedFd, errno: i32) -> ! {
    let bytes = errno.to_ne_bytes();
    // SAFETY: the block makes only system calls, on an open descriptor and on `bytes`; `_exit` does not return.
    unsafe {
        libc::write(status.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

/// Runs in the child: restores the signal dispositions and streams, and execs. Returns the errno.
fn become_program(words: &Words<'_>, signals: &libc::sigset_t, child_signal: libc::sighandler_t) -> i32 {
    let Words { candidates, argv, envp, has_no_input, mask } = words;
    // SAFETY: the block makes only async-signal-safe calls, with valid pointers; `argv` and `envp` end with null
    // pointers.
    unsafe {
        sigpipe::restore();
        if child_signal == libc::SIG_IGN {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        streams::restore();
        if *has_no_input {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            if nothing < 0 {
                return *libc::__errno_location();
            }
            // If cox itself has no standard input, the new descriptor may already be number 0, and no copy is needed.
            if nothing != libc::STDIN_FILENO {
                libc::dup2(nothing, libc::STDIN_FILENO);
                libc::close(nothing);
            }
        }
        if let Some(mask) = mask
            && libc::sched_setaffinity(0, size_of_val(*mask), mask.as_ptr().cast()) != 0
        {
            return *libc::__errno_location();
        }
        libc::sigprocmask(libc::SIG_SETMASK, signals, std::ptr::null_mut());
        let mut worst = libc::ENOENT;
        for candidate in *candidates {
            libc::execve(candidate.as_ptr(), argv.as_ptr(), envp.as_ptr());
            // As in execvp(3): try the rest of PATH, but remember that a file could not be executed for lack of
            // permission.
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = libc::EACCES,
                other => return other,
            }
        }
        worst
    }
}

/// Returns the candidate paths of the program: the name itself if it contains a slash, else the name in each folder of
/// PATH.
fn candidates(program: &OsStr) -> Result<Vec<CString>> {
    if program.as_bytes().contains(&b'/') || program.is_empty() {
        return strings([program].into_iter());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let found: Vec<OsString> = env::split_paths(&path).map(|folder| folder.join(program).into_os_string()).collect();
    strings(found.iter().map(OsString::as_os_str))
}

/// Returns the file that would be executed for `program`; `None` if there is none.
#[must_use]
pub fn file_of(program: &OsStr) -> Option<PathBuf> {
    let found = candidates(program).ok()?.into_iter().map(|path| PathBuf::from(OsStr::from_bytes(path.as_bytes())));
    let mut found = found.filter(|path| path.is_file());
    found.find(|path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
}

fn strings<'a>(all: impl Iterator<Item = &'a OsStr>) -> Result<Vec<CString>> {
    all.map(|s| CString::new(s.as_bytes()).with_context(|| format!("'{}' contains a NUL byte", s.display()))).collect()
}

fn pointers(all: &[CString]) -> Vec<*const libc::c_char> {
    all.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Returns the error for a failed exec.
fn why_not(program: &OsStr, errno: i32) -> LaunchError {
    let name = program.display();
    let path = Path::new(program);
    let has_slash = program.as_bytes().contains(&b'/');
    let (exit_code, why) = match errno {
        libc::ENOENT | libc::ENOTDIR if has_slash && path.exists() => (
            CANNOT_EXECUTE,
            "its interpreter does not exist (named by its #! line, or the dynamic loader of another system)".to_owned(),
        ),
        libc::ENOENT | libc::ENOTDIR if has_slash => (NOT_FOUND, "no such file".to_owned()),
        libc::ENOENT | libc::ENOTDIR => (NOT_FOUND, "not found on PATH".to_owned()),
        libc::EACCES if path.is_dir() => (CANNOT_EXECUTE, "it is a directory".to_owned()),
        libc::EACCES => (CANNOT_EXECUTE, "permission denied (is it executable? chmod +x)".to_owned()),
        libc::ENOEXEC => (
            CANNOT_EXECUTE,
            format!(
                "neither a binary for this machine nor a script with a #! line (for a shell script: cox run -- sh {name})"
            ),
        ),
        other => (CANNOT_EXECUTE, io::Error::from_raw_os_error(other).to_string()),
    };
    LaunchError { program: name.to_string(), why, exit_code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_not_looked_up() {
        assert_eq!(candidates(OsStr::new("./a")).unwrap(), [c"./a".to_owned()]);
    }

    #[test]
    fn a_program_is_a_file_that_can_be_executed() {
        assert_eq!(file_of(OsStr::new("/bin/sh")), Some("/bin/sh".into()));
        assert!(file_of(OsStr::new("sh")).is_some_and(|path| path.ends_with("sh") && path.is_absolute()));
        assert_eq!(file_of(OsStr::new("/bin")), None);
        assert_eq!(file_of(OsStr::new("no-such-program")), None);
    }

    #[test]
    fn a_nul_byte_is_refused() {
        assert!(candidates(OsStr::from_bytes(b"./a\0b")).is_err());
    }

    #[test]
    fn errors_have_the_codes_of_env() {
        assert_eq!(why_not(OsStr::new("nowhere"), libc::ENOENT).exit_code(), 127);
        assert_eq!(why_not(OsStr::new("/"), libc::EACCES).exit_code(), 126);
        assert_eq!(why_not(OsStr::new("./x"), libc::ENOEXEC).exit_code(), 126);
    }
}
