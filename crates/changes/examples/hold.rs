//! Holds the threads of a process on some CPUs until standard input ends, and puts them back: also when
//! it is killed.
//!
//! `hold BOOK-FOLDER CPUS PID`; it calls itself as `hold guard JOURNAL`.

use std::env;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::{self, Command};

use changes::guardian::{Guardian, guard};
use changes::{Book, Claim, Desire, Knob, LiveHands, Session};
use machine::Root;
use machine::process::Task;

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
    let mut session = Session::begin(&hands, Book::at(folder), process::id(), &arguments.join(" "), |journal| {
        let mut command = Command::new("/proc/self/exe");
        command.arg("guard").arg(journal);
        let failed = |source| changes::Error::Journal { path: journal.to_owned(), source };
        Guardian::post(command).map(Some).map_err(failed)
    })?;
    let threads = Task::process(&Root::live(), pid).threads()?;
    let desires: Vec<Desire> = threads
        .into_iter()
        .filter_map(|tid| hands.thread(tid).ok())
        .map(|thread| Desire {
            engine: "hold".into(),
            knob: Knob::Affinity(thread),
            claim: Claim::Within(machine::CpuSet::clone(&cpus)),
        })
        .collect();
    session.take(desires)?;
    println!("holding {}", session.taken().len());
    io::copy(&mut io::stdin(), &mut io::sink())?;
    let undone = session.end()?;
    println!("restored {}", undone.restored);
    Ok(())
}
