//! Limits the number of simultaneous sessions of one user and their total kernel memory.
//!
//! Each session is a socket of the user with an abstract name. The name begins with `coxswain-observe/` and contains
//! the session's memory size. The kernel lists all such sockets with their owners (sock_diag(7)) and frees them when
//! the process ends in any way. Only sockets that the kernel lists for this user are counted, so a socket of another
//! user with such a name counts only for that user.
//!
//! 1. Bind an unused name. From now on other processes count this session.
//! 2. Count all sessions. If the limits allow this session, listen on the socket, which marks the session as accepted.
//!    If several sessions are begun at the same time, the last of them counts all others, so that the accepted sessions
//!    together never exceed the limits.
//! 3. If the limits do not allow this session, release the name. If the accepted sessions alone leave no room, the
//!    session is refused. Otherwise other sessions are in step 2, too, and this session tries again after a moment.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, recv, send, socket_with,
};

/// Maximum number of sessions of one user.
pub const MAX_SESSIONS: usize = 16;
/// Maximum memory of all sessions of one user, MiB.
pub const MAX_MEMORY_MIB: u32 = 512;

const PREFIX: &str = "coxswain-observe/";
/// How long to retry while other sessions are being started.
const PATIENCE: Duration = Duration::from_secs(3);

/// A session that counts towards its user's limits, until this value is dropped.
#[derive(Debug)]
pub struct Session {
    _socket: OwnedFd,
}

/// A session's socket, as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    mib: u32,
    is_held: bool,
}

impl Session {
    /// Registers a session of user `uid` that uses `mib` MiB of kernel memory.
    ///
    /// # Errors
    /// Names the limit that is reached, or the reason why sessions cannot be counted.
    pub fn begin(uid: u32, mib: u32) -> Result<Session, String> {
        let failed = |error: io::Error| format!("cannot count this user's sessions (CONFIG_UNIX_DIAG): {error}");
        let begun = Instant::now();
        loop {
            let socket = bind_some_name(mib).map_err(failed)?;
            let all = list(uid).map_err(failed)?;
            let Err(refusal) = fits(&all) else {
                listen(&socket, 0).map_err(|error| failed(error.into()))?;
                return Ok(Session { _socket: socket });
            };
            let held: Vec<Listed> =
                all.into_iter().filter(|listed| listed.is_held).chain([Listed { mib, is_held: false }]).collect();
            if fits(&held).is_err() || begun.elapsed() > PATIENCE {
                return Err(refusal);
            }
            drop(socket);
            // Random delay, so that competing sessions do not retry at the same time.
            std::thread::sleep(Duration::from_micros(1000 + arch::monotonic_ns() % 40_000));
        }
    }
}

/// Checks that the sessions are within the limits.
fn fits(all: &[Listed]) -> Result<(), String> {
    let mib = all.iter().fold(0u32, |sum, listed| sum.saturating_add(listed.mib));
    if all.len() > MAX_SESSIONS {
        return Err(format!("this user has {MAX_SESSIONS} sessions already, the limit of cox-observe"));
    }
    if mib > MAX_MEMORY_MIB {
        return Err(format!(
            "this user's sessions would take {mib} MiB of kernel memory, but cox-observe allows at most {MAX_MEMORY_MIB} MiB (sessions without --latency and with a smaller --trace-buffer take less)"
        ));
    }
    Ok(())
}

/// Returns a socket bound to an unused name that contains `mib`.
fn bind_some_name(mib: u32) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    loop {
        let name = format!("{PREFIX}{mib}/{}.{}", std::process::id(), arch::monotonic_ns());
        match bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?) {
            // Another socket has this name.
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
            Ok(()) => return Ok(socket),
        }
    }
}

/// Returns the memory size in the name of a session's socket, MiB; 0 if the size cannot be parsed, so that the session
/// still counts. `None` if the socket is not a session.
fn mib_of(name: &[u8]) -> Option<u32> {
    let text = name.strip_prefix(b"\0")?.strip_prefix(PREFIX.as_bytes())?;
    let digits = text.split(|byte| *byte == b'/').next()?;
    Some(std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

/// Returns the sessions of a user, from the kernel's list of all AF_UNIX sockets of this network namespace.
fn list(uid: u32) -> io::Result<Vec<Listed>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    send(&socket, &question(), SendFlags::empty())?;
    let mut all = Vec::new();
    let mut buffer = [0; 32 << 10];
    loop {
        let (received, _) = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Err(Errno::INTR) => continue,
            received => received?,
        };
        if !take_answer(&buffer[..received], uid, &mut all)? {
            return Ok(all);
        }
    }
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const HEADER: usize = 16;
/// Size of struct unix_diag_msg, bytes.
const DIAG: usize = 16;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_UID: u16 = 7;
const TCP_LISTEN: u8 = 10;

/// Builds the request for all AF_UNIX sockets in any state, with names and owners: struct nlmsghdr, struct
/// unix_diag_req.
fn question() -> [u8; HEADER + 24] {
    const SHOW_NAME_AND_UID: u32 = 0x01 | 0x40;
    let mut bytes = [0; HEADER + 24];
    bytes[0..4].copy_from_slice(&(HEADER as u32 + 24).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes[HEADER] = libc::AF_UNIX as u8;
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&u32::MAX.to_ne_bytes());
    bytes[HEADER + 12..HEADER + 16].copy_from_slice(&SHOW_NAME_AND_UID.to_ne_bytes());
    bytes
}

fn number<T: bytemuck::AnyBitPattern>(bytes: &[u8], at: usize) -> Option<T> {
    bytes.get(at..at + size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

/// Appends the sessions of user `uid` in one part of the kernel's answer to `all`. Returns whether more parts follow.
fn take_answer(mut bytes: &[u8], uid: u32, all: &mut Vec<Listed>) -> io::Result<bool> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    while !bytes.is_empty() {
        let length = number::<u32>(bytes, 0).ok_or_else(damaged)? as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER).ok_or_else(damaged)?;
        match number::<u16>(message, 4).ok_or_else(damaged)? {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let errno = number::<i32>(message, HEADER).ok_or_else(damaged)?;
                return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
            }
            SOCK_DIAG_BY_FAMILY => all.extend(session_in(&message[HEADER..], uid)),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Returns the session of one listed socket; `None` if it is not a session of this user.
fn session_in(socket: &[u8], uid: u32) -> Option<Listed> {
    let is_held = *socket.get(2)? == TCP_LISTEN;
    let (mut name, mut owner) = (None, None);
    let mut attributes = socket.get(DIAG..)?;
    while let (Some(length), Some(kind)) = (number::<u16>(attributes, 0), number::<u16>(attributes, 2)) {
        let value = attributes.get(4..usize::from(length))?;
        match kind {
            UNIX_DIAG_NAME => name = mib_of(value),
            UNIX_DIAG_UID => owner = number::<u32>(value, 0),
            _ => {}
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    (owner? == uid).then_some(Listed { mib: name?, is_held })
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    #[test]
    fn sessions_are_listed_with_their_owner_and_memory() {
        let uid = rustix::process::getuid().as_raw();
        let before = list(uid).unwrap();
        let session = Session::begin(uid, 7).unwrap();
        let tried = bind_some_name(9).unwrap();
        let now = list(uid).unwrap();
        assert_eq!(now.len(), before.len() + 2, "{now:?}");
        assert!(now.contains(&Listed { mib: 7, is_held: true }) && now.contains(&Listed { mib: 9, is_held: false }));
        assert_eq!(list(uid + 1).unwrap(), [], "they are not another user's");
        drop((session, tried));
        assert_eq!(list(uid).unwrap(), before);
    }

    #[test]
    fn limits_are_named() {
        let sessions = |count, mib| vec![Listed { mib, is_held: true }; count];
        assert_eq!(fits(&sessions(MAX_SESSIONS, 32)), Ok(()));
        assert!(fits(&sessions(MAX_SESSIONS + 1, 1)).unwrap_err().contains("16 sessions"));
        assert!(fits(&sessions(2, MAX_MEMORY_MIB / 2 + 1)).unwrap_err().contains("514 MiB"));
        assert!(fits(&sessions(2, u32::MAX)).is_err());
    }

    /// One socket of the list: struct nlmsghdr, struct unix_diag_msg, attributes.
    fn socket(name: &[u8], uid: u32) -> Vec<u8> {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let mut body = vec![1, 1, TCP_LISTEN, 0];
        body.resize(DIAG, 0);
        body.extend(attribute(UNIX_DIAG_NAME, name));
        body.extend(attribute(UNIX_DIAG_UID, &uid.to_ne_bytes()));
        let mut bytes = (HEADER as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn names_of_other_users_do_not_count() {
        let name = b"\0coxswain-observe/24/1.2".as_slice();
        let answer =
            [socket(name, 5), socket(name, 6), socket(b"/run/x", 5), socket(b"\0coxswain-observe/x", 5)].concat();
        let mut all = Vec::new();
        assert!(take_answer(&answer, 5, &mut all).unwrap());
        assert_eq!(all, [Listed { mib: 24, is_held: true }, Listed { mib: 0, is_held: true }]);
    }

    #[test]
    fn damaged_lists_are_refused_or_listed() {
        let answer = [socket(b"\0coxswain-observe/24/1.2", 5), socket(b"/run/x", 5), socket(b"", 7)].concat();
        for number in 0..testkit::times(100_000) {
            let mut bytes = answer.clone();
            testkit::bytes::change(&mut bytes, &mut Random::new(number));
            let mut all = Vec::new();
            let _ = take_answer(&bytes, 5, &mut all);
            assert!(all.len() <= bytes.len() / HEADER);
        }
    }
}
