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
//! unsigned. The thread's team is known from OMPT ([`crate::ompt`]); the loop's place is the address of `loc`.
//!
//! `ordered` loops, and those with the `simd` modifier, whose chunks must be multiples of the vector length, belong to libomp.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use crate::bounds::Bounds;
use crate::member::Clause;
use crate::ompt;
use crate::region::{changing, member};
use crate::runtime::Real;

/// Values of libomp's sched_type (kmp.h).
const DYNAMIC_CHUNKED: i32 = 35;
const GUIDED_CHUNKED: i32 = 36;
const RUNTIME: i32 = 37;
const AUTO: i32 = 38;
const MONOTONIC: i32 = 1 << 29;
const NONMONOTONIC: i32 = 1 << 30;

/// Begins a loop of ours; returns false if the loop belongs to libomp.
#[inline]
unsafe fn begin(location: *const c_void, schedule: i32, bounds: Option<Bounds>, chunk: i64) -> bool {
    let kind = schedule & !(MONOTONIC | NONMONOTONIC);
    let is_runtime = matches!(kind, RUNTIME | AUTO);
    let is_known = is_runtime || matches!(kind, DYNAMIC_CHUNKED | GUIDED_CHUNKED);
    let monotonic = schedule & NONMONOTONIC == 0 && kind != AUTO;
    // SAFETY: the member is used within this call only.
    match unsafe { changing(is_runtime) } {
        Some(member) if is_known && ompt::is_active() => {
            let Some(bounds) = bounds else {
                member.leave_loop();
                return false;
            };
            let chunk = if is_runtime { 1 } else { chunk.max(1) as u64 };
            let clause = Clause { monotonic, chunk, place: location as usize };
            // SAFETY: the team's threads call this for the same loops in the same order, as OpenMP requires.
            unsafe { member.begin_loop(bounds, clause) };
            true
        }
        Some(member) => {
            member.leave_loop();
            false
        }
        None => false,
    }
}

/// Calls the libomp function `$real` of the given type. If the program has none, the result is `$else`.
macro_rules! call {
    ($real:expr, fn($($type:ty),*) $(-> $result:ty)?, ($($argument:expr),*) $(, else $else:expr)?) => {
        match transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>>($real.get()) {
            Some(function) => function($($argument),*),
            None => ($($else)?),
        }
    };
}

/// Defines the functions for one type of counter. A step is signed, and has the size of the counter.
macro_rules! dispatch {
    ($($init:ident $next:ident $value:ty, $step:ty, $wide:ty, $bounds:ident;)*) => { $(
        /// Begins a loop.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $init(
            location: *const c_void, thread: i32, schedule: i32, first: $value, last: $value, step: $step, chunk: $step,
        ) {
            static REAL: Real = Real::new(concat!(stringify!($init), "\0"));
            let bounds = Bounds::$bounds(<$wide>::from(first), <$wide>::from(last), i64::from(step));
            // SAFETY: guaranteed by the program; the real function has this type.
            unsafe {
                if !begin(location, schedule, bounds, i64::from(chunk)) {
                    call!(REAL, fn(*const c_void, i32, i32, $value, $value, $step, $step),
                        (location, thread, schedule, first, last, step, chunk));
                }
            }
        }

        /// Returns 1 and the next chunk of the thread, or 0.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $next(
            location: *const c_void, thread: i32, is_last: *mut i32, from: *mut $value, to: *mut $value, stride: *mut $step,
        ) -> c_int {
            static REAL: Real = Real::new(concat!(stringify!($next), "\0"));
            // SAFETY: the member is the calling thread's; the pointers are the program's, or null. The real function has this type.
            unsafe {
                let member = match member().as_mut() {
                    Some(member) if member.has_loop() => member,
                    _ => return call!(REAL, fn(*const c_void, i32, *mut i32, *mut $value, *mut $value, *mut $step) -> c_int,
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
