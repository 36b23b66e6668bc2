//! A session's moments, with what is needed to understand them.

use std::collections::BTreeMap;
use std::io;

use ledger::Account;
use ledger::moments;
use ledger::replay::Replay;
use ledger::stretch::Stretch;
use serde::{Deserialize, Serialize};
use wire::{Clock, Moment};

use crate::sorter::Sorted;

/// Moments that are played at once.
const PLAYED_AT_ONCE: usize = 4096;

/// Who is who.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cast {
    /// Names of processes of the session, and who started them.
    pub processes: BTreeMap<u32, Process>,
    /// Names of their threads; of an id that was used twice, the later.
    pub threads: BTreeMap<u32, Thread>,
    /// Names of others that were seen on CPUs.
    pub strangers: BTreeMap<u32, String>,
}

/// A process of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// The process that started it.
    pub parent: u32,
    /// Its command line, of those that the session was asked to watch.
    pub command: Vec<String>,
}

/// A thread of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its process.
    pub process: u32,
}

impl Cast {
    /// Those of an account, and others by their ids.
    #[must_use]
    pub fn of(account: &Account, strangers: BTreeMap<u32, String>) -> Cast {
        let mut cast = Cast { strangers, ..Cast::default() };
        for program in &account.programs {
            for (at, process) in program.processes.iter().enumerate() {
                let command = if at == 0 { program.command.clone() } else { Vec::new() };
                let told = Process { name: process.comm.clone(), parent: process.parent_pid, command };
                cast.processes.insert(process.pid, told);
                let threads = process.threads.iter();
                cast.threads.extend(threads.map(|t| (t.tid, Thread { name: t.comm.clone(), process: process.pid })));
            }
        }
        cast
    }

    /// What a thread is called, member or not; `None`: nobody knows.
    #[must_use]
    pub fn name(&self, tid: u32) -> Option<&str> {
        let member = self.threads.get(&tid).map(|thread| &thread.name);
        member.or_else(|| self.strangers.get(&tid)).map(String::as_str)
    }
}

/// What a session recorded.
#[derive(Debug)]
pub struct Recording {
    /// The window's start, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// CLOCK_BOOTTIME when CLOCK_MONOTONIC was 0: time that the machine has slept.
    pub boot_ns: u64,
    /// The time of day then, nanoseconds since 1970.
    pub epoch_ns: u64,
    /// One more than the highest CPU number.
    pub cpus: u32,
    /// Who is who.
    pub cast: Cast,
    /// What happened, in order.
    pub moments: Sorted<Moment>,
}

impl Recording {
    /// Calls `each` with what happened in the window, in order.
    ///
    /// # Errors
    /// What `each` says, and when moments cannot be read.
    pub fn each<E: From<io::Error>>(&self, mut each: impl FnMut(&Moment) -> Result<(), E>) -> Result<(), E> {
        let end_ns = self.end_ns;
        // BPF goes on for a moment when the window has ended.
        self.moments.each(|moment| if moment.t_ns <= end_ns { each(moment) } else { Ok(()) })
    }

    /// Plays everything: hands on what threads did, each stretch when it ends, and yields their clocks as they were at the end, in order of birth.
    ///
    /// # Errors
    /// What `each` says, and when moments cannot be read.
    pub fn play<E: From<io::Error>>(&self, mut each: impl FnMut(&Stretch) -> Result<(), E>) -> Result<Vec<Clock>, E> {
        let mut replay = Replay::with_stretches();
        let mut played = 0;
        self.each(|moment| {
            moments::events(moment, |event| replay.push(event));
            played += 1;
            if played % PLAYED_AT_ONCE != 0 {
                return Ok(());
            }
            replay.advance(moment.t_ns);
            replay.take_stretches().iter().try_for_each(&mut each)
        })?;
        let clocks = replay.finish(self.end_ns);
        replay.take_stretches().iter().try_for_each(&mut each)?;
        Ok(clocks)
    }
}
