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

use std::ffi::c_long;

use crate::bounds::Bounds;
use crate::clause::Clause;
use crate::member::CALLER_AT;
use crate::region::{changing, member};
use crate::runtime::{RuntimeFunction, call};
use wire::loop_records::Clause as Written;

/// `unsigned long long` as libgomp's functions take it.
type Ull = u64;

/// Begins a loop: one of ours, or by `real`.
#[inline]
unsafe fn start(
    written: Written,
    monotonic: bool,
    bounds: impl FnOnce() -> Bounds,
    chunk: i64,
    from: *mut u64,
    to: *mut u64,
    real: impl FnOnce() -> bool,
) -> bool {
    // SAFETY: the member is used within this call only.
    let Some(member) = (unsafe { changing(written) }) else { return real() };
    let clause = Clause { written, monotonic, chunk: chunk.max(1) as u64, place: member.caller(), is_libomp: false };
    // SAFETY: the program's threads call this for the same loops in the same order, as OpenMP requires; the pointers are the program's.
    unsafe {
        member.begin_loop(bounds(), clause);
        member.next(from, to)
    }
}

/// Asks the runtime for a chunk. Apart, so that the frequent path of a request saves no registers.
#[inline(never)]
unsafe fn real_next(function: &RuntimeFunction, from: *mut u64, to: *mut u64) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { call!(function, fn(*mut u64, *mut u64) -> bool, (from, to), else false) }
}

/// Defines the functions of a schedule: `$start` and `$next`, for signed or unsigned counters, with a chunk in the call or without.
macro_rules! loops {
    (@start long, chunk, $name:ident, $clause:ident, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            first: c_long, end: c_long, step: c_long, chunk: c_long, from: *mut c_long, to: *mut c_long,
        ) -> bool {
            // SAFETY: guaranteed by the program; the real function has this type.
            unsafe {
                start(Written::$clause, $monotonic, || Bounds::signed(first, end, step), chunk, from.cast(), to.cast(), || {
                    call!(FUNCTION, fn(c_long, c_long, c_long, c_long, *mut c_long, *mut c_long) -> bool,
                        (first, end, step, chunk, from, to), else false)
                })
            }
        }
    };
    (@start long, none, $name:ident, $clause:ident, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            first: c_long, end: c_long, step: c_long, from: *mut c_long, to: *mut c_long,
        ) -> bool {
            // SAFETY: as above.
            unsafe {
                start(Written::$clause, $monotonic, || Bounds::signed(first, end, step), 1, from.cast(), to.cast(), || {
                    call!(FUNCTION, fn(c_long, c_long, c_long, *mut c_long, *mut c_long) -> bool,
                        (first, end, step, from, to), else false)
                })
            }
        }
    };
    (@start ull, chunk, $name:ident, $clause:ident, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            up: bool, first: Ull, end: Ull, step: Ull, chunk: Ull, from: *mut Ull, to: *mut Ull,
        ) -> bool {
            // SAFETY: as above.
            unsafe {
                let size = i64::try_from(chunk).unwrap_or(i64::MAX);
                start(Written::$clause, $monotonic, || Bounds::unsigned(up, first, end, step), size, from, to, || {
                    call!(FUNCTION, fn(bool, Ull, Ull, Ull, Ull, *mut Ull, *mut Ull) -> bool,
                        (up, first, end, step, chunk, from, to), else false)
                })
            }
        }
    };
    (@start ull, none, $name:ident, $clause:ident, $monotonic:expr) => {
        unsafe extern "C-unwind" fn begin(
            up: bool, first: Ull, end: Ull, step: Ull, from: *mut Ull, to: *mut Ull,
        ) -> bool {
            // SAFETY: as above.
            unsafe {
                start(Written::$clause, $monotonic, || Bounds::unsigned(up, first, end, step), 1, from, to, || {
                    call!(FUNCTION, fn(bool, Ull, Ull, Ull, *mut Ull, *mut Ull) -> bool,
                        (up, first, end, step, from, to), else false)
                })
            }
        }
    };
    ($($counter:ident $chunk:ident $start:ident $next:ident, clause: $clause:ident, monotonic: $monotonic:expr;)*) => { $(
        const _: () = {
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($start), "\0"));
            loops!(@start $counter, $chunk, $start, $clause, $monotonic);
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
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($next), "\0"));
            // SAFETY: the member is the calling thread's; the pointers are the program's. The real function has this type, because a counter has 64 bits.
            unsafe {
                match member().as_mut() {
                    Some(member) if member.is_fixed() => member.next_fixed(from, to),
                    Some(member) if member.is_in_table() => member.next_in_table(from, to),
                    Some(member) if member.has_loop() => member.next_of_others(from, to),
                    _ => real_next(&FUNCTION, from, to),
                }
            }
        }
    )* };
}

loops! {
    long chunk GOMP_loop_dynamic_start GOMP_loop_dynamic_next, clause: Dynamic, monotonic: true;
    long chunk GOMP_loop_guided_start GOMP_loop_guided_next, clause: Guided, monotonic: true;
    long none GOMP_loop_runtime_start GOMP_loop_runtime_next, clause: Runtime, monotonic: true;
    long chunk GOMP_loop_nonmonotonic_dynamic_start GOMP_loop_nonmonotonic_dynamic_next, clause: Dynamic, monotonic: false;
    long chunk GOMP_loop_nonmonotonic_guided_start GOMP_loop_nonmonotonic_guided_next, clause: Guided, monotonic: false;
    long none GOMP_loop_nonmonotonic_runtime_start GOMP_loop_nonmonotonic_runtime_next, clause: Runtime, monotonic: false;
    long none GOMP_loop_maybe_nonmonotonic_runtime_start GOMP_loop_maybe_nonmonotonic_runtime_next, clause: Runtime, monotonic: false;
    ull chunk GOMP_loop_ull_dynamic_start GOMP_loop_ull_dynamic_next, clause: Dynamic, monotonic: true;
    ull chunk GOMP_loop_ull_guided_start GOMP_loop_ull_guided_next, clause: Guided, monotonic: true;
    ull none GOMP_loop_ull_runtime_start GOMP_loop_ull_runtime_next, clause: Runtime, monotonic: true;
    ull chunk GOMP_loop_ull_nonmonotonic_dynamic_start GOMP_loop_ull_nonmonotonic_dynamic_next, clause: Dynamic, monotonic: false;
    ull chunk GOMP_loop_ull_nonmonotonic_guided_start GOMP_loop_ull_nonmonotonic_guided_next, clause: Guided, monotonic: false;
    ull none GOMP_loop_ull_nonmonotonic_runtime_start GOMP_loop_ull_nonmonotonic_runtime_next, clause: Runtime, monotonic: false;
    ull none GOMP_loop_ull_maybe_nonmonotonic_runtime_start GOMP_loop_ull_maybe_nonmonotonic_runtime_next, clause: Runtime, monotonic: false;
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

static BARRIER: RuntimeFunction = RuntimeFunction::new("GOMP_barrier\0");
static BARRIER_CANCEL: RuntimeFunction = RuntimeFunction::new("GOMP_barrier_cancel\0");

/// Ends a loop with a barrier.
///
/// # Safety
/// The same requirements as for the real function apply to the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_loop_end() {
    static FUNCTION: RuntimeFunction = RuntimeFunction::new("GOMP_loop_end\0");
    // SAFETY: the program calls a function that contains this barrier.
    unsafe { call!(if leave() { &BARRIER } else { &FUNCTION }, fn(), ()) }
}

/// Ends a loop without a barrier.
///
/// # Safety
/// As for `GOMP_loop_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_loop_end_nowait() {
    static FUNCTION: RuntimeFunction = RuntimeFunction::new("GOMP_loop_end_nowait\0");
    if !leave() {
        // SAFETY: guaranteed by the caller.
        unsafe { call!(FUNCTION, fn(), ()) }
    }
}

/// Ends a loop with a barrier at which the region may be cancelled. Returns whether it is.
///
/// # Safety
/// As for `GOMP_loop_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_loop_end_cancel() -> bool {
    static FUNCTION: RuntimeFunction = RuntimeFunction::new("GOMP_loop_end_cancel\0");
    // SAFETY: as for `GOMP_loop_end`.
    unsafe { call!(if leave() { &BARRIER_CANCEL } else { &FUNCTION }, fn() -> bool, (), else false) }
}
