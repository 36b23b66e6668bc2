//! Reasons why a recording cannot be read.

use std::io;

/// Reason why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a perf file nor text of `perf script`.
    #[error("not a cox trace, not a perf recording of scheduler events, and not text of perf script")]
    Foreign,
    /// Recorded on a machine with the other byte order.
    #[error(
        "this was recorded on a big-endian machine, which cox does not read; perf script there makes text of it that cox reads"
    )]
    OtherEndian,
    /// The contents are inconsistent.
    #[error("this recording is damaged: {0}")]
    Damaged(&'static str),
    /// The formats of the recording's events are missing.
    #[error(
        "this recording was cut off before the layouts of its events, which perf writes last; perf sched record -o - | cat >FILE writes them first"
    )]
    NoFormats,
    /// A perf recording without scheduler events.
    #[error("this recording contains no scheduler events; record it with perf sched record")]
    NoEvents,
    /// The recording contains events, but none of them could be decoded.
    #[error(
        "the events in this text are in a form that cox does not know; cox report reads the recording itself, and perf script -F comm,tid,cpu,time,event,trace a form that it knows"
    )]
    UnknownForm,
    /// A recording in perf's file mode, which needs seeking, from an input that cannot seek.
    #[error(
        "this recording is in perf's file format, whose contents are described only at its end, so that it cannot be read from a pipe; give the file's name, or record with perf sched record -o -"
    )]
    NotSeekable,
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
