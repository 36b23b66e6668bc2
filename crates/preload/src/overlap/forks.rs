//! fork(2) while standbys are at work: the child has the thread that forks, and a copy of all that the others have in hand.
//!
//! 1. Before: all locks are taken that standbys take, so that nobody is in the middle of something.
//! 2. Behind, in both: they are given back.
//! 3. In the child, before that, teams are forgotten: those in use are of regions that are not the child's.

use std::cell::UnsafeCell;
use std::sync::MutexGuard;

use signal::bell::Bell;
use tasks::forking::Held;

use super::{here, standbys, teams};

/// What the thread that forks holds meanwhile.
struct All {
    teams: MutexGuard<'static, teams::Teams>,
    _bells: MutexGuard<'static, Vec<Bell>>,
    _tasks: Held,
}

struct Place(UnsafeCell<Option<All>>);

// SAFETY: only who has all the locks looks at it.
unsafe impl Sync for Place {}

static HELD: Place = Place(UnsafeCell::new(None));

/// Before there are standbys.
pub fn begin() {
    // SAFETY: functions that stay, as this library does.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

unsafe extern "C" fn before() {
    let all = All { _bells: standbys::hold(), teams: teams::hold(), _tasks: tasks::forking::hold() };
    // SAFETY: this thread has all the locks.
    unsafe { *HELD.0.get() = Some(all) };
}

unsafe extern "C" fn in_parent() {
    // SAFETY: as above, since `before`.
    drop(unsafe { (*HELD.0.get()).take() });
}

unsafe extern "C" fn in_child() {
    // SAFETY: as above.
    if let Some(mut all) = unsafe { (*HELD.0.get()).take() } {
        all.teams.forget();
        // SAFETY: null, or this thread's, which is there until it ends.
        unsafe { here::get().as_ref() }.into_iter().for_each(|worker| worker.last_team.set(None));
    }
}
