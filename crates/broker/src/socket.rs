//! Messages over a socket pair.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};

use crate::protocol::MAX_DESCRIPTORS;

/// Creates a connected pair of sockets. Both are closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message. Blocks while the reader is slow.
pub fn send_message(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    send_with(socket, message, &[])
}

/// Sends one message with copies of descriptors. Blocks while the reader is slow.
pub fn send_with(socket: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match sendmsg(&socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == message.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message into `buffer`. Accepts no descriptors: the kernel closes any that were sent. Returns `None` if
/// the other end is closed. A message that does not fit is an error.
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
        // Length 0 is end of file: no side sends an empty message.
        0 => Ok(None),
        length => buffer.get(..length).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// Same as [`receive`], but appends the descriptors of the message to `descriptors`.
pub fn receive_with<'b>(
    socket: impl AsFd,
    buffer: &'b mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Option<&'b [u8]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let (length, flags) = loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        descriptors.extend(rights);
                    }
                }
                break (received.bytes, received.flags);
            }
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    if flags.contains(ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // The kernel drops descriptors if the process has reached its limit (ulimit -n).
    if flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    Ok((length > 0).then(|| &buffer[..length]))
}

/// Returns whether a message has arrived or the other end is closed. Waits up to `seconds`.
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
        let mut got = Vec::new();
        send_with(&one, b"2", &[one.as_fd(), other.as_fd()]).unwrap();
        assert_eq!(receive_with(&other, &mut buffer, &mut got).unwrap(), Some(&b"2"[..]));
        assert_eq!(got.len(), 2);
        drop(got);
        send_message(&one, b"123456789").unwrap();
        assert!(receive_with(&other, &mut buffer, &mut Vec::new()).is_err(), "it does not fit");
        drop(one);
        assert!(is_readable_within(&other, 0).unwrap());
        assert_eq!(receive(&other, &mut buffer).unwrap(), None);
    }
}
