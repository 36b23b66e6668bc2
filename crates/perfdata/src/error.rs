//! Why a recording cannot be read.

use std::io;

/// Why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither perf's file nor its text.
    #[error("not a cox trace, not a perf recording of scheduler events, and not text of perf script")]
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
    #[error("this recording contains no scheduler events; record it with perf sched record")]
    NoEvents,
    /// There are events in it, none of which could be understood.
    #[error(
        "the events in this text are in a form that cox does not know; cox report reads the recording itself, and perf script -F comm,tid,cpu,time,event,trace a form that it knows"
    )]
    UnknownForm,
    /// In perf's file mode, and cannot be read but from one end to the other.
    #[error(
        "this recording is in perf's file format, whose contents are described only at its end, so that it cannot be read from a pipe; give the file's name, or record with perf sched record -o -"
    )]
    NotSeekable,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
