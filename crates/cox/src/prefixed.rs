//! The outputs of ULPs, each line with the number of its ULP: `[ 3] line`.
//!
//! The host of the ULPs sends the pipes of each one over a socket. A thread reads them, and writes whole lines to the standard output and standard error of
//! cox. It ends when there is nothing left to be read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use outputs::diagnostics::say;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, listen, recvmsg, socket_with,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A line that is longer is divided, bytes.
const LONGEST_LINE: usize = 1 << 16;
/// Descriptors that cox needs besides the pipes.
const OTHERS: u64 = 64;

/// The thread that reads the outputs.
pub struct Prefixed {
    /// Where the host connects.
    pub path: PathBuf,
    /// Closed when the ULPs have ended.
    running: OwnedFd,
    thread: JoinHandle<io::Result<()>>,
}

impl Prefixed {
    /// Begins to listen in a folder for the outputs of `count` ULPs.
    ///
    /// # Errors
    /// When the socket or the thread cannot be made.
    pub fn listen(folder: &Path, count: usize) -> Result<Prefixed> {
        let path = folder.join("outputs");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(&path)?)?;
        listen(&socket, 1)?;
        let (ended, running) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut reader = Reader::new(count)?;
        reader.add(socket, Source::Listener)?;
        reader.add(ended, Source::Running)?;
        let thread = without_signals(|| thread::Builder::new().name("outputs".to_owned()).spawn(move || reader.run()))?;
        Ok(Prefixed { path, running, thread })
    }

    /// Waits until everything is written that is in the pipes by now.
    ///
    /// # Errors
    /// When outputs could not be read.
    pub fn finish(self) -> Result<()> {
        drop(self.running);
        let read = self.thread.join().map_err(|_| anyhow!("the thread of the outputs has panicked"))?;
        read.context("cannot read the outputs of the ULPs")
    }
}

/// Starts a thread that blocks all signals, as they are the session's.
fn without_signals<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the pointers are valid. The new thread inherits the calling thread's mask, which is restored.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        started
    }
}

/// What a descriptor is.
enum Source {
    Listener,
    Host,
    /// Tells by its end that all ULPs have ended.
    Running,
    Output(Output),
}

/// An output of a ULP.
struct Output {
    number: u32,
    is_error: bool,
    /// The beginning of a line.
    rest: Vec<u8>,
}

/// Reads all outputs.
struct Reader {
    epoll: OwnedFd,
    sources: HashMap<u64, (File, Source)>,
    next: u64,
    /// Number of digits of a ULP's number.
    width: usize,
    count: usize,
    /// Whether the ULPs have ended.
    is_over: bool,
    /// Whether an error in writing has been told.
    has_failed: bool,
}

impl Reader {
    fn new(count: usize) -> io::Result<Reader> {
        let width = count.saturating_sub(1).max(1).ilog10() as usize + 1;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Reader { epoll, sources: HashMap::new(), next: 0, width, count, is_over: false, has_failed: false })
    }

    fn add(&mut self, file: OwnedFd, source: Source) -> io::Result<()> {
        epoll::add(&self.epoll, &file, EventData::new_u64(self.next), EventFlags::IN)?;
        self.sources.insert(self.next, (file.into(), source));
        self.next += 1;
        Ok(())
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        while !self.is_over {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                // The structure is packed: no reference to the field.
                let data = event.data;
                self.read(data.u64())?;
            }
        }
        self.finish()
    }

    /// Reads what is left. The host has ended, and with it its socket. What children of ULPs write from now on is not waited for.
    fn finish(&mut self) -> io::Result<()> {
        for kind in
            [|source: &Source| matches!(source, Source::Listener), |source: &Source| matches!(source, Source::Host)]
        {
            let found = self.sources.iter().find(|(_, (_, source))| kind(source)).map(|(key, _)| *key);
            while let Some(key) = found.filter(|key| self.sources.contains_key(key)) {
                self.read(key)?;
            }
        }
        for (mut file, source) in std::mem::take(&mut self.sources).into_values() {
            let Source::Output(mut output) = source else { continue };
            let mut left = ioctl_fionread(&file)?;
            while left > 0 {
                let Some(count) = output.read(&mut file)? else { break };
                left = left.saturating_sub(count as u64);
                let lines = output.whole_lines();
                if !self.write(&output, &lines) {
                    break;
                }
            }
            let rest = std::mem::take(&mut output.rest);
            self.write(&output, &rest);
        }
        Ok(())
    }

    /// Reads from a descriptor that is ready.
    fn read(&mut self, key: u64) -> io::Result<()> {
        let Some((mut file, source)) = self.sources.remove(&key) else { return Ok(()) };
        match source {
            Source::Listener => match accept_with(&file, SocketFlags::CLOEXEC) {
                Ok(host) => {
                    // Only now: programs must have the limit that cox has been given.
                    raise_limit(2 * self.count as u64 + OTHERS);
                    self.add(host, Source::Host)?;
                }
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            },
            Source::Host => {
                if let Some((number, ends)) = receive(&file)? {
                    for (end, is_error) in ends.into_iter().zip([false, true]) {
                        self.add(end, Source::Output(Output { number, is_error, rest: Vec::new() }))?;
                    }
                    self.sources.insert(key, (file, Source::Host));
                }
            }
            Source::Running => self.is_over = true,
            Source::Output(mut output) => {
                let has_more = output.read(&mut file)?.is_some();
                let lines = if has_more { output.whole_lines() } else { std::mem::take(&mut output.rest) };
                // If nobody reads them, the pipe is closed, and the ULP finds out by its next write.
                if self.write(&output, &lines) && has_more {
                    self.sources.insert(key, (file, Source::Output(output)));
                }
            }
        }
        Ok(())
    }

    /// Writes lines of an output with the number before each. Returns whether that is possible.
    fn write(&mut self, output: &Output, lines: &[u8]) -> bool {
        let text = prefixed(lines, output.number, self.width);
        let written = if output.is_error { io::stderr().write_all(&text) } else { write_out(&text) };
        if let Err(error) = &written
            && error.kind() != io::ErrorKind::BrokenPipe
            && !std::mem::replace(&mut self.has_failed, true)
        {
            say(&format!("cannot write the outputs of the ULPs: {error}"));
        }
        written.is_ok()
    }
}

/// Receives the number of a ULP and its pipes. `None`: the host has ended.
fn receive(host: impl AsFd) -> io::Result<Option<(u32, Vec<OwnedFd>)>> {
    let mut number = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(host, &mut [IoSliceMut::new(&mut number)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut ends = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            ends.extend(rights);
        }
    }
    // The kernel drops descriptors if the process has reached its limit.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("too many open files for the outputs of all ULPs (ulimit -n)"));
    }
    Ok((received.bytes > 0).then_some((u32::from_le_bytes(number), ends)))
}

impl Output {
    /// Reads a piece. Returns its length; `None`: nobody has the pipe any more.
    fn read(&mut self, file: &mut File) -> io::Result<Option<usize>> {
        let mut bytes = [0; 1 << 14];
        match file.read(&mut bytes) {
            Ok(0) => Ok(None),
            Ok(count) => {
                self.rest.extend_from_slice(&bytes[..count]);
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Takes the whole lines, or a piece of one that is too long.
    fn whole_lines(&mut self) -> Vec<u8> {
        let whole = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None if self.rest.len() >= LONGEST_LINE => self.rest.len(),
            None => 0,
        };
        let rest = self.rest.split_off(whole);
        std::mem::replace(&mut self.rest, rest)
    }
}

fn write_out(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

/// Returns lines, each with a number before it and a newline behind it.
fn prefixed(lines: &[u8], number: u32, width: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(format!("[{number:width$}] ").as_bytes());
        text.extend_from_slice(line);
    }
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    text
}

/// Lets this process have more descriptors, if it may.
fn raise_limit(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(wanted, |most| wanted.min(most));
    if limit.current.is_some_and(|current| current < wanted) {
        // Without it, an error says so when the limit is reached.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_number() {
        let text = |lines: &[u8], number, width| String::from_utf8(prefixed(lines, number, width)).unwrap();
        assert_eq!(text(b"a\n\nb\n", 3, 2), "[ 3] a\n[ 3] \n[ 3] b\n");
        assert_eq!(text(b"a\nb", 12, 2), "[12] a\n[12] b\n");
        assert_eq!(text(b"", 12, 2), "");
        let mut output = Output { number: 0, is_error: false, rest: b"a\nb".to_vec() };
        assert_eq!((output.whole_lines(), &output.rest[..]), (b"a\n".to_vec(), &b"b"[..]));
        assert!(output.whole_lines().is_empty());
        output.rest = vec![b'x'; LONGEST_LINE];
        assert_eq!(output.whole_lines().len(), LONGEST_LINE);
        let widths = [1, 2, 10, 11, 100, 101].map(|count| Reader::new(count).unwrap().width);
        assert_eq!(widths, [1, 1, 1, 2, 2, 3]);
    }
}
