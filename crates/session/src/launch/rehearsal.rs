//! Checks whether a program can be executed, without running any of its instructions.
//!
//! 1. cox forks a child, which asks to be traced (ptrace(2)) and stops.
//! 2. cox sets the child to die with cox, and lets it continue to its exec.
//! 3. If the exec fails, the child sends the errno and exits. If it succeeds, the child stops again before the
//!    program's first instruction, and cox kills it. If the exec fails after the old program is gone, the kernel ends
//!    the child by a signal.
//!
//! Thus the kernel itself decides whether the program can be executed; it also checks script interpreters, foreign
//! binaries and other reasons for failure. The programs that really run are never traced, because tracing takes away
//! the rights of a set-user-ID program.
//!
//! *Rejected alternatives:* to examine the type of the file, which says little about interpreters and loaders; and to
//! hold the programs themselves after their exec.
//!
//! If tracing is forbidden, or cox itself is traced, the result is unknown until the program's own exec.

use std::ffi::c_void;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::ptr;

use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use super::{CANNOT_EXECUTE, LaunchError, Prepared, become_program, child_signal, fail, why_not};
use crate::target::Launch;

/// The child sends this value instead of an errno if it may not be traced.
const UNTRACED: i32 = 0;

/// Signals with which users and job managers end programs. The kernel does not use them to end a failed exec.
const FROM_OUTSIDE: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Result of a check that found no reason why the program cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rehearsed {
    /// The kernel has executed the program.
    Can,
    /// Whether the program can be executed is unknown, for this reason.
    Unknown(String),
}

/// How the child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Killed by cox after its exec.
    Execed,
    /// The child exited by itself, normally after it had sent the errno of its failed exec, or [`UNTRACED`].
    Exited,
    /// Killed before or during the exec, by this signal, which cox did not send.
    Killed(i32),
    /// Killed by cox, because the child could not be traced.
    Untraced,
}

/// Checks whether a program can be executed. `mask` is the signal mask of the program.
///
/// # Errors
/// [`LaunchError`] when the program cannot be executed.
pub fn rehearse(launch: &Launch, mask: libc::sigset_t) -> Result<Rehearsed> {
    let prepared = Prepared::new(launch)?;
    let words = prepared.words();
    let (status, status_write) = pipe_with(PipeFlags::CLOEXEC).context("pipe")?;
    let child_signal = child_signal();
    let cox = getpid().as_raw_nonzero().get();
    // SAFETY: cox is single-threaded here, and the child only makes async-signal-safe calls until it execs or exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: the block makes only system calls. The parent is checked because cox may have died before the prctl;
        // then no signal would end the child.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != cox {
                libc::_exit(125);
            }
            let nothing = ptr::null_mut::<c_void>();
            if libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) < 0 {
                fail(&status_write, UNTRACED);
            }
            libc::raise(libc::SIGSTOP);
        }
        fail(&status_write, become_program(&words, &mask, child_signal));
    }
    let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error).context("fork")?;
    drop(status_write);
    match follow(pid) {
        Ok(end) => known(end, status, &prepared),
        Err(error) => {
            end(pid);
            Err(error)
        }
    }
}

/// Follows the child through its stops to its end.
fn follow(pid: Pid) -> Result<End> {
    let (mut is_held, mut has_execed) = (false, false);
    loop {
        let Some((_, status)) = waitpid(Some(pid), WaitOptions::UNTRACED).context("waitpid")? else { continue };
        if !status.stopped() {
            return Ok(match status.terminating_signal() {
                _ if has_execed => End::Execed,
                Some(signal) if is_held => End::Killed(signal),
                // A seccomp filter may kill a process that asks to be traced.
                Some(_) => End::Untraced,
                None => End::Exited,
            });
        }
        has_execed |= status.as_raw() >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
        if has_execed {
            kill_process(pid, Signal::KILL).context("kill")?;
            continue;
        }
        // The child caused the first stop itself. Later stops are signals to be delivered to the child.
        let signal = if is_held { status.stopping_signal().unwrap_or(0) } else { 0 };
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXEC;
        let is_told = (is_held || tell(pid, libc::PTRACE_SETOPTIONS, options)) && tell(pid, libc::PTRACE_CONT, signal);
        // ESRCH: the child has been killed meanwhile.
        if !is_told && io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) {
            end(pid);
            return Ok(End::Untraced);
        }
        is_held = true;
    }
}

/// Makes a ptrace(2) request that accesses no memory. Returns whether it succeeded; if not, errno has the reason.
fn tell(pid: Pid, request: libc::c_uint, data: i32) -> bool {
    // The kernel reads both arguments as full registers.
    let (address, data) = (ptr::null_mut::<c_void>(), data as usize as *mut c_void);
    // SAFETY: `pid` is a stopped child of this process, and the kernel follows neither argument as a pointer.
    unsafe { libc::ptrace(request, pid.as_raw_nonzero().get(), address, data) == 0 }
}

/// Kills and reaps the child, so that none is left behind.
fn end(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// Derives the result from the child's end and from the errno it sent.
fn known(end: End, status: OwnedFd, prepared: &Prepared) -> Result<Rehearsed> {
    let name = prepared.program.display();
    let unknown = |why: &str| Ok(Rehearsed::Unknown(format!("'{name}' {why}")));
    let untraced = "may not be traced by cox (ptrace)";
    let mut errno = [0; 4];
    match (end, fs::File::from(status).read_exact(&mut errno).map(|()| i32::from_ne_bytes(errno))) {
        (End::Execed, _) => Ok(Rehearsed::Can),
        (End::Untraced, _) | (End::Exited, Ok(UNTRACED)) => unknown(untraced),
        // A security module may refuse an exec that changes the security domain only because the process is traced. So
        // this error does not show whether the program can be executed without tracing.
        (End::Exited, Ok(libc::EPERM)) => unknown("is not permitted to run while cox traces it"),
        (End::Exited, Ok(errno)) => Err(why_not(&prepared.program, errno).into()),
        (End::Exited, Err(_)) => unknown("ended before its exec without reporting an error"),
        (End::Killed(signal), _) if FROM_OUTSIDE.contains(&signal) => unknown("was killed from outside"),
        (End::Killed(signal), _) => {
            let why = format!(
                "the kernel ended its exec by signal {signal} (is the file complete? are the resource limits too low?)"
            );
            Err(LaunchError { program: name.to_string(), why, exit_code: CANNOT_EXECUTE }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use testkit::skip::{Need, has};

    use super::*;
    use crate::launch_error;

    fn mask() -> libc::sigset_t {
        // SAFETY: plain data, initialised by the call.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::sigemptyset(&raw mut mask);
            mask
        }
    }

    fn rehearsed(words: &[&str]) -> Result<Rehearsed> {
        let command = words.iter().map(OsString::from).collect();
        rehearse(&Launch { command, ..Launch::default() }, mask())
    }

    fn code(words: &[&str]) -> Option<i32> {
        let ended = rehearsed(words);
        ended.err().map(|error| launch_error(&error).unwrap_or_else(|| panic!("{error:#}")).exit_code())
    }

    /// Whether children may ask to be traced here; if not, says that `test` is skipped.
    fn can_trace(test: &str) -> bool {
        let nothing = ptr::null_mut::<c_void>();
        // SAFETY: the child only makes system calls.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: the child only makes system calls, which follow none of these pointers.
            unsafe { libc::_exit(libc::c_int::from(libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) < 0)) }
        }
        let ended = waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap().unwrap().1;
        has(ended.exit_status() == Some(0), test, Need::Namespaces, "needs ptrace")
    }

    fn executable(path: &Path, bytes: &[u8]) -> String {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_program_that_can_be_executed_does_not_begin() {
        if !can_trace("a_program_that_can_be_executed_does_not_begin") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let touched = folder.path().join("touched");
        assert_eq!(rehearsed(&["touch", touched.to_str().unwrap()]).unwrap(), Rehearsed::Can);
        assert!(!touched.exists());
    }

    #[test]
    fn one_that_cannot_has_the_code_of_env() {
        if !can_trace("one_that_cannot_has_the_code_of_env") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| executable(&folder.path().join(name), text);
        assert_eq!(code(&["no-such-program"]), Some(127));
        assert_eq!(code(&["/no/such/program"]), Some(127));
        assert_eq!(code(&["/"]), Some(126));
        assert_eq!(code(&[&file("script", b"#!/no/such/interpreter\n")]), Some(126));
        assert_eq!(code(&[&file("foreign", b"\x7fELF\x01\x02 and nothing else")]), Some(126));
    }

    #[test]
    fn one_that_dies_in_its_exec_cannot_be_executed() {
        if !can_trace("one_that_dies_in_its_exec_cannot_be_executed") {
            return;
        }
        // A segment that is longer in the file than in memory is found when the old program is gone.
        let mut program = fs::read("/bin/true").unwrap();
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (table, size, count) = (number(&program[32..40]), number(&program[54..56]), number(&program[56..58]));
        for header in (0..count).map(|at| table + at * size) {
            if number(&program[header..header + 4]) == 1 {
                program[header + 40..header + 48].fill(0);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let name = executable(&folder.path().join("damaged"), &program);
        let error = rehearsed(&[&name]).unwrap_err();
        assert_eq!(launch_error(&error).map(LaunchError::exit_code), Some(126));
        assert!(error.to_string().contains("the kernel ended its exec by signal"), "{error}");
    }

    #[test]
    fn what_says_nothing_of_the_program_is_no_refusal() {
        let launch = Launch { command: vec!["prog".into()], ..Launch::default() };
        let prepared = Prepared::new(&launch).unwrap();
        let known = |end: End, sent: Option<i32>| {
            let (status, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            if let Some(errno) = sent {
                fs::File::from(write).write_all(&errno.to_ne_bytes()).unwrap();
            } else {
                drop(write);
            }
            known(end, status, &prepared)
        };
        for (end, sent) in [
            (End::Untraced, None),
            (End::Exited, Some(UNTRACED)),
            (End::Exited, Some(libc::EPERM)),
            (End::Exited, None),
            (End::Killed(libc::SIGINT), None),
        ] {
            let said = known(end, sent).unwrap();
            assert!(matches!(&said, Rehearsed::Unknown(why) if why.starts_with("'prog' ")), "{end:?}: {said:?}");
        }
        assert_eq!(known(End::Execed, None).unwrap(), Rehearsed::Can);
        assert!(known(End::Exited, Some(libc::EACCES)).is_err() && known(End::Killed(libc::SIGSEGV), None).is_err());
    }
}
