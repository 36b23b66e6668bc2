//! Tasks with dependences, run by the threads of a team: the engine behind `cox run --overlap`.
//!
//! - [`depend`]: the earlier tasks that a task has to wait for. Pure: no threads, no system calls.
//! - `task`, `tally`, `pool`, [`group`]: a task, the counter of its unfinished children, its memory, and taskgroups.
//! - [`event`]: an event that a task may have to wait for besides its own body.
//! - `deque`, `queues`, [`team`]: queues of ready tasks, work stealing, sleep and wake-up, and the barrier.
//! - [`worker`]: what a thread does with these; [`making`] and `ending`: how a task begins and ends on it.
//! - [`parts`]: a loop divided into tasks, most of which are never created.
//! - `number` and `held`: the thread number that a task sees.
//! - `begun`: tasks that only some threads may run.
//! - [`nesting`]: the regions around a region that begins within a task.
//! - `blocking`: functions whose tasks probably block, and so give their CPU back soon.
//! - [`icv`]: control variables, which each task has for itself.
//! - [`fence`], `park`: the two places where threads call the kernel.
//! - [`forking`]: locks across fork(2). [`spare`]: memory that may be missing.
//!
//! This crate knows neither OpenMP's ABI, which is the `preload` crate's, nor why a thread blocks: `umt-client` tells when another thread is
//! wanted.

pub mod around;
mod asking;
mod begun;
mod blocking;
pub mod depend;
mod deque;
mod ending;
pub mod event;
pub mod fence;
pub mod forking;
mod frame;
pub mod fulfilling;
pub mod group;
mod groups;
mod held;
pub mod helping;
pub mod icv;
mod learned;
pub mod making;
pub mod nesting;
mod number;
mod park;
pub mod parts;
mod pool;
mod queues;
mod ready;
mod running;
pub mod spare;
mod sync;
mod tally;
mod task;
pub mod team;
mod waiting;
pub mod work;
pub mod worker;
