//! Keeping what happened when, for traces: moments as they come, and names of strangers while they live.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ledger::Account;
use machine::Root;
use machine::process::Task;
use trace::sorter::Sorter;
use trace::{Cast, Recording};
use wire::layout::{ANOTHER_USERS, ANOTHER_USERS_NAME};
use wire::{Cause, Clock, Living, Moment, Record, Sample, State, Waiting, What};

/// Takes moments during a session.
pub struct Recorder {
    moments: Sorter<Moment>,
    /// Where those are that do not fit in memory.
    folder: PathBuf,
    /// Threads on CPUs that are not ours, whose names were looked up.
    looked_up: HashSet<u32>,
    strangers: BTreeMap<u32, String>,
    /// Bytes in which they come.
    pub buffer: u32,
    /// Why nothing more is kept: the account goes on without a trace.
    failed: Option<io::Error>,
}

impl Recorder {
    /// They come by a ring of `buffer` bytes. What does not fit in memory goes to `folder`, into a file without a name.
    pub fn new(folder: &Path, buffer: u32) -> Result<Recorder> {
        let moments = Sorter::new(folder).with_context(|| cannot(folder))?;
        let strangers = BTreeMap::from([(ANOTHER_USERS, ANOTHER_USERS_NAME.to_owned())]);
        let (folder, looked_up) = (folder.to_path_buf(), HashSet::from([ANOTHER_USERS]));
        Ok(Recorder { moments, folder, looked_up, strangers, buffer, failed: None })
    }

    /// Keeps moments, as long as there is room.
    pub fn take(&mut self, moments: &mut Vec<Moment>) {
        for moment in moments.drain(..) {
            if self.failed.is_some() {
                continue;
            }
            if let Some(What::Switch { into, in_is_member: false, .. }) = moment.what() {
                self.look_up(into);
            }
            self.failed = self.moments.push(moment).err();
        }
    }

    /// Keeps a sample of the code at a place. What a thread does there is known when the session is over.
    pub fn sample(&mut self, sample: &Sample, place: u32) {
        if self.failed.is_none() {
            self.failed = self.moments.push(Moment::sampled(sample.t_ns, sample.tid, place)).err();
        }
    }

    /// Names are asked for a tenth of a second after the fact, at most: who has gone by then stays a number.
    fn look_up(&mut self, tid: u32) {
        if tid == 0 || !self.looked_up.insert(tid) {
            return;
        }
        if let Ok(stat) = Task::process(&Root::live(), tid).stat() {
            self.strangers.insert(tid, stat.comm);
        }
    }

    /// Everything, once the session is over. `record` is what was observed meanwhile, `waits` why threads waited where they were sampled.
    ///
    /// # Errors
    /// When not everything could be kept.
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
                let moment = Moment::new(*until_ns, clock.cpu, What::Why { tid: clock.tid, cause });
                self.moments.push(moment).with_context(|| cannot(&self.folder))?;
            }
        }
        let (monotonic_ns, boot_ns, epoch_ns) = arch::clock::three_at_once();
        Ok(Recording {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            boot_ns: boot_ns.saturating_sub(monotonic_ns),
            epoch_ns: epoch_ns.saturating_sub(monotonic_ns),
            cpus,
            cast: Cast::of(account, self.strangers),
            waits: waits.to_vec(),
            moments: self.moments.sorted().with_context(|| cannot(&self.folder))?,
        })
    }
}

fn cannot(folder: &Path) -> String {
    format!("cannot keep the trace in '{}'", folder.display())
}

/// Why a thread is blocked that still is: by a descriptor, that was looked up only now.
fn open_cause(clock: &Clock) -> Option<Cause> {
    let is_blocked = State::from_wire(clock.state) == State::Blocked;
    Cause::ALL.get(usize::from(clock.cause)).copied().filter(|_| is_blocked)
}
