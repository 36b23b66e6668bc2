//! The trace events of a session, with the data needed to interpret them.

use std::collections::BTreeMap;
use std::io;

use ledger::Account;
use ledger::replay::Replay;
use ledger::stretch::Stretch;
use ledger::trace_events;
use serde::{Deserialize, Serialize};
use wire::{Clock, TraceEvent, Waiting};

use crate::sorter::Sorted;

/// Number of trace events that are passed to the replay before it processes them.
const PLAYED_AT_ONCE: usize = 4096;

/// Names of threads and processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTable {
    /// Processes of the session, by process id.
    pub processes: BTreeMap<u32, Process>,
    /// Threads of the session, by thread id. If an id was reused, the entry is the later thread.
    pub threads: BTreeMap<u32, Thread>,
    /// Names of untracked threads that were seen on CPUs.
    #[serde(alias = "strangers")]
    pub untracked: BTreeMap<u32, String>,
}

/// A process of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Name of the process.
    pub name: String,
    /// Id of the process that started it.
    pub parent: u32,
    /// Command line. Only for processes that the session was asked to observe.
    pub command: Vec<String>,
}

/// A thread of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Name of the thread.
    pub name: String,
    /// Process id of the thread.
    pub process: u32,
}

impl ThreadTable {
    /// Collects the names of processes and tracked threads from an account. `untracked` has the names of the other
    /// threads, by id.
    #[must_use]
    pub fn of(account: &Account, untracked: BTreeMap<u32, String>) -> ThreadTable {
        let mut thread_table = ThreadTable { untracked, ..ThreadTable::default() };
        for program in &account.programs {
            for (at, process) in program.processes.iter().enumerate() {
                let command = if at == 0 { program.command.clone() } else { Vec::new() };
                let told = Process { name: process.comm.clone(), parent: process.parent_pid, command };
                thread_table.processes.insert(process.pid, told);
                let named = process.threads.iter().map(|thread| (thread.tid, thread.comm.clone()));
                let threads = named.map(|(tid, name)| (tid, Thread { name, process: process.pid }));
                thread_table.threads.extend(threads);
            }
        }
        thread_table
    }

    /// Returns the name of a thread, tracked or not; `None` if the name is unknown.
    #[must_use]
    pub fn name(&self, tid: u32) -> Option<&str> {
        let tracked = self.threads.get(&tid).map(|thread| &thread.name);
        tracked.or_else(|| self.untracked.get(&tid)).map(String::as_str)
    }
}

/// The recording of a session.
#[derive(Debug)]
pub struct Recording {
    /// Start of the observation on CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    /// End of the observation on CLOCK_MONOTONIC, nanoseconds.
    pub end_ns: u64,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC, nanoseconds: the time for which the machine was suspended.
    pub boot_ns: u64,
    /// Time of day minus CLOCK_MONOTONIC, nanoseconds since 1970.
    pub epoch_ns: u64,
    /// Highest CPU number, plus one.
    pub cpus: u32,
    /// Names of the session's threads and processes.
    pub thread_table: ThreadTable,
    /// For each place in the code that was sampled: what a thread waits for there; `None` if the thread works there. A sample may contain only the
    /// number of its place.
    pub waits: Vec<Option<Waiting>>,
    /// The trace events, in order of time.
    pub trace_events: Sorted<TraceEvent>,
}

/// An item of the replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayItem<'t> {
    /// A trace event.
    TraceEvent(&'t TraceEvent),
    /// A stretch: an interval in which a thread had one state. It ended at or before the current time.
    Stretch(&'t Stretch),
}

impl Recording {
    /// Calls `each` with the trace events from the start to the end of the observation, in order.
    ///
    /// # Errors
    /// Errors of `each`, and failures to read the trace events.
    pub fn each<E: From<io::Error>>(&self, mut each: impl FnMut(&TraceEvent) -> Result<(), E>) -> Result<(), E> {
        let end_ns = self.end_ns;
        // The BPF programs continue briefly after the end of the observation, so later trace events are skipped here.
        self.trace_events.each(|trace_event| {
            if trace_event.t_ns <= end_ns { each(&trace_event.resolved(&self.waits)) } else { Ok(()) }
        })
    }

    /// Replays the recording. Calls `each` with the trace events in order and, between them, with each interval in
    /// which a thread had one state (a stretch), after its end. Returns for each thread its times in each state (its
    /// clock), ordered by start time.
    ///
    /// # Errors
    /// Errors of `each`, and failures to read the trace events.
    pub fn tell<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(ReplayItem<'_>) -> Result<(), E>,
    ) -> Result<Vec<Clock>, E> {
        let mut replay = Replay::with_stretches();
        let mut played = 0;
        self.each(|trace_event| {
            each(ReplayItem::TraceEvent(trace_event))?;
            trace_events::events(trace_event, |event| replay.push(event));
            played += 1;
            if played % PLAYED_AT_ONCE != 0 {
                return Ok(());
            }
            replay.advance(trace_event.t_ns);
            replay.take_stretches().iter().try_for_each(|stretch| each(ReplayItem::Stretch(stretch)))
        })?;
        let clocks = replay.finish(self.end_ns);
        replay.take_stretches().iter().try_for_each(|stretch| each(ReplayItem::Stretch(stretch)))?;
        Ok(clocks)
    }

    /// Replays the recording like [`tell`](Recording::tell), but passes only stretches (intervals in which a thread
    /// had one state) to `each`, and no trace events.
    ///
    /// # Errors
    /// Errors of `each`, and failures to read the trace events.
    pub fn play<E: From<io::Error>>(&self, mut each: impl FnMut(&Stretch) -> Result<(), E>) -> Result<Vec<Clock>, E> {
        self.tell(|told| match told {
            ReplayItem::Stretch(stretch) => each(stretch),
            ReplayItem::TraceEvent(_) => Ok(()),
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
            sorter.push(TraceEvent::new(0, 0, What::Born { tid, tgid: 7, parent_tgid: 1 })).unwrap();
        }
        for n in 1..=switches {
            let (out, into) = if n % 2 == 0 { (7, 8) } else { (8, 7) };
            let left = Left::Preempted { yielded: false };
            let (out_is_member, in_is_member) = (n > 1, true);
            let what = What::Switch { out, left, out_is_member, into, in_is_member, in_cause: None };
            sorter.push(TraceEvent::new(10 * n, 0, what)).unwrap();
        }
        let end_ns = 10 * switches + 5;
        let trace_events = sorter.sorted().unwrap();
        Recording {
            start_ns: 0,
            end_ns,
            boot_ns: 0,
            epoch_ns: 0,
            cpus: 1,
            thread_table: ThreadTable::default(),
            waits: Vec::new(),
            trace_events,
        }
    }

    #[test]
    fn what_is_told_at_once_is_what_is_told_apart() {
        let recording = recording(3 * PLAYED_AT_ONCE as u64);
        let (mut happened, mut did) = (Vec::new(), Vec::new());
        recording
            .each(|trace_event| -> io::Result<()> {
                happened.push(*trace_event);
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
        let mut trace_events = happened.iter();
        let told = recording.tell(|told| -> io::Result<()> {
            match told {
                ReplayItem::TraceEvent(trace_event) => assert_eq!(Some(trace_event), trace_events.next()),
                ReplayItem::Stretch(stretch) => assert_eq!(Some(stretch), stretches.next()),
            }
            Ok(())
        });
        assert_eq!((told.unwrap().len(), trace_events.next(), stretches.next()), (2, None, None));
    }
}
