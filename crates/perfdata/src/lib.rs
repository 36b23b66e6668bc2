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
mod ending;
mod error;
pub mod event;
mod format;
mod header;
mod records;
mod relay;
mod rounds;
mod script;
mod shape;
mod stamp;
mod tracing;

use std::io::{self, BufRead, Seek};

pub use about::About;
pub use crew::Crew;
pub use ending::{Cut, Ending};
pub use error::Error;
pub use event::{Comm, Event, Kind};
pub use format::Format;

/// First bytes of a file of perf's.
const MAGIC: &[u8; 8] = b"PERFILE2";
/// The same, written by a machine of the other byte order.
const OTHER_ENDIAN: &[u8; 8] = b"2ELIFREP";

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
