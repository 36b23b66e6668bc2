//! A session's moments, with what is needed to understand them.

use std::collections::BTreeMap;
use std::io;

use ledger::Account;
use ledger::moments;
use ledger::replay::Replay;
use ledger::stretch::Stretch;
use serde::{Deserialize, Serialize};
use wire::{Clock, Moment, Waiting};

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
    /// Why threads waited at places where they were sampled, for samples that only have the place's number.
    pub waits: Vec<Option<Waiting>>,
    /// What happened, in order.
    pub moments: Sorted<Moment>,
}

/// A piece of what a recording tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told<'t> {
    /// Something happened.
    Moment(&'t Moment),
    /// A thread did something until now, or until earlier.
    Stretch(&'t Stretch),
}

impl Recording {
    /// Calls `each` with what happened in the window, in order.
    ///
    /// # Errors
    /// What `each` says, and when moments cannot be read.
    pub fn each<E: From<io::Error>>(&self, mut each: impl FnMut(&Moment) -> Result<(), E>) -> Result<(), E> {
        let end_ns = self.end_ns;
        // BPF goes on for a moment when the window has ended.
        self.moments.each(|moment| if moment.t_ns <= end_ns { each(&moment.resolved(&self.waits)) } else { Ok(()) })
    }

    /// Plays everything: hands on what happened, in order, and between that what threads did, each stretch when it ends. Yields their clocks as they
    /// were at the end, in order of birth.
    ///
    /// # Errors
    /// What `each` says, and when moments cannot be read.
    pub fn tell<E: From<io::Error>>(&self, mut each: impl FnMut(Told<'_>) -> Result<(), E>) -> Result<Vec<Clock>, E> {
        let mut replay = Replay::with_stretches();
        let mut played = 0;
        self.each(|moment| {
            each(Told::Moment(moment))?;
            moments::events(moment, |event| replay.push(event));
            played += 1;
            if played % PLAYED_AT_ONCE != 0 {
                return Ok(());
            }
            replay.advance(moment.t_ns);
            replay.take_stretches().iter().try_for_each(|stretch| each(Told::Stretch(stretch)))
        })?;
        let clocks = replay.finish(self.end_ns);
        replay.take_stretches().iter().try_for_each(|stretch| each(Told::Stretch(stretch)))?;
        Ok(clocks)
    }

    /// Plays everything for what threads did: [`tell`](Recording::tell) without moments.
    ///
    /// # Errors
    /// What `each` says, and when moments cannot be read.
    pub fn play<E: From<io::Error>>(&self, mut each: impl FnMut(&Stretch) -> Result<(), E>) -> Result<Vec<Clock>, E> {
        self.tell(|told| match told {
            Told::Stretch(stretch) => each(stretch),
            Told::Moment(_) => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use wire::{Left, What};

    use super::*;
    use crate::sorter::Sorter;

    /// Two threads take turns on a CPU, for so many switches.
    fn recording(switches: u64) -> Recording {
        let mut sorter = Sorter::new(&std::env::temp_dir()).unwrap();
        for tid in [7, 8] {
            sorter.push(Moment::new(0, 0, What::Born { tid, tgid: 7, parent_tgid: 1 })).unwrap();
        }
        for n in 1..=switches {
            let (out, into) = if n % 2 == 0 { (7, 8) } else { (8, 7) };
            let left = Left::Preempted { yielded: false };
            let (out_is_member, in_is_member) = (n > 1, true);
            let what = What::Switch { out, left, out_is_member, into, in_is_member, in_cause: None };
            sorter.push(Moment::new(10 * n, 0, what)).unwrap();
        }
        let end_ns = 10 * switches + 5;
        let moments = sorter.sorted().unwrap();
        Recording {
            start_ns: 0,
            end_ns,
            boot_ns: 0,
            epoch_ns: 0,
            cpus: 1,
            cast: Cast::default(),
            waits: Vec::new(),
            moments,
        }
    }

    #[test]
    fn what_is_told_at_once_is_what_is_told_apart() {
        let recording = recording(3 * PLAYED_AT_ONCE as u64);
        let (mut happened, mut did) = (Vec::new(), Vec::new());
        recording
            .each(|moment| -> io::Result<()> {
                happened.push(*moment);
                Ok(())
            })
            .unwrap();
        let clocks = recording
            .play(|stretch| -> io::Result<()> {
                did.push(*stretch);
                Ok(())
            })
            .unwrap();
        // Each turn, and each wait for one.
        assert!(did.len() > 2 * 3 * PLAYED_AT_ONCE && clocks.len() == 2, "{}", did.len());
        let mut stretches = did.iter();
        let mut moments = happened.iter();
        let told = recording.tell(|told| -> io::Result<()> {
            match told {
                Told::Moment(moment) => assert_eq!(Some(moment), moments.next()),
                Told::Stretch(stretch) => assert_eq!(Some(stretch), stretches.next()),
            }
            Ok(())
        });
        assert_eq!((told.unwrap().len(), moments.next(), stretches.next()), (2, None, None));
    }
}
