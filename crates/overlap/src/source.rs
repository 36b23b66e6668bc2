//! Creates the pages (memory) that each process of the session shares with cox, and keeps a list of the processes that have pages.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use broker::caller::Pidfd;
use broker::ebpf;
use outputs::diagnostics::chain;
use rustix::io::Errno;
use watch::umt::{Doorbells, Given, Pages};
use wire::umt::{How, PROCESSES};

use crate::memory;
use crate::sums::Sums;

/// Creates the pages (memory shared with cox) for each process that requests them, and sums up the counts in them.
pub struct Source {
    /// Doorbells, with which BPF wakes standby threads. `None` without BPF: then the pages are plain memory, and only the processes themselves write
    /// to them.
    bells: Option<Box<dyn Doorbells>>,
    /// How blocked threads are noticed.
    pub how: How,
    clients: Vec<Client>,
    /// Number of the next process that registers. Not used with BPF, which assigns the numbers itself.
    next: u32,
    /// Sums over the processes that have ended, and the number of refused requests.
    past: Sums,
}

/// Takes the lock on a source.
pub fn lock(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client: a process that has registered. It has a number in the session.
struct Client {
    process: u32,
    /// The pages of the process. `None`: they could not be mapped, and the process did not get them.
    pages: Option<Pages>,
    since: Instant,
    /// An open handle of the process; or the error of opening it.
    handle: Result<Pidfd, Errno>,
    /// When the client disconnected; `None` while it is connected.
    hung_up: Option<Instant>,
}

/// Upper limit of the time from the end of a process until BPF has counted the last switch of its last thread.
const LAST_SWITCH: Duration = Duration::from_millis(100);

impl Client {
    fn new(process: u32, pages: Option<Pages>, pid: u32) -> Client {
        Client { process, pages, since: Instant::now(), handle: Pidfd::open(pid), hung_up: None }
    }

    /// Returns whether no thread of the process is left, and BPF has counted the last switches of its threads.
    fn is_gone(&self) -> bool {
        let has_ended = || match &self.handle {
            Ok(handle) => handle.has_ended(),
            // ESRCH: the process has ended. After any other error it may still live.
            Err(why) => *why == Errno::SRCH,
        };
        self.hung_up.is_some_and(|since| since.elapsed() > LAST_SWITCH) && has_ended()
    }
}

impl Source {
    pub fn bpf() -> Result<Source> {
        Ok(Source::new(Some(ebpf::doorbells()?), How::Bpf))
    }

    /// Makes a source for processes that learn of blocked threads from perf's records of context switches. Fails if this user may not open
    /// such records.
    pub fn records(how: How) -> Result<Source> {
        umt_client::records::probe().context(
            "the kernel does not let a program record its own context switches (perf events). Fix: sysctl kernel.perf_event_paranoid=2, \
             or use --overlap=standby-idle",
        )?;
        Ok(Source::memory(how))
    }

    pub fn memory(how: How) -> Source {
        Source::new(None, how)
    }

    /// Returns a source for the best backend that works here (eBPF, else perf records, else sentinels), and why the better ones do not work.
    pub fn best() -> Result<(Option<Source>, Option<String>)> {
        let by_bpf = match Source::bpf() {
            Ok(source) => return Ok((Some(source), None)),
            Err(why) => format!("overlap does not use eBPF: {}", chain(&why)),
        };
        match Source::records(How::Records) {
            Ok(source) => Ok((Some(source), Some(by_bpf))),
            Err(why) => Ok((
                Some(Source::memory(How::Sentinels)),
                Some(format!("{by_bpf}; it does not use perf either: {}", chain(&why))),
            )),
        }
    }

    fn new(bells: Option<Box<dyn Doorbells>>, how: How) -> Source {
        Source { bells, how, clients: Vec::new(), next: 0, past: Sums::default() }
    }

    /// Answers the request of the process `pid` for pages and doorbells: returns their descriptors, or why the request is refused. Counts refused
    /// requests.
    pub fn give_or_count(&mut self, pid: u32) -> Result<Given> {
        self.forget_gone();
        self.give(pid).inspect_err(|why| {
            self.past.reasons.refused = self.past.reasons.refused.saturating_add(1);
            self.past.refusal = Some(chain(why));
        })
    }

    fn give(&mut self, pid: u32) -> Result<Given> {
        let given = match &mut self.bells {
            Some(bells) => bells.give(pid)?,
            None => {
                let is_room = self.clients.len() < PROCESSES;
                anyhow::ensure!(is_room, "the session has its maximum of {PROCESSES} processes already");
                self.next += 1;
                memory::give(self.next - 1)?
            }
        };
        match Pages::map(given.program_page.as_fd(), given.kernel_page.as_fd()) {
            Ok(pages) => {
                self.clients.push(Client::new(given.process, Some(pages), pid));
                Ok(given)
            }
            Err(why) => {
                // eBPF already counts the threads of this process under its number. So the number is freed only when the process has ended, as that
                // of any other process.
                self.clients.push(Client::new(given.process, None, pid));
                self.over(given.process);
                Err(why).context("mapping a process's pages")
            }
        }
    }

    /// Marks a process as disconnected: it has ended, or wants no more doorbells.
    pub fn over(&mut self, process: u32) {
        if let Some(bells) = &mut self.bells {
            bells.over(process);
        }
        for client in self.clients.iter_mut().filter(|client| client.process == process) {
            client.hung_up.get_or_insert_with(Instant::now);
        }
    }

    /// Adds the sums of processes that are gone to `past`, and frees their numbers. A freed number is given to another process later, with new pages.
    fn forget_gone(&mut self) {
        let gone = self.clients.extract_if(.., |client| client.is_gone()).collect::<Vec<_>>();
        self.past = self.sums(&gone);
        if let Some(bells) = &mut self.bells {
            gone.iter().for_each(|client| bells.gone(client.process));
        }
    }

    /// Returns the sums of earlier processes (`past`) plus those of `clients`.
    fn sums(&self, clients: &[Client]) -> Sums {
        let with_pages = clients.iter().filter_map(|client| client.pages.as_ref().map(|pages| (client, pages)));
        with_pages.fold(self.past.clone(), |sums, (client, pages)| {
            sums.add(pages.program_page(), pages.kernel_page(), self.how, client.since.elapsed())
        })
    }

    /// Ends counting: the session is over. Returns the sums of all processes.
    pub fn end(&mut self) -> Sums {
        if let Some(bells) = &mut self.bells {
            bells.end();
        }
        self.past = self.sums(&self.clients);
        self.clients.clear();
        self.past.clone()
    }

    /// Returns a descriptor that hangs up when the process that wakes standby threads for cox (rings their doorbells) ends. `None`: the backend is
    /// not BPF, or this process itself wakes them.
    pub fn lifeline(&self) -> io::Result<Option<OwnedFd>> {
        let lifeline = self.bells.as_ref().and_then(|bells| bells.lifeline());
        lifeline.map(|fd| fd.try_clone_to_owned()).transpose()
    }

    /// Notes that the process that rings doorbells (wakes standby threads) has ended.
    pub fn is_lost(&mut self) {
        self.past.reasons.lost = 1;
    }

    /// Prepares the pages of the next process, so that it gets them sooner. Ignores errors, since the next `give` reports them.
    pub fn prepare(&mut self) {
        if let Some(bells) = &mut self.bells {
            let _ = bells.prepare();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};
    use std::sync::{Arc, Mutex};

    use watch::WatchError;

    use super::*;

    /// Simulates the kernel side: it has a number for only one process at a time, and the first pages that it gives cannot be mapped.
    #[derive(Default)]
    struct One {
        is_taken: bool,
        is_second: bool,
        /// The names of the functions that were called about the number.
        calls: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Doorbells for One {
        fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
            if std::mem::replace(&mut self.is_taken, true) {
                return Err(WatchError::NoTarget { pid, why: "too many".into() });
            }
            if std::mem::replace(&mut self.is_second, true) {
                return Ok(memory::give(0).unwrap());
            }
            let unmappable = || File::open("/dev/null").unwrap().into();
            Ok(Given { process: 0, program_page: unmappable(), kernel_page: unmappable(), bells: Vec::new() })
        }

        fn prepare(&mut self) -> Result<(), WatchError> {
            Ok(())
        }

        fn over(&mut self, _process: u32) {
            self.calls.lock().unwrap().push("over");
        }

        fn gone(&mut self, _process: u32) {
            self.is_taken = false;
            self.calls.lock().unwrap().push("gone");
        }

        fn end(&mut self) {}
    }

    /// If a process's pages cannot be mapped, its number is freed for another process only when the process has ended: until then, eBPF still counts
    /// its threads under this number.
    #[test]
    fn a_process_without_pages_keeps_its_number_until_it_has_ended() {
        let mut asks = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let mut source = Source::new(Some(Box::new(One { calls: Arc::clone(&calls), ..One::default() })), How::Bpf);
        let why = chain(&source.give_or_count(asks.id()).unwrap_err());
        assert!(why.contains("mapping a process's pages"), "{why}");
        assert_eq!(*calls.lock().unwrap(), ["over"], "none of its standbys can be rung");
        let since = Instant::now();
        // Longer than the time after which the last switch of an ended process has been counted.
        while since.elapsed() < 2 * LAST_SWITCH {
            let why = chain(&source.give_or_count(std::process::id()).unwrap_err());
            assert!(why.contains("too many"), "it lives: {why}");
        }
        drop(asks.stdin.take());
        asks.wait().unwrap();
        while source.give_or_count(std::process::id()).is_err() {
            assert!(since.elapsed() < Duration::from_secs(60), "its number does not come back");
        }
        assert_eq!(*calls.lock().unwrap(), ["over", "gone"]);
        let sums = source.end();
        assert_eq!((sums.counts.processes, sums.reasons.refused > 1), (1, true), "the refused one has said nothing");
    }
}
