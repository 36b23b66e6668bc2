//! Control variables of tasks (`tasks::icv`): how they are read from libgomp and written to it.
//!
//! When the program sets a variable, libgomp's function interprets the arguments and stores the value. If the calling task is ours, we then read
//! the new value from libgomp into the task's own variables. Therefore this module need not parse the arguments of the Fortran functions.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use tasks::icv::{self, Runtime, Values};
use tasks::team::Team;

use super::current::{real_fn, worker_in_region};
use crate::calls::Call;
use crate::real_symbols::Library;

/// Kinds of schedules (omp.h).
const STATIC: c_int = 1;
const AUTO: c_int = 4;
/// Flag of a schedule's kind: iterations run in order.
const MONOTONIC: c_int = c_int::MIN;

/// Stored instead of a device number if the program has never chosen a device. The default device is not queried then, because the query makes the
/// libgomp of gcc 13 or later load its device plug-ins.
const NEVER_CHOSEN: c_int = c_int::MIN;
static IS_DEVICE_CHOSEN: AtomicBool = AtomicBool::new(false);
/// The default device before the program first chose one.
static FIRST_DEVICE: AtomicI32 = AtomicI32::new(0);

/// Sets up the access to libgomp; called before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    icv::begin(Runtime { read, write });
    // If OMP_NUM_THREADS is a list, it has a number for each nesting level, and libgomp itself sets the variable at each level. For `icv`, this
    // is the same as if the program set it.
    if variable(c"OMP_NUM_THREADS").is_some_and(|value| value.contains(&b',')) {
        icv::will_be_set();
    }
}

/// Records that the OpenMP library `library` runs the team's region.
pub fn are_of(team: &Team, library: &'static Library) {
    team.made_by(ptr::from_ref(library).cast_mut().cast());
}

/// Calls libgomp's function that sets a control variable, with the program's arguments (at most two). If the calling task is ours, the task's own
/// control variables are updated.
///
/// # Safety
/// As for the function that was passed to [`set_real_fn`](super::set_real_fn).
pub unsafe extern "C" fn set(first: usize, second: usize) {
    // SAFETY: the dispatch function has set `real_fn` for this call. If that function has only one parameter, it ignores the second argument.
    let real_fn: unsafe extern "C" fn(usize, usize) = unsafe { transmute(real_fn()) };
    // SAFETY: guaranteed by the caller.
    let call = || unsafe { real_fn(first, second) };
    match worker_in_region() {
        Some(worker) => worker.set_icvs(call),
        None => call(),
    }
}

/// Records the default device. Called before the program chooses a device for the first time.
pub fn note_device(library: &Library) {
    if !IS_DEVICE_CHOSEN.load(Ordering::Acquire) {
        FIRST_DEVICE.store(library.number(Call::omp_get_default_device), Ordering::Relaxed);
        IS_DEVICE_CHOSEN.store(true, Ordering::Release);
    }
}

fn library(runtime: *mut c_void) -> Option<&'static Library> {
    // SAFETY: `runtime` is null, or the address that `are_of` has stored: that of a `Library`, which is a static.
    unsafe { runtime.cast::<Library>().as_ref() }
}

fn read(runtime: *mut c_void) -> Values {
    let mut values = Values { threads: 0, dynamic: 0, levels: 0, schedule: (0, 0), device: NEVER_CHOSEN, allocator: 0 };
    let Some(library) = library(runtime) else { return values };
    values.threads = library.number(Call::omp_get_max_threads);
    values.dynamic = library.number(Call::omp_get_dynamic);
    values.levels = library.number(Call::omp_get_max_active_levels);
    // SAFETY: `get` returns null or the function of this name, which has this type.
    let schedule: Option<unsafe extern "C" fn(*mut c_int, *mut c_int)> =
        unsafe { transmute(library.get(Call::omp_get_schedule)) };
    // SAFETY: both pointers are valid.
    schedule.into_iter().for_each(|get| unsafe { get(&raw mut values.schedule.0, &raw mut values.schedule.1) });
    if IS_DEVICE_CHOSEN.load(Ordering::Acquire) {
        values.device = library.number(Call::omp_get_default_device);
    }
    // SAFETY: `get` returns null (before gcc 10), or the function of this name, which has this type.
    let allocator: Option<unsafe extern "C" fn() -> usize> =
        unsafe { transmute(library.get(Call::omp_get_default_allocator)) };
    // SAFETY: the function takes no arguments.
    values.allocator = allocator.map_or(0, |get| unsafe { get() });
    values
}

fn write(runtime: *mut c_void, values: &Values) {
    let Some(library) = library(runtime) else { return };
    library.set(Call::omp_set_num_threads, values.threads);
    library.set(Call::omp_set_dynamic, values.dynamic);
    library.set(Call::omp_set_max_active_levels, values.levels);
    // SAFETY: `get` returns null or the function of this name, which has this type.
    let schedule: Option<unsafe extern "C" fn(c_int, c_int)> =
        unsafe { transmute(library.get(Call::omp_set_schedule)) };
    if let Some(set) = schedule {
        let (kind, chunk) = values.schedule;
        if kind & !MONOTONIC == AUTO {
            // Setting an `auto` schedule does not change the chunk size. So the chunk size is set first, with a static schedule.
            //
            // SAFETY: a program may call this OpenMP function at any point.
            unsafe { set(STATIC, chunk) };
        }
        // SAFETY: a program may call this OpenMP function at any point.
        unsafe { set(kind, chunk) };
    }
    if IS_DEVICE_CHOSEN.load(Ordering::Acquire) {
        let first = values.device == NEVER_CHOSEN;
        let device = if first { FIRST_DEVICE.load(Ordering::Relaxed) } else { values.device };
        library.set(Call::omp_set_default_device, device);
    }
    // SAFETY: `get` returns null or the function of this name, which has this type.
    let allocator: Option<unsafe extern "C" fn(usize)> =
        unsafe { transmute(library.get(Call::omp_set_default_allocator)) };
    // SAFETY: the value was read from libgomp, as the default allocator at that time.
    allocator.into_iter().for_each(|set| unsafe { set(values.allocator) });
}
