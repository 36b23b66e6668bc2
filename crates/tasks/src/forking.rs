//! The locks to hold across fork(2): the child has only one thread, so a lock that another thread held during the fork would never be
//! released in the child. The locks on a team's queues are taken with [`Team::hold_queues`](crate::team::Team::hold_queues), because only the caller
//! knows all teams.

use std::sync::MutexGuard;

use crate::{icv, pool, sync, threads};

/// Guards of all locks of this crate. While they exist, no other thread holds one of these locks.
pub struct AllLocks {
    _numbers: sync::MutexGuard<'static, threads::Free>,
    _memory: MutexGuard<'static, [pool::Chains; 2]>,
    _icvs: MutexGuard<'static, ()>,
}

/// Takes all locks of this crate, before fork(2). Other code that holds one of these locks does not wait for another, so there is no deadlock.
#[must_use]
pub fn hold() -> AllLocks {
    AllLocks { _numbers: threads::hold(), _memory: pool::hold(), _icvs: icv::kept::hold() }
}
