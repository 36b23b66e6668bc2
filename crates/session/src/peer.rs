//! The process at the other end of a socket, as recorded by the kernel (SO_PEERCRED, unix(7)).
//!
//! rustix's `socket_peercred` is not used: its process id cannot be 0, but the kernel returns 0 for a process in a PID
//! namespace that this one does not contain.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::Uid;

/// The process that connected, listened or created the socket pair, recorded at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user id; the overflow user (65534) if this user namespace does not map the user.
    pub uid: Uid,
    /// Process id in this PID namespace; `None` if the process has none here.
    pub process: Option<u32>,
}

impl Peer {
    /// Reads the peer of a socket.
    ///
    /// # Errors
    /// When `socket` is not a socket of family AF_UNIX.
    pub fn of(socket: impl AsFd) -> io::Result<Peer> {
        let mut noted = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of_val(&noted) as libc::socklen_t;
        let socket = socket.as_fd().as_raw_fd();
        let into = (&raw mut noted).cast();
        // SAFETY: the descriptor is open. The kernel writes at most `length` bytes to `noted`, and every bit pattern is
        // a valid `ucred`.
        let got = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut length) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        // A socket of another family may have no peer; the user id is then -1.
        if noted.uid == u32::MAX {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let process = u32::try_from(noted.pid).ok().filter(|pid| *pid > 0);
        Ok(Peer { uid: Uid::from_raw(noted.uid), process })
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn who_made_it_is_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(Peer::of(&one).unwrap(), Peer { uid: geteuid(), process: Some(std::process::id()) });
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(Peer::of(&nobody).is_err(), "it has no peer");
        assert!(Peer::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
