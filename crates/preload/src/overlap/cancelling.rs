//! Cancellation, where the user allows it (`OMP_CANCELLATION`).
//!
//! - Cancellation of a taskgroup is handled here alone, because libgomp does not know our tasks.
//! - Cancellation of a region is handled by libgomp and here. At cancellation points, libgomp reports what was cancelled. We release the threads that
//!   wait at our barriers, and start no more tasks. libgomp is told first, because a released thread may ask it.
//! - Cancellation of a loop or of sections is handled by libgomp alone. libgomp resets it at its own barrier after the construct; for a static loop,
//!   that is an explicit barrier. Therefore the threads also pass libgomp's barrier, after ours, when all have arrived and no task is left.

use std::ffi::c_int;
use std::mem::transmute;

use super::current::{real_fn, worker_in_region};
use crate::calls::Call;
use crate::real_symbols::Library;

/// Flags for the kind of construct that is cancelled (gomp-constants.h).
const PARALLEL: c_int = 1;
const TASKGROUP: c_int = 8;

/// Runs a cancel construct; `which` is the kind of construct that it cancels. `does` is the value of its `if` clause: if it is false, the cancel
/// construct is only a cancellation point. Returns whether the construct has been cancelled, so that the thread has to leave it.
pub unsafe extern "C-unwind" fn cancel(which: c_int, does: bool) -> bool {
    let Some(worker) = worker_in_region() else { return false };
    if which & TASKGROUP != 0 {
        // SAFETY: `group` returns null or the thread's innermost taskgroup, which is valid until it ends.
        let group = if does { unsafe { worker.group().as_ref() } } else { None };
        group.inspect(|group| group.cancel());
        return does || worker.is_cancelled();
    }
    type RealFn = unsafe extern "C-unwind" fn(c_int, bool) -> bool;
    // SAFETY: `real_fn` returns libgomp's GOMP_cancel, which has this type.
    let cancelled = unsafe { transmute::<*mut std::ffi::c_void, RealFn>(real_fn())(which, does) };
    if does && which & PARALLEL != 0 {
        worker.team().inspect(|team| team.cancel());
    }
    cancelled
}

/// Returns whether the innermost taskgroup was cancelled, so that its tasks have to end now.
pub extern "C-unwind" fn taskgroup_cancellation_point(_: c_int) -> bool {
    worker_in_region().is_some_and(|worker| worker.is_cancelled())
}

/// Returns whether `which`, gcc's flags for the kind of a cancelled construct, stands for a taskgroup.
pub fn is_of_taskgroup(which: c_int) -> bool {
    which & TASKGROUP != 0
}

/// Returns whether constructs can be cancelled in this program, that is, whether the user has set `OMP_CANCELLATION` to true.
pub fn is_allowed(library: &Library) -> bool {
    library.number(Call::omp_get_cancellation) != 0
}
