//! Packing of a live program. The parts are:
//!
//! - BPF keeps a *snapshot* of each thread ([`watch::snapshots`]): its run time, whether it is queued or blocked, and
//!   where in its code it was switched out. Without privileges, /proc gives the first two, and only the preload
//!   library gives the third.
//! - Each CPU of the pack (*slot*) has a **ticker** (`ticker`): a thread on this CPU, real-time if that is allowed. At
//!   the end of a scheduling period, a timer wakes the ticker, and the ticker preempts the running thread. This switch
//!   brings the thread's snapshot up to date. The ticker asks the policy, carries out the policy's orders and sleeps
//!   again.
//! - A program that cox starts is not observed by BPF, and has no tickers, before more of its threads run than the pack
//!   has CPUs (`standby`), and a profile of them shows that packing might help (`profiles`).
//! - One **manager** (`manager`) notices new and ended threads, and finds out which code spins (`spins`). At the end of
//!   each measuring window, it asks the policy whether to rotate the threads, to measure, or to pause.
//! - `preload_pages` talks to the preload library inside the program, if there is one. It reads which threads wait at
//!   barriers, and tells the library on how many CPUs the program is packed.
//!
//! Tickers and manager share one lock around the policy and the threads that it places (`shared`). At the end of a
//! scheduling period, a ticker holds the lock for some microseconds.

mod alarm;
mod alone;
mod error;
mod kept;
mod managed;
mod manager;
mod orphans;
mod overhead;
mod packer;
mod plan;
mod polls;
mod preload_pages;
mod profiles;
mod realtime;
mod shared;
mod spins;
mod standby;
mod summary;
mod ticker;

pub use error::Error;
pub use managed::is_packed;
pub use packer::Packer;
pub use plan::{Began, How, Plan};
pub use preload_pages::{PreloadSummary, Wasteful};
pub use summary::{Placed, Summary};
