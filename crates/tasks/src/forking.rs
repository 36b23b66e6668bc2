//! fork(2): the child has one thread, and locks that others held would be held in it for ever.

use std::sync::MutexGuard;

use crate::{icv, park, pool};

/// This crate's locks, which nobody else holds as long as this is there.
pub struct Held {
    _numbers: MutexGuard<'static, (Vec<u32>, u32)>,
    _memory: MutexGuard<'static, [pool::Chains; 2]>,
    _icvs: MutexGuard<'static, ()>,
}

/// Takes them all. Nobody who has one of them waits for another.
#[must_use]
pub fn hold() -> Held {
    Held { _numbers: park::hold(), _memory: pool::hold(), _icvs: icv::kept::hold() }
}
