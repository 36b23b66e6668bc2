//! Reads recordings of `perf sched record` and the text of `perf script` about them, and converts the scheduler events
//! to cox's trace events ([`wire::TraceEvent`]).
//!
//! 1. [`read`] looks at the first bytes and then reads a file in perf's file mode, a file in its pipe mode, or text.
//! 2. `tracing` finds the tracepoint formats in the recording; `format` gives the position of each field. The code
//!    assumes no fixed positions.
//! 3. `attr` locates time, CPU and payload in a record; `records` cuts the stream into records and decompresses the
//!    compressed ones.
//! 4. `decode` converts records to events, using the sample layout that `attr` found. `rounds` sorts the events. It
//!    holds only those of the last two rounds; a round ends with a mark, which perf writes after it has emptied the
//!    buffers of all CPUs. `relay` reads and decodes a long file in a second thread.
//! 5. [`threads`] converts events to [`wire::TraceEvent`]s, for accounting.
//!
//! Files are not trusted: each length is checked against a limit before use. If a file is truncated or damaged, reading
//! ends there, without a panic.
#![forbid(unsafe_code)]

mod about;
mod attr;
mod bytes;
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
pub mod threads;
mod tracing;

use std::io::{self, BufRead, Seek};

pub use about::About;
pub use ending::{Cut, Ending};
pub use error::Error;
pub use event::{Comm, Event, Kind};
pub use format::Format;
pub use threads::Threads;

/// First bytes of a perf file.
const MAGIC: &[u8; 8] = b"PERFILE2";
/// First bytes of a perf file from a machine with the other byte order.
const OTHER_ENDIAN: &[u8; 8] = b"2ELIFREP";

/// Reads a recording and passes its scheduler events to `each` in order of time. `known` has the event formats of this
/// machine; they are used if the recording was truncated before its own formats.
///
/// # Errors
/// See [`Error`]. An error of `each` ends the reading and is returned.
pub fn read(
    input: &mut (impl BufRead + Seek + Send),
    known: &[Format],
    each: impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    read_with(input, known, relay::AT_FIRST, each)
}

/// Same as [`read`]. `alone`: number of records that the calling thread reads before it starts a second thread; see [`relay::through`].
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
