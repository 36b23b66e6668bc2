//! Commands from another process to an engine of a session, as `cox pack set` sends them.
//!
//! The session listens on sockets in Linux's abstract namespace. Such a socket has no file and disappears with the
//! process, however that ends. There is one socket for each process that the session was started for. The socket's name
//! contains the engine's name, the process id, the number of the PID namespace in which the id is valid, and a random
//! number. The random number keeps other users from taking the name beforehand, because every user may take any name in
//! the abstract namespace. A client finds the name in /proc/net/unix, and sends commands only to a session of its own
//! user (root also to one of the process's user). The client sends one line of JSON and receives one line.
//!
//! The session never waits for clients. It reads the data that has arrived, and at a tick it disconnects a client
//! that has not sent a complete line in time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use machine::Root;
use outputs::diagnostics::chain;
use rustix::fs::stat;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{geteuid, getuid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::peer::Peer;

/// Time limit for receiving the whole command. It can be short, because a client connects only when its command is
/// ready to send.
const ASKING: Duration = Duration::from_secs(2);
/// Time limit for receiving the whole answer. Some commands make the engine act on all threads.
const ANSWERING: Duration = Duration::from_secs(10);
/// Maximum length of a line, bytes. A list of all CPUs that Linux supports takes 40 KB.
const LONGEST: usize = 1 << 16;
/// Maximum number of connected clients that have not sent their command yet. Further clients wait in the kernel.
const WAITING: usize = 32;

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done(String),
    Refused(String),
}

/// The session's side: the sockets on which it receives commands for one engine.
pub(crate) struct Control {
    listeners: Vec<UnixListener>,
    waiting: Vec<Asking>,
}

/// A client that has connected and not yet sent a complete command.
struct Asking {
    stream: UnixStream,
    since: Instant,
    line: Vec<u8>,
}

impl Control {
    /// Listens for commands to the session that runs this engine for these processes.
    ///
    /// # Errors
    /// When a system call fails.
    pub(crate) fn open(engine: &str, pids: &[u32]) -> io::Result<Control> {
        let listen = |pid: &u32| {
            let random = RandomState::new().build_hasher().finish();
            let name = format!("{}{random:016x}", beginning(engine, *pid)?);
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listeners = pids.iter().map(listen).collect::<io::Result<_>>()?;
        Ok(Control { listeners, waiting: Vec::new() })
    }

    /// Returns the descriptors that are readable when [`serve`](Control::serve) has something to do.
    pub(crate) fn readiness(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // While as many clients as possible wait, a new one has to wait for them.
        let open = self.waiting.len() < WAITING;
        let listeners = self.listeners.iter().filter(move |_| open).map(AsFd::as_fd);
        listeners.chain(self.waiting.iter().map(|asking| asking.stream.as_fd()))
    }

    /// Executes the commands that arrived since the last call, and answers with the results, or with the reason why nothing has changed. Only this
    /// user and root get an answer. Never waits for a client.
    pub(crate) fn serve<C: DeserializeOwned>(&mut self, mut execute: impl FnMut(C) -> Result<String>) {
        let waiting = &mut self.waiting;
        for listener in &self.listeners {
            let new = std::iter::from_fn(|| listener.accept().ok()).take(WAITING.saturating_sub(waiting.len()));
            waiting.extend(new.filter_map(|(stream, _)| Asking::begin(stream).ok().flatten()));
        }
        waiting.retain_mut(|asking| match asking.hear() {
            Ok(None) => asking.since.elapsed() < ASKING,
            Ok(Some(command)) => {
                let answer = execute(command).map_or_else(|error| Answer::Refused(chain(&error)), Answer::Done);
                // Errors are ignored: a client that has stopped waiting can repeat its command.
                let _ = say(&mut asking.stream, &answer);
                false
            }
            Err(_) => false,
        });
    }
}

impl Asking {
    fn begin(stream: UnixStream) -> Result<Option<Asking>> {
        let asks = Peer::of(&stream)?.uid;
        if asks != getuid() && asks != geteuid() && !asks.is_root() {
            return Ok(None);
        }
        stream.set_nonblocking(true)?;
        Ok(Some(Asking { stream, since: Instant::now(), line: Vec::new() }))
    }

    /// Reads the data that has arrived. Returns the command, or `None` while the line is incomplete.
    fn hear<C: DeserializeOwned>(&mut self) -> Result<Option<C>> {
        let mut part = [0; 4096];
        while !self.line.ends_with(b"\n") {
            match self.stream.read(&mut part) {
                Ok(0) => bail!("the client closed the connection"),
                Ok(length) => self.line.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            ensure!(self.line.len() <= LONGEST, "the command is too long");
        }
        Ok(Some(serde_json::from_slice(&self.line)?))
    }
}

/// Result of the search for the session that runs an engine for a process.
pub enum Found {
    /// A session that this user may send commands to.
    Session(Asks),
    /// There are sessions for this process, but this user may not send commands to any of them.
    Stranger,
    /// There is no session that runs this engine for the process.
    Nobody,
}

/// A connection to a session.
pub struct Asks(UnixStream);

/// Finds the session that runs this engine for a process.
///
/// # Errors
/// When a system call fails.
pub fn session_of(engine: &str, pid: u32) -> Result<Found> {
    let sockets = Root::live().read("/proc/net/unix").unwrap_or_default();
    let beginning = beginning(engine, pid)?;
    let names = String::from_utf8_lossy(&sockets);
    let names = names.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    let mut found = Found::Nobody;
    for name in names.filter(|name| name.starts_with(&beginning)) {
        // A non-blocking socket does not wait for a listener whose queue is full, e.g. because its process hangs.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        if connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?).is_err() {
            continue;
        }
        let stream = UnixStream::from(socket);
        let session = Peer::of(&stream).context("cannot determine the user of the session")?.uid;
        let owner = std::fs::metadata(format!("/proc/{pid}")).map(|process| process.uid());
        // If this client runs as root, it also trusts a session of the user who owns process `pid`. Otherwise the
        // session must belong to the client's own user.
        let is_owner = geteuid().is_root() && owner.is_ok_and(|owner| owner == session.as_raw());
        if session == geteuid() || is_owner {
            stream.set_nonblocking(false)?;
            return Ok(Found::Session(Asks(stream)));
        }
        found = Found::Stranger;
    }
    Ok(found)
}

impl Asks {
    /// Sends a command to the session and returns its result. `whom` names the session in errors.
    ///
    /// # Errors
    /// When the session refuses the command or cannot be reached any more.
    pub fn ask(self, command: &impl Serialize, whom: &str) -> Result<String> {
        let Asks(mut stream) = self;
        let until = Instant::now() + ANSWERING;
        stream.set_write_timeout(Some(ANSWERING))?;
        say(&mut stream, command).with_context(|| format!("cannot send the command to {whom}"))?;
        match hear(&mut stream, until).with_context(|| format!("no answer from {whom}"))? {
            Answer::Done(done) => Ok(done),
            Answer::Refused(why) => bail!("{why}"),
        }
    }
}

fn say(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    stream.write_all(format!("{}\n", serde_json::to_string(what)?).as_bytes())
}

/// Reads one line, which must be complete at the time `until`.
fn hear<T: DeserializeOwned>(stream: &mut UnixStream, until: Instant) -> Result<T> {
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    while !line.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "no complete answer within {} s", ANSWERING.as_secs());
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => bail!("it closed the connection"),
            Ok(length) => line.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        ensure!(line.len() <= LONGEST, "the answer is too long");
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Returns the prefix of the socket names for a process.
fn beginning(engine: &str, pid: u32) -> io::Result<String> {
    let namespace = stat("/proc/self/ns/pid")?.st_ino;
    Ok(format!("cox-{engine}-{namespace}-{pid}-"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// No process has it.
    const PID: u32 = u32::MAX - 7;

    /// Commands of an engine in these tests.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Cpus {
        cpus: Option<Vec<u32>>,
        ncpus: Option<usize>,
    }

    fn open(pids: &[u32]) -> Control {
        Control::open("test", pids).unwrap()
    }

    /// Serves once, with this answer to every command. Returns the commands.
    fn heard(control: &mut Control, answer: Result<&str, &str>) -> Vec<Cpus> {
        let mut heard = Vec::new();
        control.serve(|command| {
            heard.push(command);
            answer.map(str::to_owned).map_err(|why| anyhow::anyhow!("{why}"))
        });
        heard
    }

    fn asks(pid: u32) -> Asks {
        match session_of("test", pid).unwrap() {
            Found::Session(asks) => asks,
            _ => panic!("no session"),
        }
    }

    fn connected(pid: u32) -> UnixStream {
        asks(pid).0
    }

    fn ask(pid: u32, command: &Cpus) -> Result<String, String> {
        asks(pid).ask(command, "it").map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_is_heard_and_answered() {
        let mut control = open(&[PID, PID + 1]);
        for (wanted, refused) in [
            (Cpus { cpus: Some(vec![0, 1, 2, 3, 8]), ncpus: None }, None),
            (Cpus { cpus: None, ncpus: Some(3) }, Some("there are only 2")),
        ] {
            let question = wanted.clone();
            let asking = thread::spawn(move || ask(PID + 1, &question));
            let answer = refused.map_or(Ok("5,7"), Err);
            let asked = std::iter::repeat_with(|| heard(&mut control, answer).pop()).find_map(|asked| asked);
            assert_eq!(asked, Some(wanted));
            assert_eq!(asking.join().unwrap(), answer.map(str::to_owned).map_err(str::to_owned));
        }
    }

    #[test]
    fn who_talks_nonsense_is_not_heard() {
        let mut control = open(&[PID + 2]);
        for line in ["nonsense\n", "{\"cpus\": \"x\", \"ncpus\": null}\n", ""] {
            let mut stream = connected(PID + 2);
            stream.write_all(line.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(heard(&mut control, Ok("")).is_empty(), "{line}");
        }
        assert!(matches!(session_of("test", PID + 3).unwrap(), Found::Nobody));
    }

    /// Clients that say nothing, or one byte at a time and never a whole line, do not delay the session, are let go, and
    /// leave room for others.
    #[test]
    fn who_is_slow_keeps_nobody() {
        let mut control = open(&[PID + 4]);
        let mut slow: Vec<UnixStream> = (0..2 * WAITING).map(|_| connected(PID + 4)).collect();
        let since = Instant::now();
        while since.elapsed() < ASKING / 2 {
            for stream in &mut slow {
                let _ = stream.write_all(b"x");
            }
            let asked = Instant::now();
            assert!(heard(&mut control, Ok("")).is_empty());
            assert!(asked.elapsed() < ASKING / 4, "{:?}", asked.elapsed());
            assert!(control.waiting.len() <= WAITING);
            thread::sleep(ASKING / 40);
        }
        let asking = thread::spawn(|| ask(PID + 4, &Cpus { cpus: None, ncpus: Some(3) }));
        while heard(&mut control, Ok("5")).is_empty() {
            thread::sleep(ASKING / 40);
        }
        assert_eq!(asking.join().unwrap(), Ok("5".to_owned()));
    }

    /// A name that somebody else has taken is no session's; whoever listens there and never lets anybody in keeps nobody.
    #[test]
    fn names_that_others_have_taken_are_passed_over() {
        let taken = format!("{}0", beginning("test", PID + 5).unwrap());
        let taken = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .and_then(|socket| {
                rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(taken.as_bytes())?)?;
                rustix::net::listen(&socket, 0)?;
                Ok(socket)
            })
            .unwrap();
        let _full = connected(PID + 5);
        assert!(matches!(session_of("test", PID + 5).unwrap(), Found::Nobody), "there is no room for a second");
        let mut control = open(&[PID + 5]);
        let mut stream = connected(PID + 5);
        stream.write_all(b"{\"cpus\": null, \"ncpus\": 1}\n").unwrap();
        assert_eq!(heard(&mut control, Ok("")).len(), 1);
        drop(taken);
    }
}
