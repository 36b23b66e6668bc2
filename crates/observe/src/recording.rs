//! Collects what a trace needs: trace events as they arrive, and the names of untracked threads while these live.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ledger::Account;
use machine::Root;
use machine::process::Task;
use trace::sorter::Sorter;
use trace::{Recording, ThreadTable};
use wire::layout::{ANOTHER_USERS, ANOTHER_USERS_NAME};
use wire::{Cause, Clock, Living, Record, Sample, State, TraceEvent, Waiting, What};

/// Collects trace events during a session.
pub struct Recorder {
    trace_events: Sorter<TraceEvent>,
    /// Folder for the events that do not fit in memory.
    folder: PathBuf,
    /// Untracked threads whose names were looked up.
    looked_up: HashSet<u32>,
    untracked: BTreeMap<u32, String>,
    /// Size of the ring buffer for trace events, in bytes.
    pub buffer: u32,
    /// The error after which no more trace events are kept. The session continues, and has an account but no trace.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Makes a recorder for trace events that arrive in a ring of `buffer` bytes. Events that do not fit in memory go to `folder`, into a
    /// file without a name.
    pub fn new(folder: &Path, buffer: u32) -> Result<Recorder> {
        let trace_events = Sorter::new(folder).with_context(|| cannot(folder))?;
        let untracked = BTreeMap::from([(ANOTHER_USERS, ANOTHER_USERS_NAME.to_owned())]);
        let (folder, looked_up) = (folder.to_path_buf(), HashSet::from([ANOTHER_USERS]));
        Ok(Recorder { trace_events, folder, looked_up, untracked, buffer, failed: None })
    }

    /// Keeps trace events. After the first write error, they are dropped.
    pub fn take(&mut self, trace_events: &mut Vec<TraceEvent>) {
        for trace_event in trace_events.drain(..) {
            if self.failed.is_some() {
                continue;
            }
            if let Some(What::Switch { into, in_is_member: false, .. }) = trace_event.what() {
                self.look_up(into);
            }
            self.failed = self.trace_events.push(trace_event).err();
        }
    }

    /// Keeps a sample at a place in the code. Whether threads wait at that place is known only when the session is over.
    pub fn sample(&mut self, sample: &Sample, place: u32) {
        if self.failed.is_none() {
            self.failed = self.trace_events.push(TraceEvent::sampled(sample.t_ns, sample.tid, place)).err();
        }
    }

    /// Looks up the name of an untracked thread, at most a tenth of a second after the thread's event. If the thread has ended by then, the trace
    /// shows its id.
    fn look_up(&mut self, tid: u32) {
        if tid == 0 || !self.looked_up.insert(tid) {
            return;
        }
        if let Ok(stat) = Task::process(&Root::live(), tid).stat() {
            self.untracked.insert(tid, stat.comm);
        }
    }

    /// Returns the recording, once the session is over. `record`: what was observed in the same session. `waits`: for each sampled place in the code,
    /// why threads waited there; the index is the place's number.
    ///
    /// # Errors
    /// Fails if some trace events could not be kept.
    pub fn finish(
        mut self,
        record: &Record,
        account: &Account,
        waits: &[Option<Waiting>],
        cpus: u32,
    ) -> Result<Recording> {
        if let Some(error) = self.failed {
            return Err(error).with_context(|| cannot(&self.folder));
        }
        for Living { clock, until_ns } in &record.living {
            if let Some(cause) = open_cause(clock) {
                let trace_event = TraceEvent::new(*until_ns, clock.cpu, What::Why { tid: clock.tid, cause });
                self.trace_events.push(trace_event).with_context(|| cannot(&self.folder))?;
            }
        }
        let (monotonic_ns, boot_ns, epoch_ns) = arch::clock::three_at_once();
        Ok(Recording {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            boot_ns: boot_ns.saturating_sub(monotonic_ns),
            epoch_ns: epoch_ns.saturating_sub(monotonic_ns),
            cpus,
            thread_table: ThreadTable::of(account, self.untracked),
            waits: waits.to_vec(),
            trace_events: self.trace_events.sorted().with_context(|| cannot(&self.folder))?,
        })
    }
}

fn cannot(folder: &Path) -> String {
    format!("cannot keep the trace in '{}'", folder.display())
}

/// Returns why a thread is blocked; `None` if it is not blocked. The cause may depend on what a file descriptor refers to (a file, a socket, a pipe).
/// The trace does not have such a cause yet, because the descriptor is looked up only when the thread runs again or the session ends.
fn open_cause(clock: &Clock) -> Option<Cause> {
    let is_blocked = State::from_wire(clock.state) == State::Blocked;
    Cause::ALL.get(usize::from(clock.cause)).copied().filter(|_| is_blocked)
}
