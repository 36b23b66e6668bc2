//! Packets over a socket pair.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// Two ends; neither survives an exec by itself.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message, and waits while the reader is slow.
pub fn send_message(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    loop {
        match send(&socket, message, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == message.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message into `buffer`. `None`: the other end is closed. One that does not fit is an error.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<&[u8]>> {
    let (_, length) = loop {
        match recv(&socket, &mut *buffer, RecvFlags::TRUNC) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    match length {
        // Nobody sends an empty message.
        0 => Ok(None),
        length => buffer.get(..length).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// Whether there is something to receive, or the other end is closed, within so many seconds.
pub fn is_readable_within(socket: impl AsFd, seconds: i64) -> io::Result<bool> {
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_or_not_at_all() {
        let (one, other) = pair().unwrap();
        let mut buffer = [0; 8];
        send_message(&one, b"12345678").unwrap();
        send_message(&one, b"123456789").unwrap();
        send_message(&one, b"1").unwrap();
        assert_eq!(receive(&other, &mut buffer).unwrap(), Some(&b"12345678"[..]));
        assert!(receive(&other, &mut buffer).is_err(), "it does not fit");
        assert_eq!(receive(&other, &mut buffer).unwrap(), Some(&b"1"[..]));
        assert!(!is_readable_within(&other, 0).unwrap());
        drop(one);
        assert!(is_readable_within(&other, 0).unwrap());
        assert_eq!(receive(&other, &mut buffer).unwrap(), None);
    }
}
