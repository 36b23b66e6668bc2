//! Cancellation, where the user allows it (`OMP_CANCELLATION`).
//!
//! - A taskgroup's is ours alone: libgomp knows of no tasks.
//! - A region's is libgomp's and ours: it says at cancellation points what was cancelled, and we let threads go that wait at our
//!   barriers, and begin no task any more. libgomp is told first: who is let go by us may ask it.
//! - A loop's, or that of sections, is libgomp's alone. It forgets it at its own barrier behind the construct, which for a static loop is an
//!   explicit one: that one is met too, behind ours, when all have come and no task is left.

use std::ffi::c_int;
use std::mem::transmute;

use super::beyond::beyond;
use super::here::here;
use crate::calls::Call;
use crate::real::Library;

/// What is cancelled (gomp-constants.h).
const PARALLEL: c_int = 1;
const TASKGROUP: c_int = 8;

/// A cancel construct, whose if clause is true if `does`; else it is a cancellation point.
pub unsafe extern "C-unwind" fn cancel(which: c_int, does: bool) -> bool {
    let Some(worker) = here() else { return false };
    if which & TASKGROUP != 0 {
        // SAFETY: the innermost group lasts until its end.
        let group = if does { unsafe { worker.group().as_ref() } } else { None };
        group.inspect(|group| group.cancel());
        return does || worker.is_cancelled();
    }
    type Real = unsafe extern "C-unwind" fn(c_int, bool) -> bool;
    // SAFETY: libgomp's function of this name, which has this type.
    let cancelled = unsafe { transmute::<*mut std::ffi::c_void, Real>(beyond())(which, does) };
    if does && which & PARALLEL != 0 {
        worker.team().inspect(|team| team.cancel());
    }
    cancelled
}

/// Whether the tasks of the innermost taskgroup are to end where they are.
pub extern "C-unwind" fn taskgroup_cancellation_point(_: c_int) -> bool {
    here().is_some_and(|worker| worker.is_cancelled())
}

/// Whether this is about a taskgroup.
pub fn is_of_taskgroup(which: c_int) -> bool {
    which & TASKGROUP != 0
}

/// Whether constructs can be cancelled in this program.
pub fn is_allowed(library: &Library) -> bool {
    library.number(Call::GetCancellation) != 0
}
