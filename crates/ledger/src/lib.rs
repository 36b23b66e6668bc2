//! Scheduler events or clocks → where each thread's time went. Pure: no I/O, no clock, no unsafe.
//!
//! - [`transition`]: how one event changes one thread's clock. The same rule runs in BPF.
//! - [`close`]: a clock that is still open when it is read.
//! - [`replay`]: a stream of events → clocks, for backends that do not keep them in the kernel.
//! - [`moments`]: a trace's record → such events. [`stretch`]: what a thread did from when to when.
//! - [`timeline`]: stretches and moments, added up by thread, CPU and column of time, for pictures.
//! - [`accounts`]: what an observer recorded → the [`Account`].
//! - [`co_run`]: programs that ran at the same time: what each took from the others.
//! - [`account`]: its shape, which is the JSON that users read. [`figures`]: what a figure is, and how one is declared.
//! - [`provenance`]: where, when and of what it was taken. [`sees`]: what an account can tell. [`causes`]: what is said of the causes of blocks.
//! - [`summary`], [`check`](mod@check): the figures of verdict and report, each defined once.
#![forbid(unsafe_code)]

pub mod account;
pub mod accounts;
pub mod co_run;
pub mod causes;
pub mod check;
pub mod close;
pub mod figures;
pub mod moments;
pub mod provenance;
pub mod replay;
pub mod sees;
pub mod stretch;
pub mod summary;
pub mod timehist;
pub mod timeline;
pub mod transition;

pub use account::*;
pub use provenance::Provenance;
pub use sees::{Delays, Sees};
