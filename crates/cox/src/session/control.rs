//! How `cox pack set` reaches the session that packs a program.
//!
//! The session listens on a socket in Linux' abstract namespace, which has no file and goes with the process,
//! whatever ends it. Its name has the number of each process that was named, and of the PID namespace that
//! gave it. One line of JSON is asked, one is answered.

use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use machine::CpuSet;
use rustix::fs::stat;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{geteuid, getuid};
use serde::{Deserialize, Serialize};

use crate::cli::Cpus;

/// Whoever connects has the line ready.
const ASKING: Duration = Duration::from_millis(200);
/// The session looks every 100 ms, and takes all threads anew.
const ANSWERING: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    cpus: Option<String>,
    ncpus: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    PackedOn(String),
    Refused(String),
}

/// The session's side.
pub struct Control {
    listeners: Vec<UnixListener>,
}

/// Somebody who wants other CPUs.
pub struct Asked {
    stream: UnixStream,
    /// Which.
    pub wanted: Cpus,
}

impl Control {
    /// Listens for those who want something of these processes' session.
    ///
    /// # Errors
    /// When a name is taken, or the system refuses.
    pub fn open(pids: &[u32]) -> io::Result<Control> {
        let listen = |pid: &u32| {
            let listener = UnixListener::bind_addr(&address(*pid)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Ok(Control { listeners: pids.iter().map(listen).collect::<io::Result<_>>()? })
    }

    /// Whoever has asked since this was called last. Others than this user and root get no answer.
    pub fn asked(&self) -> Vec<Asked> {
        let waiting = self.listeners.iter().flat_map(|listener| std::iter::from_fn(|| listener.accept().ok()));
        waiting.filter_map(|(stream, _)| heard(stream).ok().flatten()).collect()
    }
}

impl Asked {
    /// Says which CPUs the program is packed on now, or why nothing has changed.
    pub fn answer(mut self, done: &Result<CpuSet>) {
        let answer = match done {
            Ok(cpus) => Answer::PackedOn(cpus.to_string()),
            Err(error) => Answer::Refused(format!("{error:#}")),
        };
        // Who no longer waits for the answer can ask again.
        let _ = say(&mut self.stream, &answer);
    }
}

/// Asks the session that packs `pid` to go on with other CPUs; returns which they are.
///
/// # Errors
/// When the process is not packed, or the session refuses.
pub fn ask(pid: u32, wanted: &Cpus) -> Result<CpuSet> {
    let connected = address(pid).and_then(|address| UnixStream::connect_addr(&address));
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(_) if pack::live::is_packed(pid)? => bail!("the session that packs process {pid} cannot be reached"),
        Err(_) => bail!("process {pid} is not packed; `cox pack` does that (for children name the first process)"),
    };
    let session = socket_peercred(&stream).context("asking whose session it is")?;
    if !geteuid().is_root() && session.uid != geteuid() {
        bail!("process {pid} is packed by another user");
    }
    stream.set_read_timeout(Some(ANSWERING))?;
    let question = Question { cpus: wanted.cpus.as_ref().map(CpuSet::to_string), ncpus: wanted.ncpus };
    say(&mut stream, &question).context("asking the session that packs it")?;
    match hear(&stream).context("waiting for the session that packs it")? {
        Answer::PackedOn(cpus) => cpus.parse().context("the answer of the session that packs it"),
        Answer::Refused(why) => bail!("{why}"),
    }
}

fn heard(stream: UnixStream) -> Result<Option<Asked>> {
    let asks = socket_peercred(&stream)?.uid;
    if asks != getuid() && asks != geteuid() && !asks.is_root() {
        return Ok(None);
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKING))?;
    stream.set_write_timeout(Some(ASKING))?;
    let question: Question = hear(&stream)?;
    let cpus = question.cpus.map(|list| list.parse()).transpose()?;
    Ok(Some(Asked { stream, wanted: Cpus { cpus, ncpus: question.ncpus } }))
}

fn say(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    stream.write_all(format!("{}\n", serde_json::to_string(what)?).as_bytes())
}

fn hear<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> Result<T> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn address(pid: u32) -> io::Result<SocketAddr> {
    let namespace = stat("/proc/self/ns/pid")?.st_ino;
    SocketAddr::from_abstract_name(format!("cox-pack-{namespace}-{pid}"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// No process has it.
    const PID: u32 = u32::MAX - 7;

    #[test]
    fn what_is_asked_is_heard_and_answered() {
        let control = Control::open(&[PID, PID + 1]).unwrap();
        for (wanted, refused) in [
            (Cpus { cpus: Some("0-3,8".parse().unwrap()), ncpus: None }, None),
            (Cpus { cpus: None, ncpus: Some(3) }, Some("there are only 2")),
        ] {
            let question = wanted.clone();
            let asking = thread::spawn(move || ask(PID + 1, &question).map_err(|error| error.to_string()));
            let asked = std::iter::repeat_with(|| control.asked().pop()).find_map(|asked| asked).unwrap();
            assert_eq!(asked.wanted, wanted);
            let cpus: CpuSet = "5,7".parse().unwrap();
            let done = refused.map_or_else(|| Ok(cpus.clone()), |why| Err(anyhow::anyhow!("{why}")));
            asked.answer(&done);
            assert_eq!(asking.join().unwrap(), refused.map_or(Ok(cpus), |why| Err(why.to_owned())));
        }
        assert!(Control::open(&[PID]).is_err(), "one session at a time");
    }

    #[test]
    fn who_talks_nonsense_is_not_heard() {
        let control = Control::open(&[PID + 2]).unwrap();
        for line in ["nonsense\n", "{\"cpus\": \"x\", \"ncpus\": null}\n", ""] {
            let mut stream = UnixStream::connect_addr(&address(PID + 2).unwrap()).unwrap();
            stream.write_all(line.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(control.asked().len(), 0, "{line}");
        }
        assert!(ask(PID + 3, &Cpus { cpus: None, ncpus: Some(1) }).unwrap_err().to_string().contains("is not packed"));
    }
}
