//! Scheduler events or clocks → where each thread's time went. The crate is pure: no I/O, no system time, no unsafe.
//!
//! Terms: a *clock* ([`wire::Clock`]) contains the time that one thread spent in each state. To *book* time is to add it to one of these states. A
//! *trace event* ([`wire::TraceEvent`]) is a scheduler event as a trace stores it. A *stint* is the time from a thread's switch-in to its next
//! switch-out; a *stretch* is an interval in which a thread has one state.
//!
//! - [`transition`]: how one event changes one thread's clock. BPF follows the same rules.
//! - [`close`]: closes a clock, that is, books the time from its last event to the end of the window.
//! - [`replay`]: a stream of events → clocks, for backends that do not keep clocks in the kernel.
//! - [`latency`]: lengths of waits, blocks and time slices → quantiles.
//! - [`trace_events`]: trace events → events for the replay. [`stretch`]: what a thread did in an interval.
//! - [`timeline`]: stretches and trace events, summed by thread, CPU and column of time, for diagrams.
//! - [`accounts`]: an observer's record → the [`Account`].
//! - [`co_run`]: how co-run programs shared the CPUs, and how long they waited for one another.
//! - [`account`]: the types of an account, which are the JSON that users read. [`mod@figures`]: what a figure is, and how it is declared.
//! - [`provenance`]: where, when and of which program an account was taken. [`sees`]: what the backend could see. [`causes`]: wording of the causes
//!   of blocking.
//! - [`summary`], [`check`](mod@check): the figures of verdict and report, each defined once.
#![forbid(unsafe_code)]

pub mod account;
pub mod accounts;
pub mod causes;
pub mod check;
pub mod close;
pub mod co_run;
pub mod figures;
pub mod latency;
pub mod provenance;
pub mod replay;
pub mod sees;
pub mod stretch;
pub mod summary;
pub mod timehist;
pub mod timeline;
pub mod trace_events;
pub mod transition;

pub use account::*;
pub use latency::{Latencies, Quantiles};
pub use provenance::Provenance;
pub use sees::{Delays, Sees, Unsampled};
