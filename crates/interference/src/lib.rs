//! Who takes CPU time from a thread, and for how long: from the kernel's events to intervals with causes, to sums, and to the cause of a detour.
//! The code is pure: no I/O, no clock, and the same result every time.
//!
//! 1. [`cause`]: what can take time: an interrupt of the timer and the function that it called, a device, another CPU and the thread that sent the
//!    interrupt, a page fault, a thread that runs instead.
//! 2. [`intervals`]: events → intervals. `contexts` nests what interrupts a running thread; `faults` measures page faults; `waits` charges the time in which a preempted thread
//!    waits to the threads that run instead; `senders` finds who sent an interrupt.
//! 3. [`account`]: intervals → sums by thread and cause. [`lengths`]: how long they were.
//!    [`listing`]: the intervals themselves, as many as there is room for.
//! 4. [`detours`]: detours of a measuring loop and intervals → what caused each detour.
//! 5. [`audit`]: are the events complete? Compares them with the kernel's own counters. Only if they are complete, a detour without an event was
//!    caused outside this kernel.
//! 6. [`describe`]: causes in words, and what silences them.
//! 7. [`entries`]: what entering and leaving the kernel takes. [`parts`]: what a detour's time consists of. [`ticks`]: what ticks did beside the function of the tick.
//! 8. [`buckets`]: histograms of quanta. [`spectrum`]: which disturbances are periodic.
//!
//! The time of a cause is *net*: without what interrupted it in turn. A timer's interrupt that ran for 10 µs, of which the network's interrupt took
//! 4 µs, has 6 µs. So the sum over all causes counts no time twice.
#![forbid(unsafe_code)]

pub mod account;
pub mod audit;
pub mod buckets;
pub mod cause;
mod contexts;
pub mod describe;
pub mod detours;
pub mod entries;
mod faults;
pub mod interval;
pub mod intervals;
pub mod lengths;
pub mod listing;
pub mod parts;
mod senders;
pub mod spectrum;
pub mod ticks;
mod waits;

pub use account::{Account, Sum};
pub use cause::{Cause, CauseId, Causes, Sender};
pub use interval::{Interval, Span};
pub use intervals::Interference;
pub use listing::Listing;
