//! Packs the threads of a process on some CPUs until standard input ends: moves them all the time, and lets them run
//! in SCHED_IDLE at times. Restores them at the end, even if it is killed.
//!
//! `hold BOOK-FOLDER CPUS PID`; it calls itself as `hold guard JOURNAL`.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::{self, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use changes::guardian::{Guardian, guard};
use changes::{
    ChangeRequest, Claim, JournalFolder, Knob, KnobHandle, KnobIo, LiveKnobIo, Session, Setting, Thread, Value,
};
use machine::{CpuSet, Root};

/// Time between two searches for new threads.
const LOOK: Duration = Duration::from_millis(5);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let knob_io = LiveKnobIo::new(Root::live());
    let (folder, cpus, pid) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["guard", journal] => {
            guard(&knob_io, Path::new(journal))?;
            return Ok(());
        }
        [folder, cpus, pid] => (folder, cpus.parse()?, pid.parse()?),
        _ => return Err("usage: hold BOOK-FOLDER CPUS PID".into()),
    };
    let session =
        Session::begin(&knob_io, JournalFolder::at(folder), process::id(), &arguments.join(" "), |journal| {
            let mut command = Command::new("/proc/self/exe");
            command.arg("guard").arg(journal);
            let failed = |source| changes::Error::Journal { path: journal.to_owned(), source };
            Guardian::post(command).map(Some).map_err(failed)
        })?;
    let (give, given) = mpsc::channel();
    let mover = thread::spawn(move || move_all(&given));
    let mut holder = Holder { knob_io: &knob_io, session, leader: knob_io.thread(pid)?, cpus, known: BTreeSet::new() };
    let leader = holder.leader;
    holder.session.adopt(holder.requests(leader, &[]))?;
    for handle in holder.take(&[])? {
        give.send(handle)?;
    }
    println!("holding {}", holder.known.len());
    let (hang_up, hung_up) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(hang_up);
    });
    while hung_up.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        for handle in holder.take(&[leader])? {
            give.send(handle)?;
        }
    }
    // The mover thread is still running here.
    let undone = holder.session.end();
    drop(give);
    mover.join().map_err(|_| "the mover panicked")?;
    println!("restored {} left {}", undone.restored, undone.left.len());
    Ok(())
}

struct Holder<'h> {
    knob_io: &'h LiveKnobIo,
    session: Session<'h>,
    leader: Thread,
    cpus: CpuSet,
    known: BTreeSet<u32>,
}

impl Holder<'_> {
    /// Requests the CPUs, and SCHED_IDLE if the thread could be restored from it.
    fn requests(&self, thread: Thread, heir_of: &[Thread]) -> Vec<ChangeRequest> {
        let request = |knob, claim| ChangeRequest { engine: "hold".to_owned(), knob, claim, heir_of: heir_of.to_vec() };
        let mut requests = vec![request(Knob::Affinity(thread), Claim::Within(self.cpus.clone()))];
        let knob = Knob::Scheduling(thread);
        if let Ok(now @ Value::Scheduling(scheduling)) = self.knob_io.read(&knob) {
            let idle = Value::Scheduling(scheduling.idle());
            if self.knob_io.way_back(&knob, &now, &idle).is_ok() {
                requests.push(request(knob, Claim::AtTimes(idle)));
            }
        }
        requests
    }

    /// Takes the threads that are not known yet.
    fn take(&mut self, heir_of: &[Thread]) -> Result<Vec<(KnobHandle, Vec<Setting>)>, changes::Error> {
        let tids = self.knob_io.threads_of(self.leader)?;
        let threads: Vec<Thread> = tids
            .into_iter()
            .filter(|tid| self.known.insert(*tid))
            .filter_map(|tid| self.knob_io.thread(tid).ok())
            .collect();
        let requests: Vec<ChangeRequest> =
            threads.into_iter().flat_map(|thread| self.requests(thread, heir_of)).collect();
        self.session.take(requests.clone())?;
        Ok(requests.into_iter().filter_map(|request| self.handle(request).ok()).collect())
    }

    /// Returns a handle, with the settings to apply in turn. Fails if the thread has ended.
    fn handle(&self, request: ChangeRequest) -> Result<(KnobHandle, Vec<Setting>), changes::Error> {
        let handle = self.session.handle(&request.knob)?;
        let values = match request.claim {
            Claim::Within(cpus) => cpus.iter().map(|cpu| Value::Cpus([cpu].into_iter().collect())).collect(),
            Claim::Exactly(value) | Claim::AtTimes(value) => vec![value, handle.original().clone()],
            Claim::Confined | Claim::Without { .. } => Vec::new(),
        };
        let settings = values.iter().map(|value| handle.prepare(value)).collect::<Result<_, _>>()?;
        Ok((handle, settings))
    }
}

/// Applies one setting after the other until the session ends.
fn move_all(given: &Receiver<(KnobHandle, Vec<Setting>)>) {
    let mut handles: Vec<(KnobHandle, Vec<Setting>)> = Vec::new();
    for turn in 0.. {
        handles.extend(given.try_iter());
        let mut has_ended = false;
        handles.retain(|(handle, settings)| match handle.apply(&settings[turn % settings.len()]) {
            Err(changes::Error::Ended(_)) => {
                has_ended = true;
                false
            }
            result => result.is_ok(),
        });
        if has_ended {
            return;
        }
        thread::sleep(LOOK);
    }
}
