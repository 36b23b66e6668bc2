//! Packing a live program.
//!
//! Who does what:
//!
//! - BPF keeps each thread's *stand* ([`watch::stands`]): what it has run, whether it is queued or blocked,
//!   and where in its code it was switched out. Without privileges /proc tells the first two, and the third only
//!   the preload library.
//! - Each slot has a **ticker** (`ticker`), a thread on the slot's CPU, real-time where that is allowed. At the
//!   end of a period its timer puts it in place of whoever sat there, whose stand is thereby fresh; it asks the
//!   policy, carries out the orders and sleeps again.
//! - One **manager** (`manager`) sees threads come and go, finds out which code waits (`spins`), and at
//!   the end of each window asks the mode whether to go on.
//!
//! Where the preload library is inside the program, `preload_pages` reads which threads wait at barriers, and tells it
//! onto how many CPUs it is packed.
//!
//! They share one lock around policy and members (`shared`). A period holds it for some microseconds.

mod alarm;
mod error;
mod held;
mod manager;
mod own;
mod packer;
mod plan;
mod polls;
mod preload_pages;
mod realtime;
mod shared;
mod spins;
mod summary;
mod ticker;

pub use error::Error;
pub use held::is_packed;
pub use packer::Packer;
pub use plan::{Began, Plan};
pub use preload_pages::{PreloadSummary, Wasteful};
pub use summary::{Placed, Summary};
