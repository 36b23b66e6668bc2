//! fork(2) while standbys (additional threads of this library, which run tasks) work: the child has only the thread that forks, and copies of all
//! data that other threads were using.
//!
//! 1. Before the fork, take all locks that standbys take, so that no other thread is inside a critical section.
//! 2. After the fork, release them in the parent and in the child.
//! 3. In the child, empty the list of teams before the locks are released: threads that do not exist in the child were using some of the teams.

use std::cell::UnsafeCell;
use std::sync::MutexGuard;

use tasks::forking::AllLocks;
use tasks::team::HeldQueues;
use umt_client::bell::Bell;

use super::{current, standbys, teams};

/// Locks that the forking thread holds during the fork.
struct All {
    _queues: Vec<HeldQueues>,
    teams: MutexGuard<'static, teams::Teams>,
    _bells: MutexGuard<'static, Vec<Bell>>,
    _tasks: AllLocks,
}

struct Place(UnsafeCell<Option<All>>);

// SAFETY: the content is accessed only by a thread that holds all the locks.
unsafe impl Sync for Place {}

static LOCKS: Place = Place(UnsafeCell::new(None));

/// Registers the functions to call before and after fork(2). Called before this library has created any standby thread.
pub fn begin() {
    // SAFETY: the functions are a part of this library, which stays loaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

unsafe extern "C" fn before() {
    let (bells, teams) = (standbys::hold(), teams::hold());
    let all = All { _queues: teams.hold_queues(), _bells: bells, teams, _tasks: tasks::forking::hold() };
    // SAFETY: this thread holds all the locks.
    unsafe { *LOCKS.0.get() = Some(all) };
}

unsafe extern "C" fn in_parent() {
    // SAFETY: this thread has held all the locks since `before`.
    drop(unsafe { (*LOCKS.0.get()).take() });
}

unsafe extern "C" fn in_child() {
    // SAFETY: this thread has held all the locks since `before`.
    if let Some(mut all) = unsafe { (*LOCKS.0.get()).take() } {
        all.teams.forget();
        current::worker_anywhere().into_iter().for_each(|worker| worker.last_team.set(None));
    }
}
