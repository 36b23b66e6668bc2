//! The functions of the program's own OpenMP runtime.
//!
//! A program linked to libgomp has it in the global scope, where the next function of a name is the one that callers would reach without this library.
//! If a module that was loaded by dlopen(3) brings libgomp with it, it is in that module's scope only; then the first loaded object whose name begins
//! with `libgomp` is used.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Type of a region's function.
pub type Work = unsafe extern "C-unwind" fn(*mut c_void);

/// A function of the runtime, looked up at its first use.
pub struct RuntimeFunction {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl RuntimeFunction {
    /// Returns a function that is looked up by `name`, which ends in a NUL.
    pub const fn new(name: &'static str) -> RuntimeFunction {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { panic!("the name must end in its only NUL") };
        RuntimeFunction { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Returns its address; null if the program has no such function.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up() } else { known }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name is a C string.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null()
            && let Some(library) = loaded_libgomp()
        {
            // SAFETY: a handle of dlopen(3), which stays open, and a C string.
            found = unsafe { libc::dlsym(library, self.name.as_ptr()) };
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Returns a handle of the first loaded object whose file name begins with `libgomp`.
fn loaded_libgomp() -> Option<*mut c_void> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, whose name is a C string.
        let name: *const c_char = unsafe { (*info).dlpi_name };
        // SAFETY: as above.
        let bytes = if name.is_null() { &[] } else { unsafe { CStr::from_ptr(name) }.to_bytes() };
        let file = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if !file.starts_with(b"libgomp") {
            return 0;
        }
        // SAFETY: `found` is what the caller below passes. The object is loaded, so this only looks it up.
        unsafe { *found.cast() = libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        1
    }
    let mut found: *mut c_void = null_mut();
    // SAFETY: `visit` has the type of the callback, and `found` lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    (!found.is_null()).then_some(found)
}

static THREAD_NUM: RuntimeFunction = RuntimeFunction::new("omp_get_thread_num\0");
static NUM_THREADS: RuntimeFunction = RuntimeFunction::new("omp_get_num_threads\0");
static LEVEL: RuntimeFunction = RuntimeFunction::new("omp_get_level\0");

fn number(function: &RuntimeFunction) -> Option<c_int> {
    // SAFETY: `get` returns null or a function without arguments that returns an int.
    let function: Option<unsafe extern "C" fn() -> c_int> = unsafe { transmute(function.get()) };
    // SAFETY: a program may call these functions at any point.
    function.map(|function| unsafe { function() })
}

/// Returns the number of the calling thread in its team, and the number of threads, which is at least 1 and above the first.
#[inline]
pub fn place() -> (u32, u32) {
    let thread = number(&THREAD_NUM).and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let threads = number(&NUM_THREADS).and_then(|number| u32::try_from(number).ok()).unwrap_or(1);
    (thread, threads.max(thread + 1))
}

/// Values of omp_sched_t.
pub const DYNAMIC: c_int = 2;
/// As [`DYNAMIC`].
pub const GUIDED: c_int = 3;
/// As [`DYNAMIC`].
pub const AUTO: c_int = 4;
/// The bit of omp_sched_t that asks for a monotonic schedule.
const MONOTONIC: c_int = c_int::MIN;

static GET_SCHEDULE: RuntimeFunction = RuntimeFunction::new("omp_get_schedule\0");

/// Returns the schedule of the calling thread's loops with `schedule(runtime)`, and its chunk; 0 if it has none.
pub fn schedule() -> Option<(c_int, u64)> {
    // SAFETY: `get` returns null or this function of OpenMP.
    let function: Option<unsafe extern "C" fn(*mut c_int, *mut c_int)> = unsafe { transmute(GET_SCHEDULE.get()) };
    let (mut kind, mut chunk) = (0, 0);
    // SAFETY: a program may call this function at any point; the pointers are valid.
    unsafe { function?(&raw mut kind, &raw mut chunk) };
    Some((kind & !MONOTONIC, chunk.max(0) as u64))
}

/// Returns the number of regions that enclose the caller; -1 if the program has no OpenMP runtime.
pub fn level() -> c_int {
    number(&LEVEL).unwrap_or(-1)
}

/// Calls the function `$real` of the runtime, which has the given type. If the program has none, the result is `$else`.
macro_rules! call {
    ($real:expr, fn($($type:ty),*) $(-> $result:ty)?, ($($argument:expr),*) $(, else $else:expr)?) => {
        match std::mem::transmute::<*mut std::ffi::c_void, Option<unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>>($real.get()) {
            Some(function) => function($($argument),*),
            None => ($($else)?),
        }
    };
}
pub(crate) use call;
