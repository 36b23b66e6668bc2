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
        "this was recorded on a big-endian machine, which cox cannot read; run perf script on that machine and give cox its output"
    )]
    OtherEndian,
    /// The contents are inconsistent.
    #[error("this recording is damaged: {0}")]
    Damaged(&'static str),
    /// The formats of the recording's events are missing.
    #[error(
        "this recording ends before the layouts of its events, which perf writes last; perf sched record -o - | cat >FILE writes them first"
    )]
    NoFormats,
    /// A perf recording without scheduler events.
    #[error("this recording contains no scheduler events; record it with perf sched record")]
    NoEvents,
    /// The recording contains events, but none of them could be decoded.
    #[error(
        "cox does not know the form of the events in this text; give cox report the recording itself, or the output of perf script -F comm,tid,cpu,time,event,trace"
    )]
    UnknownForm,
    /// A recording in perf's file mode, which needs seeking, from an input that cannot seek.
    #[error(
        "this recording cannot be read from a pipe, because it is in perf's file format, which describes its contents only at the end; give the file's name, or record with perf sched record -o -"
    )]
    NotSeekable,
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
