//! Connects a program to its session: gets the pages and doorbells from the session's socket, whose path cox leaves in the environment.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use wire::umt::{BELLS, CPU_WORDS, Hello, How, KernelPage, MAGIC, ProgramPage, VERSION, Welcome, bytes_of};

use crate::bell::{Bell, map};
use crate::descriptors::{ROOM, out_of_the_way, owned};
use crate::{records, shared, wait_set};

/// Maximum number of file descriptors in the session's answer: one for each of the two shared pages and, if BPF rings the doorbells, one for each
/// doorbell's ring buffer.
const DESCRIPTORS: usize = 2 + BELLS;

const _: () = assert!(ROOM as usize > 1 + DESCRIPTORS + BELLS);

/// What a session gives to a process that has connected.
#[derive(Debug)]
pub struct Session {
    /// The socket; its other end is closed when the session is over.
    pub socket: OwnedFd,
    /// The doorbells at which standbys park.
    pub bells: Vec<Bell>,
    /// How blocked threads are noticed: this process may need a [sentinel](crate::sentinel) on each CPU, or a [leader](crate::leader).
    pub how: How,
}

/// Connects to the session at `path`, which has issued `nonce`. Afterwards threads can [enlist](crate::enlist).
///
/// # Errors
/// If no session listens there, or if it speaks another version of the protocol.
pub fn connect(path: &[u8], nonce: [u8; 16]) -> io::Result<Session> {
    let socket = dial(path)?;
    let hello = Hello { magic: MAGIC, version: VERSION, pad: 0, nonce };
    let bytes = bytes_of(&hello);
    // SAFETY: sends as many bytes as `bytes` has.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    if sent != size_of::<Hello>() as isize {
        return Err(io::Error::last_os_error());
    }
    let (welcome, descriptors) = receive(&socket)?;
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "the answer has another protocol version");
    if welcome.magic != MAGIC || welcome.version != VERSION {
        return Err(strange());
    }
    let descriptors: Vec<OwnedFd> = descriptors.into_iter().map(out_of_the_way).collect::<io::Result<_>>()?;
    let mut descriptors = descriptors.into_iter();
    let (Some(program_fd), Some(kernel_fd)) = (descriptors.next(), descriptors.next()) else {
        return Err(strange());
    };
    let unmapped = io::Error::last_os_error;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let program_mapping = map(&program_fd, 0, size_of::<ProgramPage>(), both).ok_or_else(unmapped)?;
    let how = How::from_number(welcome.how);
    // With BPF the kernel alone writes this page, and the descriptor allows only reading.
    let access = if how == How::Bpf { libc::PROT_READ } else { both };
    let kernel_mapping = map(&kernel_fd, 0, size_of::<KernelPage>(), access).ok_or_else(unmapped)?;
    // SAFETY: both mappings have the size and alignment of these types, and are never unmapped. All words of the types are atomics.
    let (program_page, kernel_page) =
        unsafe { (program_mapping.cast::<ProgramPage>().as_ref(), kernel_mapping.cast::<KernelPage>().as_ref()) };
    // If the threads' logs wake standbys, only one standby watches the logs. With two, standby A takes a thread's CPU in order to look for work. The
    // thread's log wakes standby B, which takes a CPU, too, and so wakes A again: 8000 times a second, without effect.
    let count = if how == How::Records { 1 } else { BELLS };
    let rings = descriptors.map(Some).chain(std::iter::repeat_with(|| None)).take(count);
    let bells: Vec<Bell> = rings.enumerate().map_while(|(number, ring)| Bell::new(number as u32, ring)).collect();
    if bells.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let socket = out_of_the_way(socket)?;
    say_cpus(program_page);
    program_page.version.store(VERSION, Ordering::Release);
    if how.has_logs() {
        records::begin().and_then(|()| wait_set::begin(socket.as_raw_fd())).ok_or_else(unmapped)?;
    }
    shared::begin(program_page, kernel_page, how);
    Ok(Session { socket, bells, how })
}

/// Writes into the program page which CPUs this process may use, so that the session can read them there.
fn say_cpus(program_page: &ProgramPage) {
    let mut mask = [0u64; CPU_WORDS];
    // SAFETY: the kernel writes at most as many bytes as the mask has, and returns their number.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    let count: u32 = if bytes < 0 { 1 } else { mask.iter().map(|word| word.count_ones()).sum() };
    program_page.allowed.iter().zip(mask).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    program_page.cpus.store(count.max(1), Ordering::Relaxed);
}

fn dial(path: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: all zero is a valid address, of no family.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    if path.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    address.sun_path.iter_mut().zip(path).for_each(|(to, from)| *to = *from as libc::c_char);
    // SAFETY: the call takes no pointers; it only makes a descriptor.
    let socket = unsafe { owned(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0)) }?;
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is valid, and has this length.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Receives the answer and the descriptors that come with it.
fn receive(socket: &OwnedFd) -> io::Result<(Welcome, Vec<OwnedFd>)> {
    let mut welcome = Welcome { magic: 0, version: 0, how: 0 };
    let mut part = libc::iovec { iov_base: (&raw mut welcome).cast(), iov_len: size_of::<Welcome>() };
    // An array of words, because the kernel aligns the control messages to words.
    let mut control = [0u64; 4 + DESCRIPTORS];
    // SAFETY: all zero is a valid, empty message.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
    // SAFETY: the pointers and lengths in the message describe valid buffers.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let why = io::Error::last_os_error();
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has just filled in `message`.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: `header` is within the message.
        let (level, kind, bytes) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: `header` is within the message; the descriptors are the header's data.
            let data = unsafe { libc::CMSG_DATA(header).cast::<libc::c_int>() };
            // SAFETY: the macro only computes a length.
            let count = (bytes - unsafe { libc::CMSG_LEN(0) } as usize) / size_of::<libc::c_int>();
            // SAFETY: the data of the header are `count` descriptors, which this process owns from here on.
            descriptors.extend((0..count).map(|at| unsafe { OwnedFd::from_raw_fd(data.add(at).read_unaligned()) }));
        }
        // SAFETY: `header` is within the message.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    match got {
        ..0 => Err(why),
        // The kernel drops descriptors for which no numbers are free, so those that arrived may not match what was sent.
        _ if message.msg_flags & libc::MSG_CTRUNC != 0 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        _ if got != size_of::<Welcome>() as isize => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok((welcome, descriptors)),
    }
}

/// Parses what follows `on,` in the environment variable that cox sets: `PATH,NONCE`, with the nonce in hexadecimal digits.
#[must_use]
pub fn parse(text: &[u8]) -> Option<(&[u8], [u8; 16])> {
    let comma = text.iter().rposition(|byte| *byte == b',')?;
    let (path, digits) = (&text[..comma], std::str::from_utf8(&text[comma + 1..]).ok()?);
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some((path, number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_commas() {
        let number = [0u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];
        assert_eq!(parse(b"/tmp/a,b/umt,000102030405060708090a0b0c0d0eff"), Some((&b"/tmp/a,b/umt"[..], number)));
        for wrong in
            [&b""[..], b"/tmp/umt", b"/tmp/umt,", b"/tmp/umt,0001", b"/tmp/umt,000102030405060708090a0b0c0d0efg"]
        {
            assert_eq!(parse(wrong), None);
        }
    }

    /// Sends a welcome with `count` descriptors.
    fn send_welcome(to: &OwnedFd, count: usize) {
        let fds = vec![to.as_raw_fd(); count];
        let mut welcome = Welcome { magic: MAGIC, version: VERSION, how: 0 };
        let mut part = libc::iovec { iov_base: (&raw mut welcome).cast(), iov_len: size_of::<Welcome>() };
        let bytes = size_of_val(fds.as_slice()) as libc::c_uint;
        let mut control = vec![0u64; 8 + count];
        // SAFETY: all zero is an empty message; `control` has room for the header and the descriptors.
        let sent = unsafe {
            let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            (message.msg_control, message.msg_controllen) =
                (control.as_mut_ptr().cast(), libc::CMSG_SPACE(bytes) as usize);
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as usize;
            std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(header).cast(), count);
            libc::sendmsg(to.as_raw_fd(), &raw const message, 0)
        };
        assert_eq!(sent, size_of::<Welcome>() as isize);
    }

    /// If there are too many descriptors, the kernel delivers those for which there is room, and sets MSG_CTRUNC. `receive` must return an error
    /// then, and not an answer with fewer doorbells.
    #[test]
    fn an_answer_that_lacks_descriptors_is_an_error() {
        let mut pair = [0; 2];
        // SAFETY: `pair` has room for two descriptors, which this test then owns.
        let [here, there] = unsafe {
            assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, pair.as_mut_ptr()), 0);
            pair.map(|fd| OwnedFd::from_raw_fd(fd))
        };
        send_welcome(&there, DESCRIPTORS);
        assert_eq!(receive(&here).unwrap().1.len(), DESCRIPTORS);
        send_welcome(&there, 10 * DESCRIPTORS);
        assert_eq!(receive(&here).unwrap_err().raw_os_error(), Some(libc::EMFILE));
    }

    #[test]
    fn nobody_there_is_an_error() {
        assert!(connect(b"/nonexistent/coxswain", [0; 16]).is_err());
        assert!(connect(&[b'x'; 200], [0; 16]).is_err(), "longer than an address");
        assert!(!crate::is_live());
    }
}
