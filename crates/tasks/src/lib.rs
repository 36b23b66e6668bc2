//! Tasks with dependences, run by the threads of a team: the engine behind `cox run --overlap`.
//!
//! - [`depend`]: the earlier tasks that a task has to wait for. Pure: no threads, no system calls.
//! - `task`, `tally`, `pool`, [`group`]: a task, the counter of its unfinished children, its memory, and taskgroups.
//! - [`event`]: the event of a `detach` clause: the task is complete when its body has ended and its event is fulfilled.
//! - `deque`, `queues`, [`team`]: queues of ready tasks, work stealing, sleep and wake-up, and the barrier.
//! - [`worker`]: a thread that runs tasks; [`making`] and `ending`: the creation of a task, and what follows the end of its body.
//! - [`parts`]: a loop divided into parts, most of which run without being created as tasks.
//! - `number` and `biased_lock`: the thread number that a task sees, and the lock on it.
//! - `begun`: tasks that only threads which have begun the task's construct may run.
//! - [`nesting`]: the regions that enclose a nested region.
//! - `blocking`: functions whose tasks probably block, and so give their CPU back soon.
//! - [`icv`]: internal control variables (ICVs), of which each task has its own values.
//! - [`fence`], `park`: memory fences, and how a thread sleeps and is woken. Both make system calls.
//! - [`forking`]: the locks to hold across fork(2). [`spare`]: allocations that may fail.
//!
//! This crate does not know OpenMP's ABI, which is in the crate `preload`. It does not notice blocked threads either: `umt-client` tells it
//! when another thread should run tasks.

pub mod around;
mod asking;
mod begun;
mod biased_lock;
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
pub mod helping;
pub mod icv;
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
mod threads;
mod waiting;
pub mod worker;
