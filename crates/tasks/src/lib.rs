//! Tasks with dependences, on the threads of a team: the engine behind `cox run --overlap`.
//!
//! - [`depend`]: which earlier tasks a task has to wait for. Pure.
//! - `task`, `tally`, `pool`, [`group`]: a task, who is told when its children have ended, its memory, and taskgroups.
//! - [`event`]: what a task may have to wait for besides its own body.
//! - `deque`, `queues`, [`team`]: ready tasks, who takes them from whom, who sleeps, and the barrier.
//! - [`worker`]: what a thread does with all this; [`making`], `ending`: how a task begins and ends there; [`parts`]: a
//!   loop's, which need not be made; `number`, `held`: what the
//!   thread says its number is; `begun`: tasks that only some threads may run; [`nesting`]: which regions a region
//!   within a task is in; `blocking`: which tasks soon give their CPU back.
//! - [`icv`]: control variables, of which each task has its own.
//! - [`fence`], `park`: the two ways in which threads meet the kernel. [`forking`], [`spare`]: what a forked child, and a process without
//!   memory, must not stumble over.
//!
//! It knows neither OpenMP's ABI (that is `preload`'s) nor why a thread blocks: `signal` tells when another thread is wanted.

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
