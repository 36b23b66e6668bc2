//! The summary of a recording that was read.

use crate::about::About;

/// The point where a recording is truncated or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of bytes before the damage.
    pub at_bytes: u64,
    /// The kind of damage.
    pub why: &'static str,
}

/// The summary of a recording that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Set if the recording was truncated or damaged. Only events before that point were read.
    pub cut: Option<Cut>,
    /// Number of scheduler events passed on.
    pub events: u64,
    /// Number of events that perf lost while it recorded.
    ///
    /// Two kinds of records report losses. When a full buffer has room again, the kernel writes `PERF_RECORD_LOST`.
    /// `perf record` (since 6.1) writes `PERF_RECORD_LOST_SAMPLES` at its end, from the kernel's count per event
    /// (`PERF_FORMAT_LOST`). The kernel counts both in the same place (`__perf_output_begin` in
    /// `kernel/events/ring_buffer.c`), so their sum would count each loss twice. The first kind lacks losses after a
    /// buffer's last record, and older recordings lack the second kind. This field is therefore the larger of the two
    /// sums. Events that a user's filter dropped (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`) are not losses.
    pub lost: u64,
    /// Number of switches among the events.
    pub switches: u64,
    /// Number of wake-ups among the events: `sched_waking`, or `sched_wakeup` in a recording without it. The first
    /// wake-ups of new threads are not counted.
    pub wakings: u64,
    /// Number of lines of text that report a switch or a wake-up in a form that this crate does not know.
    pub unclear: u64,
    /// Number of records and lines that are not scheduler events, plus those that could not be decoded.
    pub skipped: u64,
    /// Number of events that came too late to be sorted: an event with a later time had already been passed on.
    pub late: u64,
    /// The machine that the recording was made on.
    pub about: About,
    /// Whether the recording lacked event formats, so that those of this machine were used.
    pub borrowed_formats: bool,
}
