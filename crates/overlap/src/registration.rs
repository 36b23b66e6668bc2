//! The registration server: a socket at which processes request their pages and doorbells, and a thread that answers.
//!
//! The socket has a name in the file system, because the ranks of one program may be in different network namespaces. Only this user can
//! reach it, and a client must send the nonce from the program's environment.

use std::ffi::OsString;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with,
};
use session::peer::Peer;
use wire::umt::{BELLS, Hello, MAGIC, VERSION, Welcome, bytes_of};

use crate::source::{Source, lock};

/// Prefix of the names of session folders. The number of the session's process follows.
const PREFIX: &str = "coxswain-";
/// Number of connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Time limit for a client's request after it has connected. A client that exceeds it is disconnected, so that it gets no descriptor of the
/// session.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Time for which no client is accepted after a failed accept(2). If the failure was for lack of free descriptors, the next call would fail
/// immediately.
const PAUSE: Duration = Duration::from_millis(100);

/// Added to a time limit before sleeping, so that the limit has passed at the wake-up.
const SLACK: Duration = Duration::from_millis(1);

/// The registration server. Dropping it closes the socket and all connections.
pub struct RegistrationServer {
    folder: PathBuf,
    nonce: [u8; 16],
    close: Arc<OwnedFd>,
    handler: Option<JoinHandle<()>>,
}

impl RegistrationServer {
    /// Starts the server for processes of this session. `patience`: the time limit for a client's request after it has connected.
    ///
    /// # Errors
    /// The socket, its folder or the thread cannot be made.
    pub fn open(source: Arc<Mutex<Source>>, patience: Duration) -> Result<RegistrationServer> {
        let mut nonce = [0; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut nonce))
            .context("reading a random number from /dev/urandom")?;
        remove_stale();
        let folder = std::env::temp_dir().join(format!("{PREFIX}{}-{}", std::process::id(), hex(&nonce[..4])));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("making a folder for a socket: {}", folder.display()))?;
        let close = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).context("making an event descriptor")?);
        let mut server = RegistrationServer { folder, nonce, close: Arc::clone(&close), handler: None };
        let listener =
            listening(&server.socket()).with_context(|| format!("making a socket: {}", server.socket().display()))?;
        let lifeline = lock(&source).lifeline().context("copying a descriptor")?;
        let shutdown = ShutdownFds { close, lifeline };
        let work = move || answer_all(&listener, &shutdown, nonce, &source, patience);
        server.handler = Some(std::thread::Builder::new().name("cox-overlap".into()).spawn(work).context("a thread")?);
        Ok(server)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("umt")
    }

    /// Returns what a client needs to connect: the path of the socket, and the nonce that it has to send, in hexadecimal.
    pub fn address(&self) -> OsString {
        let mut address = self.socket().into_os_string();
        address.push(format!(",{}", hex(&self.nonce)));
        address
    }
}

impl Drop for RegistrationServer {
    fn drop(&mut self) {
        // If one of these calls fails, nothing can be done about it.
        let _ = rustix::io::write(&*self.close, &1u64.to_ne_bytes());
        let _ = self.handler.take().map(JoinHandle::join);
        remove(&self.folder);
    }
}

/// Removes a session's socket, and its folder if nothing else is in it.
fn remove(folder: &Path) {
    let socket = folder.join("umt");
    if std::fs::symlink_metadata(&socket).is_ok_and(|found| found.file_type().is_socket()) {
        let _ = std::fs::remove_file(socket);
    }
    let _ = std::fs::remove_dir(folder);
}

/// Removes the folders of this user's sessions that were killed. Errors are ignored: another process may be removing the same folder.
fn remove_stale() {
    let uid = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((pid, nonce)) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')) else {
            continue;
        };
        let (Ok(pid), true) = (pid.parse::<u32>(), nonce.len() == 8) else { continue };
        let is_ours = entry.metadata().is_ok_and(|status| status.is_dir() && status.uid() == uid);
        // The process number alone does not show that the session is over: it may be from another PID namespace.
        if is_ours && !Path::new("/proc").join(pid.to_string()).exists() && is_deserted(&entry.path().join("umt")) {
            remove(&entry.path());
        }
    }
}

/// Returns whether no process listens at a socket.
fn is_deserted(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    socket.is_ok_and(|socket| connect(&socket, &address) == Err(rustix::io::Errno::CONNREFUSED))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn listening(path: &Path) -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The descriptors that the server polls to find out when to end.
struct ShutdownFds {
    close: Arc<OwnedFd>,
    /// Hangs up when the process that rings doorbells (wakes standby threads) has ended.
    lifeline: Option<OwnedFd>,
}

/// Runs the server until it is closed: accepts clients, answers their requests, and drops clients that hang up.
fn answer_all(listener: &OwnedFd, shutdown: &ShutdownFds, nonce: [u8; 16], source: &Mutex<Source>, patience: Duration) {
    // Each client's connection; the number of its process, once it has one; and the time of its connection.
    let mut clients: Vec<(OwnedFd, Option<u32>, Instant)> = Vec::new();
    // No client is accepted before this time.
    let mut closed_until: Option<Instant> = None;
    loop {
        closed_until = closed_until.filter(|until| Instant::now() < *until);
        let accepts = if closed_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let server = [PollFd::new(&*shutdown.close, PollFlags::IN), PollFd::new(listener, accepts)];
        let connections = clients.iter().map(|client| PollFd::new(&client.0, PollFlags::IN));
        let mut wanted: Vec<PollFd<'_>> = server.into_iter().chain(connections).collect();
        // The last entry is the lifeline: the connection to the process that wakes standby threads. It is watched only for a hang-up. Data on it are
        // answers that other code waits for and reads.
        wanted.extend(shutdown.lifeline.iter().map(|line| PollFd::new(line, PollFlags::empty())));
        // Sleep at most until the first client without a request reaches its time limit, even if other clients send requests meanwhile.
        let silent = clients.iter().filter(|(_, process, _)| process.is_none());
        let left = silent.map(|(_, _, since)| patience.saturating_sub(since.elapsed()));
        let left = left.chain(closed_until.map(|until| until.saturating_duration_since(Instant::now()))).min();
        let left = left.map(|left| Timespec::try_from(left + SLACK).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
        match poll(&mut wanted, left.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        }
        let ready: Vec<bool> = wanted.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(wanted);
        if ready[0] {
            return;
        }
        if shutdown.lifeline.is_some() && ready.last() == Some(&true) {
            // The process that rang the doorbells (woke standby threads) has ended. Returning closes the connections, which tells the
            // clients that the session is over.
            return lock(source).is_lost();
        }
        let mut at = 0;
        clients.retain_mut(|(client, process, since)| {
            at += 1;
            if !ready[at + 1] {
                return process.is_some() || since.elapsed() < patience;
            }
            // The client has hung up, or sends a second request. Our programs never send a second request, because each client gets pages
            // only once.
            if let Some(over) = *process {
                lock(source).over(over);
                return false;
            }
            *process = answer(client.as_fd(), nonce, source).ok();
            process.is_some()
        });
        if ready[1] {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(client) => clients.push((client, None, Instant::now())),
                // The client has hung up meanwhile.
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => closed_until = Some(Instant::now() + PAUSE),
            }
        }
    }
}

/// Answers a client's request. Returns the number that its process got. An error means that the client has hung up, or is not a program of
/// this session; it is disconnected.
fn answer(client: BorrowedFd<'_>, nonce: [u8; 16], source: &Mutex<Source>) -> Result<u32> {
    let mut hello = [0; size_of::<Hello>()];
    let (length, _) = recv(client, &mut hello, RecvFlags::empty())?;
    let wanted = Hello { magic: MAGIC, version: VERSION, pad: 0, nonce };
    anyhow::ensure!(length == hello.len() && hello == bytes_of(&wanted), "the client does not belong to this session");
    let pid = Peer::of(client)?.process.context("the client's process is not in cox's PID namespace")?;
    let mut source = lock(source);
    let given = source.give_or_count(pid)?;
    let how = source.how as u32;
    let welcome = Welcome { magic: MAGIC, version: VERSION, how };
    let descriptors: Vec<BorrowedFd<'_>> = given.descriptors().collect();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 + BELLS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let has_room = control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(client, &[IoSlice::new(bytes_of(&welcome))], &mut control, SendFlags::NOSIGNAL);
    if !has_room || sent.is_err() {
        // The client has hung up meanwhile, and no later event will report this.
        source.over(given.process);
        anyhow::bail!("the answer could not be sent");
    }
    source.prepare();
    Ok(given.process)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::net::send;
    use wire::umt::How;

    use super::*;

    fn connected(server: &RegistrationServer) -> OwnedFd {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(server.socket()).unwrap()).unwrap();
        socket
    }

    /// Returns the answer; empty if the server has hung up.
    fn receive(socket: &OwnedFd) -> Vec<u8> {
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        assert_eq!(poll(&mut ready, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })), Ok(1), "neither an answer nor an end");
        let mut room = vec![0; 64];
        let length = match recv(socket, &mut room, RecvFlags::empty()) {
            Ok((length, _)) => length,
            // The server closed the connection without having read everything.
            Err(Errno::CONNRESET) => 0,
            Err(error) => panic!("{error}"),
        };
        room.truncate(length);
        room
    }

    fn has_something(socket: &OwnedFd) -> bool {
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    /// If accept fails because no descriptor is free, the server waits before it tries again, instead of polling all the time.
    #[test]
    fn a_failed_accept_costs_nothing_and_is_retried() {
        let folder = tempfile::tempdir().unwrap();
        // An event descriptor in place of a socket: it is always ready, and accept(2) fails on it.
        let broken = Arc::new(eventfd(1, EventfdFlags::CLOEXEC).unwrap());
        let close = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let (listener, shutdown) = (Arc::clone(&broken), ShutdownFds { close: Arc::clone(&close), lifeline: None });
        let handler = std::thread::spawn(move || {
            let source = Mutex::new(Source::memory(How::Sentinels));
            answer_all(&listener, &shutdown, [0; 16], &source, REQUEST_LIMIT);
            arch::clock::thread_cpu_ns()
        });
        let since = Instant::now();
        std::thread::sleep(Duration::from_millis(500));
        // Now a client can be accepted.
        let path = folder.path().join("umt");
        let socket = listening(&path).unwrap();
        // SAFETY: both are open descriptors of this process; the one that is replaced stays open and owned by `broken`.
        assert!(unsafe { libc::dup2(socket.as_raw_fd(), broken.as_raw_fd()) } >= 0);
        let client = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&client, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        send(&client, b"nonsense", SendFlags::NOSIGNAL).unwrap();
        assert!(receive(&client).is_empty(), "the client is accepted and disconnected");
        rustix::io::write(&*close, &1u64.to_ne_bytes()).unwrap();
        let (used_ns, lasted_ns) = (handler.join().unwrap(), since.elapsed().as_nanos() as u64);
        assert!(used_ns < lasted_ns / 20, "{used_ns} of {lasted_ns}");
    }

    /// A client that sends a second request gets no second pages, whose number would never be freed.
    #[test]
    fn a_second_request_disconnects() {
        let source = Arc::new(Mutex::new(Source::memory(How::Sentinels)));
        let server = RegistrationServer::open(Arc::clone(&source), REQUEST_LIMIT).unwrap();
        let hello = Hello { magic: MAGIC, version: VERSION, pad: 0, nonce: server.nonce };
        let asks = connected(&server);
        send(&asks, bytes_of(&hello), SendFlags::NOSIGNAL).unwrap();
        assert_eq!(receive(&asks).len(), size_of::<Welcome>());
        send(&asks, bytes_of(&hello), SendFlags::NOSIGNAL).unwrap();
        assert!(receive(&asks).is_empty(), "the server has hung up");
        assert_eq!(source.lock().unwrap().end().counts.processes, 1);
    }

    /// Silent clients are disconnected at their time limit, also while others come and go, and other clients do not wait for them.
    #[test]
    fn a_silent_client_is_disconnected_and_delays_no_other() {
        let source = Arc::new(Mutex::new(Source::memory(How::Sentinels)));
        let server = RegistrationServer::open(source, Duration::from_secs(2)).unwrap();
        let hello = Hello { magic: MAGIC, version: VERSION, pad: 0, nonce: server.nonce };
        let silent = connected(&server);
        let since = Instant::now();
        let asks = connected(&server);
        send(&asks, bytes_of(&hello), SendFlags::NOSIGNAL).unwrap();
        assert_eq!(receive(&asks).len(), size_of::<Welcome>());
        // Other clients connect more often than the limit of the silent one; they do not extend it.
        let mut others = 0;
        while !has_something(&silent) {
            assert!(since.elapsed() < Duration::from_secs(60), "it is still there after {others} other clients");
            let other = connected(&server);
            send(&other, &bytes_of(&hello)[1..], SendFlags::NOSIGNAL).unwrap();
            assert!(receive(&other).is_empty(), "a client with a wrong request is disconnected");
            others += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(receive(&silent).is_empty() && since.elapsed() >= Duration::from_secs(2));
        assert!(others > 1 && !has_something(&asks), "a client that has its pages stays");
    }
}
