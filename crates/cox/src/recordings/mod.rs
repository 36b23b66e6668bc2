//! Recordings, of cox's and of perf's, and what they lack.

pub mod kuhn;
mod people;
pub mod perf;
pub mod timehist;

use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Result;
use report::Document;
use trace::{Recording, session};

/// Bytes that are read at once.
pub const PIECE: usize = 1 << 20;

/// What is not in the file.
pub struct Around<'a> {
    /// Layouts of this machine's events, for a recording that lost its own.
    pub known: &'a dyn Fn() -> Vec<perfdata::Format>,
    /// Tells the user what a recording lacks.
    pub say: &'a dyn Fn(&str),
}

/// The recording; `-` is stdin. What comes through a pipe is read as it comes.
pub fn open(path: &Path) -> io::Result<File> {
    if path == Path::new("-") { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) }
}

/// A recording of cox's.
pub fn read(file: &mut impl BufRead, folder: &Path) -> Result<(Recording, Document)> {
    let (recording, report) = session::read(file, folder)?;
    Ok((recording, Document::read(&report)?))
}

/// Says what a recording of perf's lacks.
fn say_what_lacks(ending: &perfdata::Ending, around: &Around<'_>) {
    let say = around.say;
    let perfdata::Ending { cut, late, lost, switches, wakings, unclear, borrowed_formats, .. } = ending;
    if let Some(perfdata::Cut { at_bytes, why }) = cut {
        say(&format!("the recording is whole up to byte {at_bytes}, and the report covers only that part: {why}"));
    }
    if *borrowed_formats {
        say("the recording is cut off and lacks the layouts of its events; cox used those of this machine's kernel");
    }
    if *lost > 0 {
        say(&format!("perf lost {lost} events while it recorded: times around them are wrong or unknown"));
    }
    if *unclear > 0 {
        say(&format!("{unclear} lines on switches and wake-ups have a form that cox does not know"));
    }
    if *switches == 0 {
        say("the recording has no switches (sched_switch): which thread ran when is unknown");
    }
    if *wakings == 0 {
        say("the recording has no wake-ups (sched_waking, sched_wakeup): wake delays are unknown");
    }
    if *late > 0 {
        say(&format!("{late} events of the recording came too late to be sorted"));
    }
}

/// Layouts of this machine's events, for a recording that lost its own.
pub fn known_formats() -> Vec<perfdata::Format> {
    let texts = machine::tracepoints::scheduler_formats(&machine::Root::live());
    texts.iter().filter_map(|text| perfdata::Format::parse(text)).collect()
}
