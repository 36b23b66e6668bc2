//! Standard output and standard error of each ULP, as pipes of its own: another process reads them, and can tell whose a line is.
//!
//! A new process has copies of the host's descriptors. So the host has a ULP's pipes as its own outputs while it starts it. The ends to be read go to the
//! reader before that, so that no ULP has them.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, connect, sendmsg,
    socket,
};
use rustix::pipe::pipe;
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdout};

/// How often, and after which time, a message is sent again that the reader must make room for.
const TRIES: usize = 2000;
const PAUSE: Duration = Duration::from_millis(1);

/// The reader of all outputs.
#[derive(Debug)]
pub(super) struct Outputs {
    reader: OwnedFd,
    /// The host's outputs.
    of_host: [OwnedFd; 2],
}

impl Outputs {
    /// Connects to the reader's socket (SOCK_SEQPACKET). For each ULP it gets a message: the number, four bytes, lowest first, and the two descriptors.
    ///
    /// # Errors
    /// When it does not listen, or the host has no outputs.
    pub fn of(path: &Path) -> io::Result<Outputs> {
        let reader = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        connect(&reader, &SocketAddrUnix::new(path)?)?;
        // Behind the descriptors that a shell can name.
        Ok(Outputs { reader, of_host: [fcntl_dupfd_cloexec(stdout(), 10)?, fcntl_dupfd_cloexec(stderr(), 10)?] })
    }

    /// Returns the descriptors that no program may inherit.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        std::iter::once(&self.reader).chain(&self.of_host).map(AsRawFd::as_raw_fd)
    }

    /// Makes pipes for a ULP, and makes them this process's outputs while the returned value exists.
    ///
    /// # Errors
    /// When there are too many descriptors, or the reader is gone.
    pub fn give(&self, number: usize) -> io::Result<Given<'_>> {
        let ((out, to_out), (err, to_err)) = (pipe()?, pipe()?);
        self.send(number, &[out, err])?;
        let given = Given(self);
        dup2_stdout(&to_out)?;
        dup2_stderr(&to_err)?;
        Ok(given)
    }

    fn send(&self, number: usize, ends: &[OwnedFd; 2]) -> io::Result<()> {
        let ends = ends.each_ref().map(AsFd::as_fd);
        for _ in 0..TRIES {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&ends));
            let bytes = (number as u32).to_le_bytes();
            match sendmsg(&self.reader, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                // The user may have only so many descriptors in messages.
                Err(Errno::TOOMANYREFS) => sleep(PAUSE),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::TOOMANYREFS.into())
    }
}

/// While this value exists, the host's outputs are those of a ULP.
pub(super) struct Given<'a>(&'a Outputs);

impl Drop for Given<'_> {
    fn drop(&mut self) {
        // These descriptors exist, so that it cannot fail.
        let _ = dup2_stdout(&self.0.of_host[0]);
        let _ = dup2_stderr(&self.0.of_host[1]);
    }
}
