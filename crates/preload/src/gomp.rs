//! Barriers of libgomp, as gcc calls them: at the end of regions, loops and sections, and explicit ones.
//!
//! gcc's code makes no call at the end of a region: threads return from the region's function into libgomp, which keeps all but the first thread in
//! its barrier until the next region. Therefore this module wraps the region's function. A thread's *share* of a region is the thread's call of that
//! function. A thread counts as *in a barrier* from its return until it begins its share of the next region. The first thread counts as in a barrier
//! until all threads have returned. The last thread that returns clears the flag `in_barrier` in the first thread's slot (its entry in the shared
//! memory), because the first thread may have no CPU to do so.
//!
//! A *phase* begins with a region, and after each barrier within the region. A waiting thread is thus released exactly when another thread of its
//! team has begun more phases. The end of a region does not begin a phase: the other threads continue to wait while the first thread works alone.
//!
//! Teams of one thread never wait at a barrier. Their phases are not counted, since otherwise the phases of different threads could not be compared.
//!
//! A thread in a barrier may run tasks, which cannot be detected here. Therefore the library records in the shared memory whether the program creates
//! tasks: if so, the flags `in_barrier` are unreliable. If `overlap` runs the tasks, threads wait in the barriers of `overlap`, and nothing is
//! recorded: overlap and packing cannot be combined in one program.

use std::ffi::{c_long, c_uint, c_void};
use std::mem::{offset_of, transmute};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use tasks::group::Group;
use tasks::team::Team;
use tasks::worker::Worker;
use wire::preload::{LIBGOMP, ROLE_TEAM, ROLE_THREAD, Slot};

use crate::calls::Call;
use crate::memory::{self, note_seen};
use crate::overlap::{self, Inner, cancelling};
use crate::phases;
use crate::real_symbols::{Library, Work, library, resolve};
use crate::throttle;

/// The data that each thread of a team needs to begin its share of a region (its call of the region's function). They are on one cache line, because
/// each thread has to fetch them from the first thread.
#[repr(C, align(64))]
struct Region<'a> {
    /// The first word of the program's data, which GOMP_parallel_reductions reads.
    first_word: usize,
    work: Work,
    data: *mut c_void,
    library: &'static Library,
    /// Number of the phase that begins with the region. (A phase begins with a region, and after each barrier within it.)
    phases: u64,
    /// Slot (entry in the shared memory) of the thread that began the region.
    first: Option<&'static Slot>,
    /// The team of `overlap` for this region, if `overlap` runs the region's tasks.
    tasks: Option<&'static Team>,
    /// The task group of the region's reductions, if tasks take part in them. Its fields are written before the region's other threads run.
    group: Option<&'a Group>,
    returned: Returned,
}

// `returned`, which all threads write, begins on a new cache line; the fields before it are only read.
const _: () = assert!(offset_of!(Region<'_>, returned) == 64);

/// Number of threads that have returned from the region's function; on a cache line of its own, because all threads write it.
#[repr(align(64))]
struct Returned(AtomicU32);

/// The function that libgomp calls in each thread, instead of the region's function.
unsafe extern "C-unwind" fn share(region: *mut c_void) {
    // SAFETY: `around` passes a Region that lives until all threads have come to the region's end.
    let region: &Region<'_> = unsafe { &*region.cast() };
    let (work, data) = (region.work, region.data);
    let team = region.library.team_size();
    let slot = if team > 1 { memory::thread_slot() } else { None };
    slot.filter(|slot| slot.role.load(Ordering::Relaxed) == ROLE_THREAD).into_iter().for_each(enlist);
    let slot = slot.filter(|_| region.tasks.is_none());
    if let Some(slot) = slot {
        phases::begin_share(slot, region.phases);
    }
    overlap::share(region.tasks, region.group, region.library, team, || {
        // SAFETY: the program's function is called with the data that the program has passed for it.
        unsafe { work(data) };
    });
    let Some(slot) = slot else { return };
    phases::arrive(slot);
    if region.returned.0.fetch_add(1, Ordering::AcqRel) + 1 == team as u32 {
        // All threads have now returned from the region's function. `region` is still valid, because it lives until this thread, too, has reached
        // libgomp's barrier at the region's end.
        region.first.into_iter().for_each(memory::let_go);
    }
}

/// Marks the calling thread as a thread of a libgomp team. Called once for each thread, when it first works in a region that has several threads.
#[cold]
fn enlist(slot: &Slot) {
    slot.role.store(ROLE_TEAM, Ordering::Relaxed);
    note_seen(LIBGOMP);
    if let Some(page) = memory::page() {
        page.team_threads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a parallel construct: `threads` threads (0: as many as allowed) call `work` with `data`. `go` calls libgomp's function, with the function
/// that each thread has to call in place of `work`; its result is returned. If the program has no libgomp, the calling thread runs the region alone,
/// and `alone` is returned.
#[inline]
unsafe fn around<R>(
    call: Call,
    work: Work,
    data: *mut c_void,
    threads: c_uint,
    alone: R,
    go: impl FnOnce(*mut c_void, Work, *mut c_void, c_uint) -> R,
) -> R {
    let Some((library, real_fn)) = resolve(call, work as usize) else {
        // SAFETY: the program's function is called with its own data.
        unsafe { work(data) };
        return alone;
    };
    if library.is_libomp() {
        return go(real_fn, work, data, threads);
    }
    let mut inner = Inner::begin(library);
    let threads = inner.as_mut().map_or(threads, |inner| inner.threads_allowed(library, threads));
    let first = memory::thread_slot();
    throttle::look(library);
    let phases = first.map_or(0, |slot| slot.phases.load(Ordering::Relaxed).wrapping_add(1));
    // SAFETY: for `GOMP_parallel_reductions`, libgomp itself reads the data, so the compiler passes at least one word. For the other calls, `data` is
    // meant only for the program's function: it may be null or any pointer, and is not read here.
    let first_word = if matches!(call, Call::GOMP_parallel_reductions) { unsafe { *data.cast() } } else { 0 };
    let returned = Returned(AtomicU32::new(0));
    // SAFETY: `inner` lives until the region is over.
    let tasks = unsafe { overlap::team(library, work, threads, inner.as_ref()) };
    let group = (first_word != 0).then(|| overlap::group(first_word as *mut usize));
    let group = group.as_ref();
    let mut region = Region { first_word, work, data, library, phases, first, tasks, group, returned };
    let result = go(real_fn, share, (&raw mut region).cast(), threads);
    tasks.into_iter().for_each(|team| overlap::put_back(team, work));
    inner.into_iter().for_each(Inner::end);
    first.into_iter().for_each(memory::let_go);
    result
}

/// Defines the wrappers of parallel constructs. Each line has the number of threads that the construct requests, its further arguments, and its
/// result.
macro_rules! parallel {
    ($($name:ident($threads:ident: c_uint, $($argument:ident: $type:ty),*) $(-> $result:ty = $alone:expr)?;)*) => { $(
        /// Wrapper of the libgomp function of this name, which runs a parallel construct. Also records the barrier at the region's end.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(work: Work, data: *mut c_void, $threads: c_uint, $($argument: $type),*) $(-> $result)? {
            // SAFETY: guaranteed by the caller; the real function of this name has this type.
            unsafe {
                around(Call::$name, work, data, $threads, ($($alone)?), |real_fn, work, data, $threads| {
                    let real_fn: unsafe extern "C-unwind" fn(Work, *mut c_void, c_uint, $($type),*) $(-> $result)? = transmute(real_fn);
                    real_fn(work, data, $threads, $($argument),*)
                })
            }
        }
    )* };
}

parallel! {
    GOMP_parallel(threads: c_uint, flags: c_uint);
    GOMP_parallel_reductions(threads: c_uint, flags: c_uint) -> c_uint = 1;
    GOMP_parallel_sections(threads: c_uint, count: c_uint, flags: c_uint);
    GOMP_parallel_loop_static(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_dynamic(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_guided(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime(
        threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime(
        threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(
        threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
}

/// Runs a barrier that was called from the address `caller`, and records in the shared memory when the thread arrives and when it leaves. `go` calls
/// libgomp's function, and returns its result and whether it waited in a barrier. Returns the function's result, or `alone` if the program has no
/// libgomp.
#[inline]
fn meet<R>(call: Call, caller: usize, alone: R, go: impl FnOnce(*mut c_void) -> (R, bool)) -> R {
    let Some((library, real_fn)) = resolve(call, caller) else { return alone };
    let counts = !library.is_libomp() && library.team_size() > 1;
    let slot = if counts { memory::thread_slot() } else { None };
    let Some(slot) = slot else { return go(real_fn).0 };
    throttle::look(library);
    phases::arrive(slot);
    let (result, was_in_barrier) = go(real_fn);
    if was_in_barrier {
        phases::leave(slot);
    } else {
        memory::let_go(slot);
    }
    result
}

/// Defines interposed functions that contain a barrier, and record the wait there. Each row has the function's result, the result in a program
/// without libgomp, and whether the function has waited in a barrier. If `overlap` runs the tasks, `ours` is called first, and libgomp's function
/// only if `ours` returns `None`.
macro_rules! meeting {
    ($(#[$doc:meta] $name:ident -> $result:ty = $alone:expr, $was_in_barrier:expr, ours $ours:expr;)*) => { $(
        const _: () = {
            /// `argument` is the argument of libgomp's function, if there is one.
            extern "C-unwind" fn meet_at(argument: *mut c_void, caller: usize) -> $result {
                let ours: fn(&Library, &Worker) -> Option<$result> = $ours;
                if let Some((worker, library)) = overlap::worker_in_region().and_then(|worker| Some((worker, library(caller)?)))
                    && let Some(result) = ours(library, worker)
                {
                    return result;
                }
                meet(Call::$name, caller, $alone, |real_fn| {
                    type RealFn = unsafe extern "C-unwind" fn(*mut c_void) -> $result;
                    // SAFETY: `real_fn` is libgomp's function of this name, called with the program's argument. It has this type, or it takes no
                    // argument and ignores the one that is passed here.
                    let result = unsafe { transmute::<*mut c_void, RealFn>(real_fn)(argument) };
                    let was_in_barrier: fn(&$result) -> bool = $was_in_barrier;
                    let was_in_barrier = was_in_barrier(&result);
                    (result, was_in_barrier)
                })
            }
            arch::with_caller! { #[$doc] $name => meet_at; }
        };
    )* };
}

meeting! {
    /// Explicit barrier.
    GOMP_barrier -> () = (), |()| true, ours |library, worker| {
        worker.barrier();
        is_enough(library).then_some(())
    };
    /// Explicit barrier that may be cancelled.
    GOMP_barrier_cancel -> bool = false, |_| true, ours |library, worker| {
        let is_cancelled = worker.barrier_or_cancel();
        is_enough(library).then_some(is_cancelled)
    };
    /// Barrier at the end of a loop.
    GOMP_loop_end -> () = (), |()| true,
        ours |all, worker| end(all, Call::GOMP_loop_end_nowait, || worker.barrier());
    /// Barrier at the end of a loop that may be cancelled.
    GOMP_loop_end_cancel -> bool = false, |_| true,
        ours |all, worker| end(all, Call::GOMP_loop_end_nowait, || worker.barrier_or_cancel());
    /// Barrier at the end of sections.
    GOMP_sections_end -> () = (), |()| true,
        ours |all, worker| end(all, Call::GOMP_sections_end_nowait, || worker.barrier());
    /// Barrier at the end of sections that may be cancelled.
    GOMP_sections_end_cancel -> bool = false, |_| true,
        ours |all, worker| end(all, Call::GOMP_sections_end_nowait, || worker.barrier_or_cancel());
    // A null result means that this thread runs the body of the `single` construct. It reaches the barrier later, in `GOMP_single_copy_end`.
    /// Barrier at which threads wait for the result of a `single` construct (`copyprivate`).
    GOMP_single_copy_start -> *mut c_void = null_mut(), |result| !result.is_null(), ours |_, _| None;
    /// Barrier of a `single` construct (`copyprivate`) for the thread that has computed the result.
    GOMP_single_copy_end -> () = (), |()| true, ours |_, _| None;
}

/// Returns whether the barrier of `overlap` suffices. If constructs may be cancelled, libgomp's barrier has to follow: at the end of a loop with a
/// static schedule, only libgomp's barrier resets the loop's cancellation.
fn is_enough(library: &Library) -> bool {
    !cancelling::is_allowed(library)
}

/// Ends a construct whose tasks `overlap` runs: calls `without_barrier`, libgomp's function that ends it without a barrier, and then `barrier`, the
/// barrier of `overlap`. If the program may cancel constructs, calls only `barrier`, and returns `None`. The caller then calls libgomp's function
/// that ends the construct with a barrier; no thread has to wait for tasks there.
fn end<R>(library: &Library, without_barrier: Call, barrier: impl FnOnce() -> R) -> Option<R> {
    if !is_enough(library) {
        barrier();
        return None;
    }
    library.invoke(without_barrier);
    Some(barrier())
}
