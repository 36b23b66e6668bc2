//! The guardian: a process that restores everything if the session is killed.
//!
//! 1. The session starts the guardian with a pipe as its standard input, the *lifeline*. Only the session has the
//!    other end (close-on-exec: no program that cox starts keeps it open).
//! 2. The guardian must survive when the session is killed. So it leaves the session's process group and terminal, and ignores the signals that a
//!    terminal or a shell sends. It takes the lowest real-time priority, or else the shortest slice, so that it need not wait for the program's
//!    threads. It then writes one byte to report that it is ready. The session changes nothing before that.
//! 3. The guardian reads the lifeline, which ends when the session's process ends for any reason.
//! 4. If the journal still exists, and does not say that the changes last, the guardian settles it (restores its changes and removes it). Then the guardian ends.
#![allow(unsafe_code, reason = "pre_exec, and ignoring signals")]

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::Error;
use crate::journals::JournalFolder;
use crate::knob_io::KnobIo;
use crate::realtime::become_punctual;
use crate::undo::Undone;

/// The lowest real-time priority, because other real-time threads of the machine matter more.
const PRIORITY: u32 = 1;

/// The session's handle of the guardian. Dropping it closes the pipe from which the guardian reads (its *lifeline*),
/// and waits until the guardian has ended.
#[derive(Debug)]
pub struct Guardian {
    process: Child,
}

impl Guardian {
    /// Starts the guardian of the journal at this path: a second process of this program, `cox changes guard JOURNAL`,
    /// which must call [`guard`]. It does not inherit the environment variables `unset`, which are for one process only.
    ///
    /// # Errors
    /// As [`Guardian::post`].
    pub fn of_this_program(journal: &Path, unset: &[&str]) -> Result<Guardian, Error> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["changes", "guard"]).arg(journal);
        unset.iter().for_each(|variable| _ = command.env_remove(variable));
        Guardian::post(command).map_err(|source| Error::Journal { path: journal.to_owned(), source })
    }

    /// Starts `command`, which must call [`guard`], and waits until the guardian is ready.
    ///
    /// # Errors
    /// Fails if the guardian does not start, or ends before it is ready.
    pub fn post(mut command: Command) -> io::Result<Guardian> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: setsid is async-signal-safe, and touches nothing of the parent's memory.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            });
        }
        let mut process = command.spawn()?;
        let mut ready = [0];
        let said = match process.stdout.take() {
            Some(mut said) => said.read_exact(&mut ready),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let guardian = Guardian { process };
        said.map_err(|_| io::Error::other("the guardian ended before it was ready"))?;
        Ok(guardian)
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // The guardian ends by itself. An error means that it has ended already.
        let _ = self.process.wait();
    }
}

/// The main function of the guardian's process: waits until standard input ends, then restores the changes in the
/// journal and removes it.
///
/// # Errors
/// Fails if the changes cannot be restored or the journal cannot be removed. The journal then stays for the
/// next session or `cox changes undo`.
pub fn guard(knob_io: &dyn KnobIo, journal: &Path) -> Result<Undone, Error> {
    let failed = |source| Error::Journal { path: journal.to_owned(), source };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTSTP] {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // The priority lets the guardian run before all threads of the program; it sleeps until it is needed. Without the
    // privilege, a short slice makes it run soon.
    let _ = become_punctual(PRIORITY);
    let folder = journal.parent().unwrap_or(Path::new("/"));
    let mut out = io::stdout();
    match out.write_all(b"!").and_then(|()| out.flush()) {
        // The session was killed before it read the byte that says that the guardian is ready. So it has changed
        // nothing.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Undone::default()),
        said => said.map_err(failed)?,
    }
    // The session never writes to this pipe (the lifeline). So the copy ends when the session's end of the pipe is
    // closed: the session has ended.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    let journals = JournalFolder::at(folder);
    let lock = journals.lock()?;
    let listing = journals.look(knob_io)?;
    if listing.entries.iter().any(|entry| entry.path == journal && entry.lasts()) {
        return Ok(Undone::default());
    }
    journals.settle(&lock, knob_io, journal)
}
