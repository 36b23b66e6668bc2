//! Whether a program can be executed, without letting it begin.
//!
//! 1. A child is forked that asks to be traced (ptrace(2)) and stops.
//! 2. It is told to die with cox, and goes on to its exec.
//! 3. An exec that fails sends its errno and ends the child. One that succeeds stops it once more, before the program's first instruction,
//!    and there it is killed.
//!
//! So the kernel itself says it, of scripts' interpreters, foreign binaries and whatever else may be wrong, and no program is traced that is
//! really run: a set-user-ID program would lose its rights. *Turned down:* asking what kind of file it is (it says little of interpreters and
//! loaders); holding the programs themselves behind their exec.
//!
//! Where nothing may be traced, or cox is traced itself, nothing is said: the exec will tell.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{Prepared, become_program, child_signal, fail, why_not};
use crate::session::Launch;

/// In the place of an errno: the child may not be traced.
const UNTRACED: i32 = 0;

/// See that a program can be executed; `mask` is the signal mask that it shall have.
///
/// # Errors
/// [`super::LaunchError`] when it cannot be.
pub fn rehearse(launch: &Launch, mask: libc::sigset_t) -> Result<()> {
    let prepared = Prepared::new(launch)?;
    let words = prepared.words();
    let (status, status_write) = pipe_with(PipeFlags::CLOEXEC).context("pipe")?;
    let child_signal = child_signal();
    // SAFETY: cox is single-threaded here, and the child only makes async-signal-safe calls until it execs or exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: plain system calls. Should cox be gone already, nobody would let the child go.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 {
                fail(&status_write, UNTRACED);
            }
            libc::raise(libc::SIGSTOP);
        }
        fail(&status_write, become_program(&words, &mask, child_signal));
    }
    let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error).context("fork")?;
    drop(status_write);
    match follow(pid) {
        Ok(()) => why_it_ended(status, &prepared),
        Err(error) => {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(error)
        }
    }
}

/// Through its stops to its end.
fn follow(pid: Pid) -> Result<()> {
    let mut is_held = false;
    loop {
        let Some((_, status)) = waitpid(Some(pid), WaitOptions::UNTRACED).context("waitpid")? else { continue };
        if !status.stopped() {
            return Ok(());
        }
        let has_execed = status.as_raw() >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
        if has_execed {
            kill_process(pid, Signal::KILL).context("kill")?;
            continue;
        }
        // The first stop is its own; later ones are signals on their way to it.
        let signal = if is_held { status.stopping_signal().unwrap_or(0) } else { 0 };
        let raw = pid.as_raw_nonzero().get();
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXEC;
        // SAFETY: a child of ours that is stopped; neither request touches memory.
        let goes_on = unsafe {
            (is_held || libc::ptrace(libc::PTRACE_SETOPTIONS, raw, 0, options) == 0)
                && libc::ptrace(libc::PTRACE_CONT, raw, 0, signal) == 0
        };
        // Killed meanwhile, it is no more there to be told.
        if !goes_on && io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) {
            return Err(io::Error::last_os_error()).context("ptrace");
        }
        is_held = true;
    }
}

/// What the child sent; nothing, if it could be executed.
fn why_it_ended(status: OwnedFd, prepared: &Prepared) -> Result<()> {
    let mut errno = [0; 4];
    match fs::File::from(status).read_exact(&mut errno).map(|()| i32::from_ne_bytes(errno)) {
        Err(_) | Ok(UNTRACED) => Ok(()),
        Ok(errno) => Err(why_not(&prepared.program, errno).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::session::launch_error;

    fn mask() -> libc::sigset_t {
        // SAFETY: plain data, initialised by the call.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::sigemptyset(&raw mut mask);
            mask
        }
    }

    fn code(words: &[&str]) -> Option<i32> {
        let command = words.iter().map(OsString::from).collect();
        let ended = rehearse(&Launch { command, ..Launch::default() }, mask());
        ended.err().map(|error| launch_error(&error).unwrap_or_else(|| panic!("{error:#}")).exit_code())
    }

    #[test]
    fn a_program_that_can_be_executed_does_not_begin() {
        let folder = tempfile::tempdir().unwrap();
        let touched = folder.path().join("touched");
        assert_eq!(code(&["touch", touched.to_str().unwrap()]), None);
        assert!(!touched.exists());
    }

    #[test]
    fn one_that_cannot_has_the_code_of_env() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path.into_os_string().into_string().unwrap()
        };
        assert_eq!(code(&["no-such-program"]), Some(127));
        assert_eq!(code(&["/no/such/program"]), Some(127));
        assert_eq!(code(&["/"]), Some(126));
        assert_eq!(code(&[&file("script", b"#!/no/such/interpreter\n")]), Some(126));
        assert_eq!(code(&[&file("foreign", b"\x7fELF\x01\x02 and nothing else")]), Some(126));
    }
}
