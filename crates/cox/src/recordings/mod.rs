//! Recordings of cox and of perf, and messages on what a recording lacks.

pub mod kuhn;
pub mod noise;
pub mod perf;
pub mod phases;
mod thread_table;
pub mod timehist;

use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Result;
use report::Document;
use trace::{Recording, session};

/// Number of bytes per read.
pub const PIECE: usize = 1 << 20;

/// What the caller provides for reading a recording: event formats, if the recording has none, and
/// the output of messages.
pub struct Around<'a> {
    /// Returns the event formats of this machine, for a recording without its own.
    pub known: &'a dyn Fn() -> Vec<perfdata::Format>,
    /// Tells the user what a recording lacks.
    pub say: &'a dyn Fn(&str),
}

/// Opens the recording; `-` is stdin. A pipe is read as a stream.
pub fn open(path: &Path) -> io::Result<File> {
    if path == Path::new("-") { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) }
}

/// Reads a trace of cox.
pub fn read(file: &mut impl BufRead, folder: &Path) -> Result<(Recording, Document)> {
    let (recording, report) = session::read(file, folder)?;
    Ok((recording, Document::read(&report)?))
}

/// Tells the user what a recording of perf lacks.
fn say_what_lacks(ending: &perfdata::Ending, around: &Around<'_>) {
    let say = around.say;
    let perfdata::Ending { cut, late, lost, switches, wakings, unclear, borrowed_formats, .. } = ending;
    if let Some(perfdata::Cut { at_bytes, why }) = cut {
        say(&format!("the recording is complete up to byte {at_bytes}, and the report covers only that part: {why}"));
    }
    if *borrowed_formats {
        say(
            "the recording is cut off and does not describe the layouts of its events; cox used the layouts of this machine's kernel",
        );
    }
    if *lost > 0 {
        say(&format!("perf lost {lost} events while it recorded: times around them are wrong or unknown"));
    }
    if *unclear > 0 {
        say(&format!("lines about switches and wake-ups in a form that cox does not know: {unclear}"));
    }
    if *switches == 0 {
        say("the recording has no switches (sched_switch): which thread ran when is unknown");
    }
    if *wakings == 0 {
        say("the recording has no wake-ups (sched_waking, sched_wakeup): wake delays are unknown");
    }
    if *late > 0 {
        say(&format!("{late} events of the recording were too far out of order to be sorted"));
    }
}

/// Returns the event formats of this machine, for a recording without its own.
pub fn known_formats() -> Vec<perfdata::Format> {
    let texts = machine::tracepoints::scheduler_formats(&machine::Root::live());
    texts.iter().filter_map(|text| perfdata::Format::parse(text)).collect()
}
