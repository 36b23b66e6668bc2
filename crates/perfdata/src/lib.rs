//! What `perf sched record` wrote, and what `perf script` prints of it, as scheduler events and as moments.
//!
//! 1. [`read`] looks at the first bytes and reads a file in perf's file mode, its pipe mode, or text.
//! 2. `tracing` finds the formats of tracepoints in it, `format` where each field is; nothing of that is known beforehand.
//! 3. `attr` says where in a record its time, CPU and payload are; `records` cuts the stream into records, and unpacks those that are compressed.
//! 4. `decode` makes events of records, by the layout that `shape` found for their samples; `rounds` brings them in order. Buffers of several CPUs are
//!    in order up to a mark that perf writes; so no more than a window of events is held. `relay` lets a thread of its own read a long file ahead.
//! 5. [`crew`] makes [`wire::Moment`]s of events, for those who keep accounts.
//!
//! A file is anybody's: a length is a limit before it is believed, and what is cut off or damaged ends the reading, not the program.
#![forbid(unsafe_code)]

mod about;
mod attr;
mod bytes;
pub mod crew;
mod decode;
pub mod event;
mod format;
mod header;
mod records;
mod relay;
mod rounds;
mod script;
mod shape;
mod tracing;

use std::io::{self, BufRead, Seek};

pub use about::About;
pub use crew::Crew;
pub use event::{Comm, Event, Kind};
pub use format::Format;

/// First bytes of a file of perf's.
const MAGIC: &[u8; 8] = b"PERFILE2";
/// The same, written by a machine of the other byte order.
const OTHER_ENDIAN: &[u8; 8] = b"2ELIFREP";

/// Why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither perf's file nor its text.
    #[error("this is no trace of cox's, no recording of scheduler events by perf, and no text of perf script")]
    Foreign,
    /// Written where bytes are in the other order.
    #[error(
        "this was recorded on a big-endian machine, which cox does not read; perf script there makes text of it that cox reads"
    )]
    OtherEndian,
    /// There is no sense in it.
    #[error("this recording is damaged: {0}")]
    Damaged(&'static str),
    /// The layouts of its events are missing.
    #[error(
        "this recording was cut off before the layouts of its events, which perf writes last; perf sched record -o - | cat >FILE writes them first"
    )]
    NoFormats,
    /// perf recorded something else.
    #[error("there are no scheduler events in this recording; perf sched record makes them")]
    NoEvents,
    /// There are events in it, none of which could be understood.
    #[error(
        "the events in this text are in a form that cox does not know; cox report reads the recording itself, and perf script -F comm,tid,cpu,time,event,trace a form that it knows"
    )]
    UnknownForm,
    /// In perf's file mode, and cannot be read but from one end to the other.
    #[error(
        "this recording is in the form that perf writes to files, and says only at its end what is in it, so that it cannot be read from a pipe; give the file's name, or record with perf sched record -o -"
    )]
    NotSeekable,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where a recording ends before it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes up to which it is whole.
    pub at_bytes: u64,
    /// Why it is not, from there on.
    pub why: &'static str,
}

/// What there is to say about a recording that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// It was cut off, or damaged: events are those from before.
    pub cut: Option<Cut>,
    /// Scheduler events handed on.
    pub events: u64,
    /// Events that perf lost while it recorded.
    ///
    /// Two kinds of records tell of them. `PERF_RECORD_LOST` comes from the kernel, when a buffer has room again. `PERF_RECORD_LOST_SAMPLES` comes
    /// from `perf record` since 6.1, at its end, from what the kernel counted by event (`PERF_FORMAT_LOST`). The kernel counts both in the same
    /// place (`__perf_output_begin` in `kernel/events/ring_buffer.c`), so their sum would count each loss twice. The first lacks what was lost
    /// behind a buffer's last record, the second does not exist in older recordings: this is the larger of their sums. What a filter of the user's
    /// dropped (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`) is no loss.
    pub lost: u64,
    /// Switches among the events.
    pub switches: u64,
    /// Wakings or wake-ups among them, but for first ones.
    pub wakings: u64,
    /// Lines of text that tell of a switch or a wake-up in a form that is not known.
    pub unclear: u64,
    /// Records and lines that are no scheduler events, and those that could not be understood.
    pub skipped: u64,
    /// Events that came after later ones had been handed on.
    pub late: u64,
    /// Where it was made.
    pub about: About,
    /// Layouts were missing; those of this machine were used.
    pub borrowed_formats: bool,
}

/// Whether this is how a file of perf's begins.
#[must_use]
pub fn is_perf_data(start: &[u8]) -> bool {
    start.starts_with(MAGIC) || start.starts_with(OTHER_ENDIAN)
}

/// Reads a recording and hands on its scheduler events in order of time. `known`: layouts of this machine's events, for a recording that was cut off
/// before its own.
///
/// # Errors
/// See [`Error`]; and what `each` says.
pub fn read(
    input: &mut (impl BufRead + Seek + Send),
    known: &[Format],
    each: impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    read_with(input, known, relay::AT_FIRST, each)
}

/// `alone`: see [`relay::through`].
fn read_with(
    input: &mut (impl BufRead + Seek + Send),
    known: &[Format],
    alone: usize,
    mut each: impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    let (mut switches, mut wakings) = (0, 0);
    let each = |event: &Event| {
        switches += u64::from(matches!(event.kind, Kind::Switch { .. }));
        wakings += u64::from(matches!(event.kind, Kind::Waking { is_new: false, .. }));
        each(event)
    };
    let start = input.fill_buf()?;
    let ending = if start.starts_with(OTHER_ENDIAN) {
        return Err(Error::OtherEndian);
    } else if start.starts_with(MAGIC) {
        header::read(input, known, alone, each)
    } else {
        script::read(input, each)
    }?;
    Ok(Ending { switches, wakings, ..ending })
}
