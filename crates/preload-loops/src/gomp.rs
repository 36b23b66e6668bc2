//! libgomp's functions for loops, as gcc calls them. The compiler's code for a loop is:
//!
//! ```c
//! if (GOMP_loop_X_start(first, end, step, chunk, &from, &to))
//!     do { for (i = from; i < to; i += step) BODY } while (GOMP_loop_X_next(&from, &to));
//! GOMP_loop_end();            // or _end_nowait, or _end_cancel
//! ```
//!
//! A combined `parallel for` may begin the loop in the call that begins the region, `GOMP_parallel_loop_X`; its threads call `_next` first.
//!
//! | call | a loop of ours | a loop of the runtime |
//! |---|---|---|
//! | `_start` | open or join an instance, first chunk | libgomp's function of this name |
//! | `_next` | next chunk | libgomp's function of this name |
//! | `_end` | libgomp's `GOMP_barrier` | libgomp's function of this name |
//! | `_end_nowait` | nothing | libgomp's function of this name |
//! | `_end_cancel` | libgomp's `GOMP_barrier_cancel` | libgomp's function of this name |
//! | `GOMP_parallel_loop_X` | libgomp's `GOMP_parallel`; each thread begins the loop | libgomp's function of this name |
//!
//! Loops of the runtime are those with `ordered`, doacross loops, loops with task reductions (`GOMP_loop_start`), and without `all:` those with
//! `dynamic` or `guided`. Each loop's end is called before the thread begins another loop of the same team, so one word for each thread tells which
//! of the two columns counts. libgomp does not know of our loops, so both kinds may be mixed in one region.

use std::ffi::{c_long, c_uint, c_void};
use std::mem::transmute;

use crate::bounds::Bounds;
use crate::member::{CALLER_AT, Clause};
use crate::region::{self, begin_unknown, changing, end_unknown, member, outside, run};
use crate::runtime::{Real, Work};

/// `unsigned long long` as libgomp's functions take it.
type Ull = u64;

/// Begins a loop: one of ours, or by `real`.
#[inline]
unsafe fn start(
    is_runtime: bool,
    monotonic: bool,
    bounds: impl FnOnce() -> Bounds,
    chunk: i64,
    from: *mut u64,
    to: *mut u64,
    real: impl FnOnce() -> bool,
) -> bool {
    // SAFETY: the member is used within this call only.
    let Some(member) = (unsafe { changing(is_runtime) }) else { return real() };
    let clause = Clause { monotonic, chunk: chunk.max(1) as u64, place: member.caller() };
    // SAFETY: the program's threads call this for the same loops in the same order, as OpenMP requires; the pointers are the program's.
    unsafe {
        member.begin_loop(bounds(), clause);
        member.next(from, to)
    }
}

/// Calls the libgomp function `$real` of the given type. If the program has none, the result is `$else`.
macro_rules! call {
    ($real:expr, fn($($type:ty),*) $(-> $result:ty)?, ($($argument:expr),*) $(, else $else:expr)?) => {
        match transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>>($real.get()) {
            Some(function) => function($($argument),*),
            None => ($($else)?),
        }
    };
}

/// Defines the functions of a schedule: `$start` and `$next`, for signed or unsigned counters, with a chunk in the call or without.
macro_rules! loops {
    (@start long, chunk, $name:ident, $is_runtime:expr, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            first: c_long, end: c_long, step: c_long, chunk: c_long, from: *mut c_long, to: *mut c_long,
        ) -> bool {
            // SAFETY: guaranteed by the program; the real function has this type.
            unsafe {
                start($is_runtime, $monotonic, || Bounds::signed(first, end, step), chunk, from.cast(), to.cast(), || {
                    call!(REAL, fn(c_long, c_long, c_long, c_long, *mut c_long, *mut c_long) -> bool,
                        (first, end, step, chunk, from, to), else false)
                })
            }
        }
    };
    (@start long, none, $name:ident, $is_runtime:expr, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            first: c_long, end: c_long, step: c_long, from: *mut c_long, to: *mut c_long,
        ) -> bool {
            // SAFETY: as above.
            unsafe {
                start($is_runtime, $monotonic, || Bounds::signed(first, end, step), 1, from.cast(), to.cast(), || {
                    call!(REAL, fn(c_long, c_long, c_long, *mut c_long, *mut c_long) -> bool,
                        (first, end, step, from, to), else false)
                })
            }
        }
    };
    (@start ull, chunk, $name:ident, $is_runtime:expr, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            up: bool, first: Ull, end: Ull, step: Ull, chunk: Ull, from: *mut Ull, to: *mut Ull,
        ) -> bool {
            // SAFETY: as above.
            unsafe {
                let size = i64::try_from(chunk).unwrap_or(i64::MAX);
                start($is_runtime, $monotonic, || Bounds::unsigned(up, first, end, step), size, from, to, || {
                    call!(REAL, fn(bool, Ull, Ull, Ull, Ull, *mut Ull, *mut Ull) -> bool,
                        (up, first, end, step, chunk, from, to), else false)
                })
            }
        }
    };
    (@start ull, none, $name:ident, $is_runtime:expr, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            up: bool, first: Ull, end: Ull, step: Ull, from: *mut Ull, to: *mut Ull,
        ) -> bool {
            // SAFETY: as above.
            unsafe {
                start($is_runtime, $monotonic, || Bounds::unsigned(up, first, end, step), 1, from, to, || {
                    call!(REAL, fn(bool, Ull, Ull, Ull, *mut Ull, *mut Ull) -> bool,
                        (up, first, end, step, from, to), else false)
                })
            }
        }
    };
    ($($counter:ident $chunk:ident $start:ident $next:ident, runtime: $is_runtime:expr, monotonic: $monotonic:expr;)*) => { $(
        const _: () = {
            static REAL: Real = Real::new(concat!(stringify!($start), "\0"));
            loops!(@start $counter, $chunk, $start, $is_runtime, $monotonic);
            arch::noting_caller! { at CALLER_AT;
                /// Begins a loop, and returns whether the thread has a chunk.
                $start => begin;
            }
        };

        /// Returns whether the thread has another chunk of the loop.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $next(from: *mut u64, to: *mut u64) -> bool {
            static REAL: Real = Real::new(concat!(stringify!($next), "\0"));
            let member = member();
            // SAFETY: the member is the calling thread's; the pointers are the program's. The real function has this type, because a counter has 64 bits.
            unsafe {
                match member.as_mut() {
                    Some(member) if member.has_loop() => member.next(from, to),
                    _ => call!(REAL, fn(*mut u64, *mut u64) -> bool, (from, to), else false),
                }
            }
        }
    )* };
}

loops! {
    long chunk GOMP_loop_dynamic_start GOMP_loop_dynamic_next, runtime: false, monotonic: true;
    long chunk GOMP_loop_guided_start GOMP_loop_guided_next, runtime: false, monotonic: true;
    long none GOMP_loop_runtime_start GOMP_loop_runtime_next, runtime: true, monotonic: true;
    long chunk GOMP_loop_nonmonotonic_dynamic_start GOMP_loop_nonmonotonic_dynamic_next, runtime: false, monotonic: false;
    long chunk GOMP_loop_nonmonotonic_guided_start GOMP_loop_nonmonotonic_guided_next, runtime: false, monotonic: false;
    long none GOMP_loop_nonmonotonic_runtime_start GOMP_loop_nonmonotonic_runtime_next, runtime: true, monotonic: false;
    long none GOMP_loop_maybe_nonmonotonic_runtime_start GOMP_loop_maybe_nonmonotonic_runtime_next,
        runtime: true, monotonic: false;
    ull chunk GOMP_loop_ull_dynamic_start GOMP_loop_ull_dynamic_next, runtime: false, monotonic: true;
    ull chunk GOMP_loop_ull_guided_start GOMP_loop_ull_guided_next, runtime: false, monotonic: true;
    ull none GOMP_loop_ull_runtime_start GOMP_loop_ull_runtime_next, runtime: true, monotonic: true;
    ull chunk GOMP_loop_ull_nonmonotonic_dynamic_start GOMP_loop_ull_nonmonotonic_dynamic_next,
        runtime: false, monotonic: false;
    ull chunk GOMP_loop_ull_nonmonotonic_guided_start GOMP_loop_ull_nonmonotonic_guided_next,
        runtime: false, monotonic: false;
    ull none GOMP_loop_ull_nonmonotonic_runtime_start GOMP_loop_ull_nonmonotonic_runtime_next,
        runtime: true, monotonic: false;
    ull none GOMP_loop_ull_maybe_nonmonotonic_runtime_start GOMP_loop_ull_maybe_nonmonotonic_runtime_next,
        runtime: true, monotonic: false;
}

/// Ends the calling thread's loop. Returns whether it was one of ours.
#[inline]
fn leave() -> bool {
    // SAFETY: the word is null or the address of the calling thread's member.
    match unsafe { member().as_mut() } {
        Some(member) if member.has_loop() => {
            member.leave_loop();
            true
        }
        _ => false,
    }
}

static BARRIER: Real = Real::new("GOMP_barrier\0");
static BARRIER_CANCEL: Real = Real::new("GOMP_barrier_cancel\0");
static PARALLEL: Real = Real::new("GOMP_parallel\0");

/// Ends a loop with a barrier.
///
/// # Safety
/// The same requirements as for the real function apply to the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_loop_end() {
    static REAL: Real = Real::new("GOMP_loop_end\0");
    // SAFETY: the program calls a function that contains this barrier.
    unsafe { call!(if leave() { &BARRIER } else { &REAL }, fn(), ()) }
}

/// Ends a loop without a barrier.
///
/// # Safety
/// As for `GOMP_loop_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_loop_end_nowait() {
    static REAL: Real = Real::new("GOMP_loop_end_nowait\0");
    if !leave() {
        // SAFETY: guaranteed by the caller.
        unsafe { call!(REAL, fn(), ()) }
    }
}

/// Ends a loop with a barrier at which the region may be cancelled. Returns whether it is.
///
/// # Safety
/// As for `GOMP_loop_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_loop_end_cancel() -> bool {
    static REAL: Real = Real::new("GOMP_loop_end_cancel\0");
    // SAFETY: as for `GOMP_loop_end`.
    unsafe { call!(if leave() { &BARRIER_CANCEL } else { &REAL }, fn() -> bool, (), else false) }
}

/// Defines functions that begin and end a region. Each row has the further arguments of libgomp's function, and its result.
macro_rules! regions {
    ($($name:ident($($argument:ident: $type:ty),*), reads_data: $reads:expr $(, $result:ty, else $alone:expr)?;)*) => { $(
        /// Runs a region in a team of ours.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(work: Work, data: *mut c_void, $($argument: $type),*) $(-> $result)? {
            static REAL: Real = Real::new(concat!(stringify!($name), "\0"));
            // SAFETY: guaranteed by the caller; the real function has this type.
            unsafe {
                run(work, data, $reads, None, |work, data| {
                    call!(REAL, fn(Work, *mut c_void, $($type),*) $(-> $result)?, (work, data, $($argument),*)
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
    ($($name:ident($($chunk:ident)?), runtime: $is_runtime:expr, monotonic: $monotonic:expr;)*) => { $(
        /// Runs a region that consists of a loop.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            work: Work, data: *mut c_void, threads: c_uint, first: c_long, end: c_long, step: c_long, $($chunk: c_long,)? flags: c_uint,
        ) {
            static REAL: Real = Real::new(concat!(stringify!($name), "\0"));
            let size = [1, $($chunk)?].into_iter().max().unwrap_or(1) as u64;
            let clause = Clause { monotonic: $monotonic, chunk: size, place: work as usize };
            let ours = region::changes($is_runtime).then(|| (Bounds::signed(first, end, step), clause));
            // SAFETY: guaranteed by the caller; the real functions have these types. A loop of ours needs a region only.
            unsafe {
                match ours {
                    Some(_) => run(work, data, false, ours, |work, data| {
                        call!(PARALLEL, fn(Work, *mut c_void, c_uint, c_uint), (work, data, threads, flags))
                    }),
                    None => run(work, data, false, None, |work, data| {
                        call!(REAL, fn(Work, *mut c_void, c_uint, c_long, c_long, c_long, $(combined!(@long $chunk),)? c_uint),
                            (work, data, threads, first, end, step, $($chunk,)? flags))
                    }),
                }
            }
        }
    )* };
    (@long $chunk:ident) => { c_long };
}

combined! {
    GOMP_parallel_loop_dynamic(chunk), runtime: false, monotonic: true;
    GOMP_parallel_loop_guided(chunk), runtime: false, monotonic: true;
    GOMP_parallel_loop_runtime(), runtime: true, monotonic: true;
    GOMP_parallel_loop_nonmonotonic_dynamic(chunk), runtime: false, monotonic: false;
    GOMP_parallel_loop_nonmonotonic_guided(chunk), runtime: false, monotonic: false;
    GOMP_parallel_loop_nonmonotonic_runtime(), runtime: true, monotonic: false;
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(), runtime: true, monotonic: false;
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
            static REAL: Real = Real::new(concat!(stringify!($name), "\0"));
            begin_unknown();
            // SAFETY: guaranteed by the caller; the real function has this type.
            unsafe { call!(REAL, fn(Work, *mut c_void, c_uint $(, $type)*), (work, data, threads $(, $argument)*)) }
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
    static REAL: Real = Real::new("GOMP_parallel_end\0");
    // SAFETY: guaranteed by the caller.
    unsafe { call!(REAL, fn(), ()) };
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
    static REAL: Real = Real::new("GOMP_target_ext\0");
    // SAFETY: guaranteed by the caller; the real function has this type.
    outside(|| unsafe {
        call!(
            REAL,
            fn(i32, Work, usize, *mut *mut c_void, *mut usize, *mut u16, c_uint, *mut *mut c_void, *mut *mut c_void),
            (device, work, count, addresses, sizes, kinds, flags, depend, arguments)
        )
    });
}
