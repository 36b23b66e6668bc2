//! Barriers of libomp, which reports them to a tool (OMPT, OpenMP 5.2 chapter 19). Types and numbers are those of the specification, because there is
//! no header to build against if libomp is not installed.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::sync::atomic::Ordering;

use wire::preload::{LIBOMP, TASKS};

use crate::memory::{self, note_seen};
use crate::phases;

/// Values of ompt_callbacks_t.
const PARALLEL_BEGIN: c_int = 3;
const TASK_CREATE: c_int = 5;
const IMPLICIT_TASK: c_int = 7;
const SYNC_REGION_WAIT: c_int = 16;
/// Values of ompt_scope_endpoint_t.
const BEGIN: c_int = 1;
const END: c_int = 2;
/// Values of ompt_sync_region_t for barriers within a region.
const BARRIER: c_int = 1;
const BARRIER_EXPLICIT: c_int = 3;
const BARRIER_IMPLEMENTATION: c_int = 4;
const BARRIER_OF_WORKSHARE: c_int = 8;
/// Values of ompt_sync_region_t for barriers at the end of a region. In OpenMP 5.0, the first value also stands for barriers at the end of
/// worksharing constructs.
const BARRIER_IMPLICIT: c_int = 2;
const BARRIER_OF_REGION: c_int = 9;
/// Values of ompt_task_flag_t.
const INITIAL: c_int = 1;
const EXPLICIT: c_int = 4;

/// ompt_data_t.
type Data = u64;
type LookUp = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type SetCallback = unsafe extern "C" fn(c_int, *const c_void) -> c_int;

/// ompt_start_tool_result_t.
#[repr(C)]
pub struct Tool {
    initialize: unsafe extern "C" fn(LookUp, c_int, *mut Data) -> c_int,
    finalize: unsafe extern "C" fn(*mut Data),
    data: UnsafeCell<Data>,
}
// SAFETY: only the runtime uses the data.
unsafe impl Sync for Tool {}

static TOOL: Tool = Tool { initialize, finalize, data: UnsafeCell::new(0) };

type StartTool = unsafe extern "C" fn(c_uint, *const c_char) -> *const Tool;

/// Called by an OpenMP runtime at its start, to find a tool. A runtime accepts only one tool, so this function returns ours only if there is no other
/// tool.
///
/// # Safety
/// Only an OpenMP runtime may call this function, with its version as a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompt_start_tool(version: c_uint, runtime: *const c_char) -> *const Tool {
    // SAFETY: the name is a C string. The result is another tool's function of this name, or libomp's own, which continues the search for a tool.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ompt_start_tool".as_ptr()) };
    // SAFETY: `next` is null or a function of this name, which has this type.
    if let Some(next) = unsafe { transmute::<*mut c_void, Option<StartTool>>(next) } {
        // SAFETY: guaranteed by the caller.
        let other = unsafe { next(version, runtime) };
        if !other.is_null() {
            return other;
        }
    }
    if is_set(c"OMP_TOOL_LIBRARIES") { std::ptr::null() } else { &raw const TOOL }
}

fn is_set(name: &CStr) -> bool {
    // SAFETY: `name` is a C string. No other thread may change the environment during getenv(3). The OpenMP runtime that called us reads the
    // environment at this time, too, and so relies on the same condition.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv returns a C string or null.
    !value.is_null() && unsafe { *value } != 0
}

unsafe extern "C" fn initialize(look_up: LookUp, _: c_int, _: *mut Data) -> c_int {
    // SAFETY: the argument is a C string.
    let set = unsafe { look_up(c"ompt_set_callback".as_ptr()) };
    // SAFETY: `set` is null or the function of this name, which has this type.
    let Some(set) = (unsafe { transmute::<*mut c_void, Option<SetCallback>>(set) }) else { return 0 };
    for (event, callback) in [
        (PARALLEL_BEGIN, parallel_begin as *const c_void),
        (TASK_CREATE, task_create as *const c_void),
        (IMPLICIT_TASK, implicit_task as *const c_void),
        (SYNC_REGION_WAIT, sync_region_wait as *const c_void),
    ] {
        // SAFETY: each callback has the type of its event. A runtime without the event returns an error, and the event is not recorded.
        unsafe { set(event, callback) };
    }
    1
}

unsafe extern "C" fn finalize(_: *mut Data) {}

/// Called when a region begins. Stores the number of the phase that begins with the region (see `gomp`) in the word that the runtime keeps for the
/// tool in each region. For a team of one thread, which never waits at a barrier, `implicit_task` sets the word to 0.
unsafe extern "C" fn parallel_begin(
    _task: *mut Data,
    _frame: *const c_void,
    region: *mut Data,
    _threads: c_uint,
    _flags: c_int,
    _code: *const c_void,
) {
    if let Some(slot) = memory::thread_slot() {
        note_seen(LIBOMP);
        // SAFETY: `region` points to the word that the runtime reserves for the tool in each region.
        unsafe { *region = slot.phases.load(Ordering::Relaxed).wrapping_add(1) };
    }
}

unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    region: *mut Data,
    _task: *mut Data,
    threads: c_uint,
    _index: c_uint,
    flags: c_int,
) {
    if endpoint != BEGIN || flags & INITIAL != 0 || region.is_null() {
        return;
    }
    if threads < 2 {
        // SAFETY: `region` points to the word that the runtime reserves for the tool in each region; no other thread works in this region.
        unsafe { *region = 0 };
    } else if let Some(slot) = memory::thread_slot() {
        // SAFETY: `region` points to the word that the runtime reserves for the tool in each region.
        phases::begin_share(slot, unsafe { *region });
    }
}

unsafe extern "C" fn sync_region_wait(
    kind: c_int,
    endpoint: c_int,
    region: *mut Data,
    _task: *mut Data,
    _code: *const c_void,
) {
    let ends_region = matches!(kind, BARRIER_IMPLICIT | BARRIER_OF_REGION);
    if !ends_region && !matches!(kind, BARRIER | BARRIER_EXPLICIT | BARRIER_IMPLEMENTATION | BARRIER_OF_WORKSHARE) {
        return;
    }
    let Some(slot) = memory::thread_slot() else { return };
    match endpoint {
        // SAFETY: `region` is null, or points to the word that the runtime reserves for the tool in each region. The word is 0 if the region has one
        // thread.
        BEGIN if unsafe { region.as_ref() } != Some(&0) => phases::arrive(slot),
        // Does nothing if the arrival at the barrier was not recorded.
        END if slot.in_barrier.load(Ordering::Relaxed) == 0 => {}
        END if ends_region => memory::let_go(slot),
        END => phases::leave(slot),
        _ => {}
    }
}

unsafe extern "C" fn task_create(
    _creator: *mut Data,
    _frame: *const c_void,
    _task: *mut Data,
    flags: c_int,
    _dependences: c_int,
    _code: *const c_void,
) {
    if flags & EXPLICIT != 0 {
        note_seen(TASKS);
    }
}
