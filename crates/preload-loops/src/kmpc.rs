//! libomp's functions for loops, as clang calls them. The compiler's code for a loop is:
//!
//! ```c
//! __kmpc_dispatch_init_4(&loc, gtid, schedule, first, last, step, chunk);
//! while (__kmpc_dispatch_next_4(&loc, gtid, &is_last, &from, &to, &stride))
//!     for (i = from; i <= to; i += step) BODY
//! __kmpc_barrier(&loc, gtid);         // unless nowait
//! ```
//!
//! `last` and `to` are executed. A loop ends when `next` returns 0, and the barrier is libomp's. The suffix tells the counter: 4 or 8 bytes, `u` for
//! unsigned. The thread's team is known from OMPT ([`crate::ompt`]); the loop's place is the address behind the first call,
//! because loops of a function may share their `loc`.
//!
//! A `static` loop asks once, with `__kmpc_for_static_init_4`, for the bounds of the thread's block. Its block may have another size, but there is no
//! other request.
//!
//! `ordered` loops, and those with the `simd` modifier, whose chunks must be multiples of the vector length, belong to libomp.

use std::ffi::{c_int, c_void};

use crate::bounds::{Bounds, Inclusive};
use crate::clause::Clause;
use crate::member::CALLER_AT;
use crate::ompt;
use crate::region::{changing, member};
use crate::runtime::{RuntimeFunction, call};
use wire::loop_records::Clause as Written;

/// Values of libomp's sched_type (kmp.h).
const STATIC: i32 = 34;
const DYNAMIC_CHUNKED: i32 = 35;
const GUIDED_CHUNKED: i32 = 36;
const RUNTIME: i32 = 37;
const AUTO: i32 = 38;
const MONOTONIC: i32 = 1 << 29;
const NONMONOTONIC: i32 = 1 << 30;

/// Begins a loop of ours; returns false if the loop belongs to libomp.
#[inline]
unsafe fn begin(schedule: i32, bounds: Option<Bounds>, chunk: i64) -> bool {
    let kind = schedule & !(MONOTONIC | NONMONOTONIC);
    let written = match kind {
        RUNTIME => Some(Written::Runtime),
        AUTO => Some(Written::Auto),
        DYNAMIC_CHUNKED => Some(Written::Dynamic),
        GUIDED_CHUNKED => Some(Written::Guided),
        _ => None,
    };
    let monotonic = schedule & NONMONOTONIC == 0 && kind != AUTO;
    // SAFETY: the member is used within this call only.
    let member = unsafe { changing(written.unwrap_or(Written::Dynamic)) };
    match (member, written, bounds) {
        (Some(member), Some(written), Some(bounds)) if ompt::is_active() => {
            let has_chunk = matches!(written, Written::Dynamic | Written::Guided);
            let chunk = if has_chunk { chunk.max(1) as u64 } else { 1 };
            let clause = Clause { written, monotonic, chunk, place: member.caller(), is_libomp: true };
            // SAFETY: the team's threads call this for the same loops in the same order, as OpenMP requires.
            unsafe { member.begin_loop(bounds, clause) };
            true
        }
        (Some(member), _, _) => {
            member.leave_loop();
            false
        }
        (None, _, _) => false,
    }
}

/// Defines the functions for one type of counter. A step is signed, and has the size of the counter.
macro_rules! dispatch {
    ($($init:ident $next:ident $value:ty, $step:ty, $wide:ty, $bounds:ident;)*) => { $(
        const _: () = {
            unsafe extern "C-unwind" fn init(
                location: *const c_void, thread: i32, schedule: i32, first: $value, last: $value, step: $step, chunk: $step,
            ) {
                static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($init), "\0"));
                let bounds = Bounds::$bounds(<$wide>::from(first), <$wide>::from(last), i64::from(step));
                // SAFETY: guaranteed by the program; the real function has this type.
                unsafe {
                    if !begin(schedule, bounds, i64::from(chunk)) {
                        call!(FUNCTION, fn(*const c_void, i32, i32, $value, $value, $step, $step),
                            (location, thread, schedule, first, last, step, chunk));
                    }
                }
            }
            arch::noting_caller! { at CALLER_AT;
                /// Begins a loop.
                $init => init;
            }
        };

        /// Returns 1 and the next chunk of the thread, or 0.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $next(
            location: *const c_void, thread: i32, is_last: *mut i32, from: *mut $value, to: *mut $value, stride: *mut $step,
        ) -> c_int {
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($next), "\0"));
            // SAFETY: the member is the calling thread's; the pointers are the program's, or null. The real function has this type.
            unsafe {
                let member = match member().as_mut() {
                    Some(member) if member.has_loop() => member,
                    _ => return call!(FUNCTION, fn(*const c_void, i32, *mut i32, *mut $value, *mut $value, *mut $step) -> c_int,
                        (location, thread, is_last, from, to, stride), else 0),
                };
                let Some(chunk) = member.next_inclusive() else {
                    // The program reads `is_last` after the loop, so it keeps the value of the thread's last chunk.
                    member.leave_loop();
                    return 0;
                };
                if let Some(is_last) = is_last.as_mut() {
                    *is_last = chunk.is_last.into();
                }
                // The values were words of this type before.
                (*from, *to) = (chunk.first as $value, chunk.last as $value);
                if let Some(stride) = stride.as_mut() {
                    *stride = chunk.step as $step;
                }
                1
            }
        }
    )* };
}

dispatch! {
    __kmpc_dispatch_init_4 __kmpc_dispatch_next_4 i32, i32, i64, signed_inclusive;
    __kmpc_dispatch_init_4u __kmpc_dispatch_next_4u u32, i32, u64, unsigned_inclusive;
    __kmpc_dispatch_init_8 __kmpc_dispatch_next_8 i64, i64, i64, signed_inclusive;
    __kmpc_dispatch_init_8u __kmpc_dispatch_next_8u u64, i64, u64, unsigned_inclusive;
}

/// Returns the thread's block of a `static` loop; `None` if libomp divides it.
#[inline]
fn block(schedule: i32, bounds: Option<Bounds>) -> Option<Option<Inclusive>> {
    if schedule & !(MONOTONIC | NONMONOTONIC) != STATIC || !ompt::is_active() {
        return None;
    }
    let bounds = bounds.filter(|bounds| bounds.trips > 0)?;
    // SAFETY: the word is null or the address of the calling thread's member.
    let block = unsafe { member().as_mut() }?.block(bounds.trips)?;
    Some((!block.is_empty()).then(|| bounds.inclusive_values(&block)))
}

/// Defines the functions of `static` loops for one type of counter.
macro_rules! static_init {
    ($($init:ident $value:ty, $step:ty, $wide:ty, $bounds:ident;)*) => { $(
        /// Changes the bounds of a loop to those of the thread's block.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $init(
            location: *const c_void, thread: i32, schedule: i32, is_last: *mut i32, lower: *mut $value, upper: *mut $value,
            stride: *mut $step, step: $step, chunk: $step,
        ) {
            static FUNCTION: RuntimeFunction = RuntimeFunction::new(concat!(stringify!($init), "\0"));
            // SAFETY: the pointers are the program's; `is_last` may be null. The real function has this type.
            unsafe {
                let bounds = Bounds::$bounds(<$wide>::from(*lower), <$wide>::from(*upper), i64::from(step));
                let Some(block) = block(schedule, bounds) else {
                    return call!(FUNCTION,
                        fn(*const c_void, i32, i32, *mut i32, *mut $value, *mut $value, *mut $step, $step, $step),
                        (location, thread, schedule, is_last, lower, upper, stride, step, chunk));
                };
                match block {
                    Some(block) => (*lower, *upper) = (block.first as $value, block.last as $value),
                    // As libomp says that a thread has no iterations.
                    None => *lower = (*upper).wrapping_add(if step > 0 { 1 } else { (0 as $value).wrapping_sub(1) }),
                }
                // The stride leads beyond the loop's end: there is one block for each thread.
                *stride = bounds.map_or(0, |bounds| bounds.trips as $step);
                if let Some(is_last) = is_last.as_mut() {
                    *is_last = block.is_some_and(|block| block.is_last).into();
                }
            }
        }
    )* };
}

static_init! {
    __kmpc_for_static_init_4 i32, i32, i64, signed_inclusive;
    __kmpc_for_static_init_4u u32, i32, u64, unsigned_inclusive;
    __kmpc_for_static_init_8 i64, i64, i64, signed_inclusive;
    __kmpc_for_static_init_8u u64, i64, u64, unsigned_inclusive;
}
