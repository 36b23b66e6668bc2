//! The guardian: a process that puts everything back when the session is killed.
//!
//! 1. The session starts it with a pipe as its standard input, the lifeline, of which only the session
//!    has the other end (close-on-exec: no program that cox starts keeps it open).
//! 2. It leaves the session's process group and terminal, so that what kills those spares it, ignores
//!    the signals that a terminal or a shell sends, takes the lowest real-time priority if it may, else the shortest
//!    slice, so that it need not wait for the program's threads, and says so with one byte. Only then does the
//!    session change anything.
//! 3. It reads the lifeline. That ends when the session ends, however it does.
//! 4. It settles the journal, if there still is one, and ends.
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

/// The lowest: other real-time threads of the machine have their reasons.
const PRIORITY: u32 = 1;

/// The session's end of the guardian. Dropping it cuts the lifeline and waits for the guardian's end.
#[derive(Debug)]
pub struct Guardian {
    process: Child,
}

impl Guardian {
    /// Start `command`, which is to call [`guard`], and wait until it is on its post.
    ///
    /// # Errors
    /// When it does not start or ends before it is ready.
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
        // It ends by itself; that it cannot be waited for means that it has ended.
        let _ = self.process.wait();
    }
}

/// What the guardian's process does: wait until standard input ends, then settle the journal.
///
/// # Errors
/// When the journal cannot be settled; it is left for the next session or `cox changes undo`.
pub fn guard(knob_io: &dyn KnobIo, journal: &Path) -> Result<Undone, Error> {
    let failed = |source| Error::Journal { path: journal.to_owned(), source };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTSTP] {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // However many threads of the program want to run: they come after it, and it sleeps until it is needed. Without
    // the right to that a short slice brings its turn soon.
    let _ = become_punctual(PRIORITY);
    let folder = journal.parent().unwrap_or(Path::new("/"));
    let mut out = io::stdout();
    match out.write_all(b"!").and_then(|()| out.flush()) {
        // The session was killed before it heard, so before it changed anything.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Undone::default()),
        said => said.map_err(failed)?,
    }
    // Nobody ever writes to it.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    let journals = JournalFolder::at(folder);
    let lock = journals.lock()?;
    journals.settle(&lock, knob_io, journal)
}
