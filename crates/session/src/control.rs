//! How another process gives a command to an engine of a session, as `cox pack set` does.
//!
//! The session listens on sockets in Linux' abstract namespace, which have no file and go with the process, whatever
//! ends it. A socket's name has the name of the engine, the number of a process that was named, that of the PID namespace that gave it, and a
//! random one: everybody may take any name in that namespace, so nobody shall know it beforehand. Whoever asks finds the
//! name in /proc/net/unix, and knows the session by its user. One line of JSON is asked, one is answered.
//!
//! The session never waits for those who ask: it looks at each tick what has come, and hangs up on whoever has not said a
//! whole line in time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::marker::PhantomData;
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

/// For the whole question: whoever connects has the line ready.
const ASKING: Duration = Duration::from_secs(2);
/// For the whole answer: the session looks every 100 ms, and an engine may take all threads anew.
const ANSWERING: Duration = Duration::from_secs(10);
/// A list of all CPUs that Linux can have takes 40 KB.
const LONGEST: usize = 1 << 16;
/// Those who may be connected without having asked yet, and those who are let in at a tick. Others wait in the kernel.
const WAITING: usize = 32;

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done(String),
    Refused(String),
}

/// The session's side, for one engine.
pub(crate) struct Control<C> {
    listeners: Vec<UnixListener>,
    waiting: Vec<Asking>,
    commands: PhantomData<C>,
}

/// Somebody who has connected and not asked yet.
struct Asking {
    stream: UnixStream,
    since: Instant,
    line: Vec<u8>,
}

/// A command, and who waits for what comes of it.
pub(crate) struct Asked<C> {
    pub(crate) command: C,
    pub(crate) asker: Asker,
}

/// Somebody who has given a command.
pub(crate) struct Asker(UnixStream);

impl<C: DeserializeOwned> Control<C> {
    /// Listens for those who want something of the session that has this engine for these processes.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn open(engine: &str, pids: &[u32]) -> io::Result<Control<C>> {
        let listen = |pid: &u32| {
            let random = RandomState::new().build_hasher().finish();
            let name = format!("{}{random:016x}", beginning(engine, *pid)?);
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listeners = pids.iter().map(listen).collect::<io::Result<_>>()?;
        Ok(Control { listeners, waiting: Vec::new(), commands: PhantomData })
    }

    /// Whoever has asked since this was called last. Others than this user and root get no answer. Never waits.
    pub(crate) fn asked(&mut self) -> Vec<Asked<C>> {
        let waiting = &mut self.waiting;
        for listener in &self.listeners {
            let new = std::iter::from_fn(|| listener.accept().ok()).take(WAITING.saturating_sub(waiting.len()));
            waiting.extend(new.filter_map(|(stream, _)| Asking::begin(stream).ok().flatten()));
        }
        let mut asked = Vec::new();
        waiting.retain_mut(|asking| match asking.hear() {
            Ok(None) => asking.since.elapsed() < ASKING,
            Ok(Some(question)) => {
                asked.push(question);
                false
            }
            Err(_) => false,
        });
        asked
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

    /// What has come; `None` while the line is not whole.
    fn hear<C: DeserializeOwned>(&mut self) -> Result<Option<Asked<C>>> {
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
        let command = serde_json::from_slice(&self.line)?;
        Ok(Some(Asked { command, asker: Asker(self.stream.try_clone()?) }))
    }
}

impl Asker {
    /// Says what was done, or why nothing has changed.
    pub(crate) fn answer(mut self, done: &Result<String>) {
        let answer = match done {
            Ok(done) => Answer::Done(done.clone()),
            Err(error) => Answer::Refused(chain(error)),
        };
        // Who no longer waits for the answer can ask again.
        let _ = say(&mut self.0, &answer);
    }
}

/// Who listens under the names that sessions of a process have.
pub enum Found {
    /// A session that may be asked.
    Session(Asks),
    /// Only others than those whom this user may ask.
    Stranger,
    /// Nobody.
    Nobody,
}

/// A connection to a session.
pub struct Asks(UnixStream);

/// Looks for the session that has this engine for a process.
///
/// # Errors
/// When the system refuses.
pub fn session_of(engine: &str, pid: u32) -> Result<Found> {
    let sockets = Root::live().read("/proc/net/unix").unwrap_or_default();
    let beginning = beginning(engine, pid)?;
    let names = String::from_utf8_lossy(&sockets);
    let names = names.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    let mut found = Found::Nobody;
    for name in names.filter(|name| name.starts_with(&beginning)) {
        // Neither waits where the listener has no room, nor is kept by one who has hung up.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        if connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?).is_err() {
            continue;
        }
        let stream = UnixStream::from(socket);
        let session = Peer::of(&stream).context("cannot tell whose session it is")?.uid;
        let owner = std::fs::metadata(format!("/proc/{pid}")).map(|process| process.uid());
        // Root may ask any session, but believes only root's and that of the process's own user.
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
    /// Gives the session a command; returns what it says was done. `whom`: what to call it in errors.
    ///
    /// # Errors
    /// When it refuses, or cannot be reached any more.
    pub fn ask(self, command: &impl Serialize, whom: &str) -> Result<String> {
        let Asks(mut stream) = self;
        let until = Instant::now() + ANSWERING;
        stream.set_write_timeout(Some(ANSWERING))?;
        say(&mut stream, command).with_context(|| format!("cannot ask {whom}"))?;
        match hear(&mut stream, until).with_context(|| format!("no answer from {whom}"))? {
            Answer::Done(done) => Ok(done),
            Answer::Refused(why) => bail!("{why}"),
        }
    }
}

fn say(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    stream.write_all(format!("{}\n", serde_json::to_string(what)?).as_bytes())
}

/// One line, which has to be whole at the time `until`.
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

/// What the names of sockets for a process begin with.
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

    fn open(pids: &[u32]) -> Control<Cpus> {
        Control::open("test", pids).unwrap()
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
            let asked = std::iter::repeat_with(|| control.asked().pop()).find_map(|asked| asked).unwrap();
            assert_eq!(asked.command, wanted);
            let cpus = "5,7".to_owned();
            let done = refused.map_or_else(|| Ok(cpus.clone()), |why| Err(anyhow::anyhow!("{why}")));
            asked.asker.answer(&done);
            assert_eq!(asking.join().unwrap(), refused.map_or(Ok(cpus), |why| Err(why.to_owned())));
        }
    }

    #[test]
    fn who_talks_nonsense_is_not_heard() {
        let mut control = open(&[PID + 2]);
        for line in ["nonsense\n", "{\"cpus\": \"x\", \"ncpus\": null}\n", ""] {
            let mut stream = connected(PID + 2);
            stream.write_all(line.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(control.asked().len(), 0, "{line}");
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
            assert_eq!(control.asked().len(), 0);
            assert!(asked.elapsed() < ASKING / 4, "{:?}", asked.elapsed());
            assert!(control.waiting.len() <= WAITING);
            thread::sleep(ASKING / 40);
        }
        let asking = thread::spawn(|| ask(PID + 4, &Cpus { cpus: None, ncpus: Some(3) }));
        let asked = std::iter::repeat_with(|| {
            thread::sleep(ASKING / 40);
            control.asked().pop()
        });
        asked.flatten().next().unwrap().asker.answer(&Ok("5".to_owned()));
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
        assert_eq!(control.asked().len(), 1);
        drop(taken);
    }
}
