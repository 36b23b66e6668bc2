//! Packs the threads of a process on some CPUs, moving them all the time and letting them run in SCHED_IDLE
//! at times, until standard input ends; then puts them back: also when it is killed.
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
use changes::{Book, Claim, Desire, Grip, Hands, Knob, LiveHands, Session, Setting, Thread, Value};
use machine::{CpuSet, Root};

/// How often it looks for newborn threads.
const LOOK: Duration = Duration::from_millis(5);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let hands = LiveHands::new(Root::live());
    let (folder, cpus, pid) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["guard", journal] => {
            guard(&hands, Path::new(journal))?;
            return Ok(());
        }
        [folder, cpus, pid] => (folder, cpus.parse()?, pid.parse()?),
        _ => return Err("usage: hold BOOK-FOLDER CPUS PID".into()),
    };
    let session = Session::begin(&hands, Book::at(folder), process::id(), &arguments.join(" "), |journal| {
        let mut command = Command::new("/proc/self/exe");
        command.arg("guard").arg(journal);
        let failed = |source| changes::Error::Journal { path: journal.to_owned(), source };
        Guardian::post(command).map(Some).map_err(failed)
    })?;
    let (give, given) = mpsc::channel();
    let mover = thread::spawn(move || move_all(&given));
    let mut holder = Holder { hands: &hands, session, leader: hands.thread(pid)?, cpus, known: BTreeSet::new() };
    let leader = holder.leader;
    holder.session.adopt(holder.desires(leader, &[]))?;
    for grip in holder.take(&[])? {
        give.send(grip)?;
    }
    println!("holding {}", holder.known.len());
    let (hang_up, hung_up) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(hang_up);
    });
    while hung_up.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        for grip in holder.take(&[leader])? {
            give.send(grip)?;
        }
    }
    // The mover still moves.
    let undone = holder.session.end()?;
    drop(give);
    mover.join().map_err(|_| "the mover panicked")?;
    println!("restored {} left {}", undone.restored, undone.left.len());
    Ok(())
}

struct Holder<'h> {
    hands: &'h LiveHands,
    session: Session<'h>,
    leader: Thread,
    cpus: CpuSet,
    known: BTreeSet<u32>,
}

impl Holder<'_> {
    /// The CPUs, and SCHED_IDLE where there is a way back from it.
    fn desires(&self, thread: Thread, heir_of: &[Thread]) -> Vec<Desire> {
        let desire = |knob, claim| Desire { engine: "hold".to_owned(), knob, claim, heir_of: heir_of.to_vec() };
        let mut desires = vec![desire(Knob::Affinity(thread), Claim::Within(self.cpus.clone()))];
        let knob = Knob::Scheduling(thread);
        if let Ok(now @ Value::Scheduling(scheduling)) = self.hands.read(&knob) {
            let idle = Value::Scheduling(scheduling.idle());
            if self.hands.way_back(&knob, &now, &idle).is_ok() {
                desires.push(desire(knob, Claim::AtTimes(idle)));
            }
        }
        desires
    }

    /// Takes the threads that it does not know yet.
    fn take(&mut self, heir_of: &[Thread]) -> Result<Vec<(Grip, Vec<Setting>)>, changes::Error> {
        let tids = self.hands.threads_of(self.leader)?;
        let threads: Vec<Thread> = tids
            .into_iter()
            .filter(|tid| self.known.insert(*tid))
            .filter_map(|tid| self.hands.thread(tid).ok())
            .collect();
        let desires: Vec<Desire> = threads.into_iter().flat_map(|thread| self.desires(thread, heir_of)).collect();
        self.session.take(desires.clone())?;
        Ok(desires.into_iter().filter_map(|desire| self.grip(desire).ok()).collect())
    }

    /// A grip, with what it is to set in turn. Fails when the thread has ended.
    fn grip(&self, desire: Desire) -> Result<(Grip, Vec<Setting>), changes::Error> {
        let grip = self.session.grip(&desire.knob)?;
        let values = match desire.claim {
            Claim::Within(cpus) => cpus.iter().map(|cpu| Value::Cpus([cpu].into_iter().collect())).collect(),
            Claim::Exactly(value) | Claim::AtTimes(value) => vec![value, grip.original().clone()],
        };
        let settings = values.iter().map(|value| grip.prepare(value)).collect::<Result<_, _>>()?;
        Ok((grip, settings))
    }
}

/// Sets one value after the other until the session ends.
fn move_all(given: &Receiver<(Grip, Vec<Setting>)>) {
    let mut grips: Vec<(Grip, Vec<Setting>)> = Vec::new();
    for turn in 0.. {
        grips.extend(given.try_iter());
        let mut has_ended = false;
        grips.retain(|(grip, settings)| match grip.apply(&settings[turn % settings.len()]) {
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
