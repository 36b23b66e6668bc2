//! libgomp's functions that begin a region, as gcc calls them.
//!
//! - Regions of ours: the threads get members of a team ([`crate::region`]), whatever the region contains.
//! - Combined constructs: if the loop is ours, a region of `GOMP_parallel`, in which each thread begins the loop before the region's function.
//! - Regions that gcc before 4.9 begins and ends with two calls: their loops belong to libgomp.
//! - `target` constructs, which libgomp may run on the calling thread as if it were in no region.

use std::ffi::{c_long, c_uint, c_void};

use crate::bounds::Bounds;
use crate::clause::Clause;
use crate::region::{self, begin_unknown, end_unknown, outside, run};
use crate::runtime::{RuntimeFunction, Work, call};
use wire::loop_records::Clause as Written;

static PARALLEL: RuntimeFunction = RuntimeFunction::new("GOMP_parallel\0");

/// Defines functions that begin and end a region. Each row has the further arguments of libgomp's function, and its result.
macro_rules! regions {
    ($($name:ident($($argument:ident: $type:ty),*), reads_data: $reads:expr $(, $result:ty, else $alone:expr)?;)*) => { $(
        /// Runs a region in a team of ours.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(work: Work, data: *mut c_void, $($argument: $type),*) $(-> $result)? {
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($name), "\0"));
            // SAFETY: guaranteed by the caller; the real function has this type.
            unsafe {
                run(work, data, $reads, None, |work, data| {
                    call!(FUNCTION, fn(Work, *mut c_void, $($type),*) $(-> $result)?, (work, data, $($argument),*)
                        $(, else { work(data); $alone })?)
                })
            }
        }
    )* };
}

regions! {
    GOMP_parallel(threads: c_uint, flags: c_uint), reads_data: false;
    GOMP_parallel_reductions(threads: c_uint, flags: c_uint), reads_data: true, c_uint, else 1;
    GOMP_parallel_sections(threads: c_uint, count: c_uint, flags: c_uint), reads_data: false;
    GOMP_parallel_loop_static(threads: c_uint, first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint),
        reads_data: false;
}

/// Defines combined constructs: a region whose threads call `_next` first.
macro_rules! combined {
    ($($name:ident($($chunk:ident)?), clause: $clause:ident, monotonic: $monotonic:expr;)*) => { $(
        /// Runs a region that consists of a loop.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            work: Work, data: *mut c_void, threads: c_uint, first: c_long, end: c_long, step: c_long, $($chunk: c_long,)? flags: c_uint,
        ) {
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($name), "\0"));
            let size = [1, $($chunk)?].into_iter().max().unwrap_or(1) as u64;
            // The place is the function: an address behind its first byte, as a return address is behind a call.
            let clause = Clause { written: Written::$clause, monotonic: $monotonic, chunk: size, place: work as usize + 1, is_libomp: false };
            let ours = region::changes(Written::$clause).then(|| (Bounds::signed(first, end, step), clause));
            // SAFETY: guaranteed by the caller; the real functions have these types. A loop of ours needs a region only.
            unsafe {
                match ours {
                    Some(_) => run(work, data, false, ours, |work, data| {
                        call!(PARALLEL, fn(Work, *mut c_void, c_uint, c_uint), (work, data, threads, flags))
                    }),
                    None => run(work, data, false, None, |work, data| {
                        call!(FUNCTION, fn(Work, *mut c_void, c_uint, c_long, c_long, c_long, $(combined!(@long $chunk),)? c_uint),
                            (work, data, threads, first, end, step, $($chunk,)? flags))
                    }),
                }
            }
        }
    )* };
    (@long $chunk:ident) => { c_long };
}

combined! {
    GOMP_parallel_loop_dynamic(chunk), clause: Dynamic, monotonic: true;
    GOMP_parallel_loop_guided(chunk), clause: Guided, monotonic: true;
    GOMP_parallel_loop_runtime(), clause: Runtime, monotonic: true;
    GOMP_parallel_loop_nonmonotonic_dynamic(chunk), clause: Dynamic, monotonic: false;
    GOMP_parallel_loop_nonmonotonic_guided(chunk), clause: Guided, monotonic: false;
    GOMP_parallel_loop_nonmonotonic_runtime(), clause: Runtime, monotonic: false;
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(), clause: Runtime, monotonic: false;
}

/// Defines the calls with which compilers before gcc 4.9 begin a region.
macro_rules! begun_regions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        /// Begins a region whose loops belong to the runtime.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(work: Work, data: *mut c_void, threads: c_uint $(, $argument: $type)*) {
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($name), "\0"));
            begin_unknown();
            // SAFETY: guaranteed by the caller; the real function has this type.
            unsafe { call!(FUNCTION, fn(Work, *mut c_void, c_uint $(, $type)*), (work, data, threads $(, $argument)*)) }
        }
    )* };
}

begun_regions! {
    GOMP_parallel_start();
    GOMP_parallel_sections_start(count: c_uint);
    GOMP_parallel_loop_static_start(first: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_dynamic_start(first: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_guided_start(first: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_runtime_start(first: c_long, end: c_long, step: c_long);
}

/// Ends a region of an old compiler.
///
/// # Safety
/// The same requirements as for the real function apply to the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_parallel_end() {
    static FUNCTION: RuntimeFunction = RuntimeFunction::new("GOMP_parallel_end\0");
    // SAFETY: guaranteed by the caller.
    unsafe { call!(FUNCTION, fn(), ()) };
    end_unknown();
}

/// Runs code on a device, or on the calling thread as if it were in no region.
///
/// # Safety
/// The same requirements as for the real function apply to the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_target_ext(
    device: i32,
    work: Work,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut u16,
    flags: c_uint,
    depend: *mut *mut c_void,
    arguments: *mut *mut c_void,
) {
    static FUNCTION: RuntimeFunction = RuntimeFunction::new("GOMP_target_ext\0");
    // SAFETY: guaranteed by the caller; the real function has this type.
    outside(|| unsafe {
        call!(
            FUNCTION,
            fn(i32, Work, usize, *mut *mut c_void, *mut usize, *mut u16, c_uint, *mut *mut c_void, *mut *mut c_void),
            (device, work, count, addresses, sizes, kinds, flags, depend, arguments)
        )
    });
}
