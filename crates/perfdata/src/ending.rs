//! What there is to say about a recording that was read.

use crate::about::About;

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
