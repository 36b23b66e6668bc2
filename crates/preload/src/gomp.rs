//! libgomp's barriers, as gcc calls them: at the end of regions, loops and sections, or by themselves.
//!
//! At the end of a region there is no call: threads return from the region's function into libgomp, which
//! keeps all but the first in the barrier until the next region. So the function is wrapped. A thread counts
//! as *in a barrier* from its return until it begins its share of the next region; the first thread,
//! until all have returned: the last of them says so in the first's slot, since that thread may have no CPU to
//! say it.
//!
//! A *phase* begins with a region, and behind each barrier within it. So whoever waits is let go exactly when
//! another thread of its team has begun more phases; the end of a region begins none: the others wait on while
//! the first thread works alone.
//!
//! Teams of one thread meet nobody: they are not counted, or phases of threads could not be compared.
//!
//! A thread in a barrier may run tasks there. That cannot be told from here: a program that makes tasks is
//! marked, and its flags say little. Where tasks are ours (`overlap`), threads are in barriers of ours, and nothing is noted: overlap and
//! packing are not for one program.

use std::ffi::{c_long, c_uint, c_void};
use std::mem::{offset_of, transmute};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use tasks::group::Group;
use tasks::team::Team;
use tasks::worker::Worker;
use wire::guest::{LIBGOMP, ROLE_TEAM, ROLE_THREAD, Slot};

use crate::calls::Call;
use crate::memory::{self, note_seen};
use crate::overlap::{self, Inner, cancelling};
use crate::real::{Library, Work, library, real};
use crate::throttle;

/// What each thread of a team needs to begin its share: on one cache line, since each has to fetch it from the first thread.
#[repr(C, align(64))]
struct Region<'a> {
    /// The first word of the program's data: GOMP_parallel_reductions looks at it.
    first_word: usize,
    work: Work,
    data: *mut c_void,
    library: &'static Library,
    /// The phase that it is.
    phases: u64,
    /// The slot of the thread that began it.
    first: Option<&'static Slot>,
    /// Whose tasks are ours.
    tasks: Option<&'static Team>,
    /// If these take part in its reductions; its cells are written before there are other threads.
    group: Option<&'a Group>,
    returned: Returned,
}

// The line ends where the other begins.
const _: () = assert!(offset_of!(Region<'_>, returned) == 64);

/// Threads that have returned from their share: on a cache line that is written, unlike the others.
#[repr(align(64))]
struct Returned(AtomicU32);

/// What libgomp calls instead of the region's function, in each thread.
unsafe extern "C-unwind" fn share(region: *mut c_void) {
    // SAFETY: `around` passes a Region that lives until all threads have come to the region's end.
    let region: &Region<'_> = unsafe { &*region.cast() };
    let (work, data) = (region.work, region.data);
    let team = region.library.team_size();
    let slot = if team > 1 { memory::here() } else { None };
    slot.filter(|slot| slot.role.load(Ordering::Relaxed) == ROLE_THREAD).into_iter().for_each(enlist);
    let slot = slot.filter(|_| region.tasks.is_none());
    if let Some(slot) = slot {
        memory::begin_share(slot, region.phases);
    }
    overlap::share(region.tasks, region.group, region.library, team, || {
        // SAFETY: the program's function with its data.
        unsafe { work(data) };
    });
    let Some(slot) = slot else { return };
    memory::arrive(slot);
    if region.returned.0.fetch_add(1, Ordering::AcqRel) + 1 == team as u32 {
        // The region ends now, and lives until this thread has come to its barrier.
        region.first.into_iter().for_each(memory::let_go);
    }
}

/// A thread's first share.
#[cold]
fn enlist(slot: &Slot) {
    slot.role.store(ROLE_TEAM, Ordering::Relaxed);
    note_seen(LIBGOMP);
    if let Some(guest) = memory::guest() {
        guest.crew.fetch_add(1, Ordering::Relaxed);
    }
}

/// A parallel construct: `go` calls the real function with what it shall call in each thread. Without a library
/// the region is done by one thread, `alone` is the answer.
#[inline]
unsafe fn around<R>(
    call: Call,
    work: Work,
    data: *mut c_void,
    threads: c_uint,
    alone: R,
    go: impl FnOnce(*mut c_void, Work, *mut c_void, c_uint) -> R,
) -> R {
    let Some((library, real)) = real(call, work as usize) else {
        // SAFETY: the program's function with its data.
        unsafe { work(data) };
        return alone;
    };
    if library.tells_itself() {
        return go(real, work, data, threads);
    }
    let mut inner = Inner::begin(library);
    let threads = inner.as_mut().map_or(threads, |inner| inner.threads_allowed(library, threads));
    let first = memory::here();
    throttle::look(library);
    let phases = first.map_or(0, |slot| slot.phases.load(Ordering::Relaxed).wrapping_add(1));
    // SAFETY: the compiler passes at least a word of data where libgomp looks at it, else a null pointer or
    // whatever the program's function wants.
    let first_word = if matches!(call, Call::ParallelReductions) { unsafe { *data.cast() } } else { 0 };
    let returned = Returned(AtomicU32::new(0));
    // SAFETY: it is ended behind the region.
    let tasks = unsafe { overlap::team(library, work, threads, inner.as_ref()) };
    let group = (first_word != 0).then(|| overlap::group(first_word as *mut usize));
    let group = group.as_ref();
    let mut region = Region { first_word, work, data, library, phases, first, tasks, group, returned };
    let result = go(real, share, (&raw mut region).cast(), threads);
    tasks.into_iter().for_each(|team| overlap::put_back(team, work));
    inner.into_iter().for_each(Inner::end);
    first.into_iter().for_each(memory::let_go);
    result
}

/// Defines parallel constructs: the number of threads that they ask for, their further arguments, and what they
/// return.
macro_rules! parallel {
    ($($name:ident = $call:ident ($threads:ident: c_uint, $($argument:ident: $type:ty),*) $(-> $result:ty = $alone:expr)?;)*) => { $(
        /// gcc's parallel construct of this name, noted.
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(work: Work, data: *mut c_void, $threads: c_uint, $($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's promise, passed on; the real function of this name has this type.
            unsafe {
                around(Call::$call, work, data, $threads, ($($alone)?), |real, work, data, $threads| {
                    let real: unsafe extern "C-unwind" fn(Work, *mut c_void, c_uint, $($type),*) $(-> $result)? = transmute(real);
                    real(work, data, $threads, $($argument),*)
                })
            }
        }
    )* };
}

parallel! {
    GOMP_parallel = Parallel(threads: c_uint, flags: c_uint);
    GOMP_parallel_reductions = ParallelReductions(threads: c_uint, flags: c_uint) -> c_uint = 1;
    GOMP_parallel_sections = ParallelSections(threads: c_uint, count: c_uint, flags: c_uint);
    GOMP_parallel_loop_static = ParallelLoopStatic(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_dynamic = ParallelLoopDynamic(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_guided = ParallelLoopGuided(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic = ParallelLoopNonmonotonicDynamic(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided = ParallelLoopNonmonotonicGuided(
        threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime = ParallelLoopRuntime(
        threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime = ParallelLoopNonmonotonicRuntime(
        threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime = ParallelLoopMaybeNonmonotonicRuntime(
        threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
}

arch::with_caller! {
    /// An explicit barrier, noted.
    GOMP_barrier => barrier;
    /// An explicit barrier that may be cancelled, noted.
    GOMP_barrier_cancel => barrier_cancel;
    /// The barrier behind a loop, noted.
    GOMP_loop_end => loop_end;
    /// The barrier behind a loop that may be cancelled, noted.
    GOMP_loop_end_cancel => loop_end_cancel;
    /// The barrier behind sections, noted.
    GOMP_sections_end => sections_end;
    /// The barrier behind sections that may be cancelled, noted.
    GOMP_sections_end_cancel => sections_end_cancel;
    /// The barrier of those that wait for a single's result, noted.
    GOMP_single_copy_start => single_copy_start;
    /// The same barrier, of the thread that has computed the result, noted.
    GOMP_single_copy_end => single_copy_end;
}

/// A barrier called from `caller`: `go` calls the real function, and says whether that was in a barrier.
#[inline]
fn meet<R>(call: Call, caller: usize, alone: R, go: impl FnOnce(*mut c_void) -> (R, bool)) -> R {
    let Some((library, real)) = real(call, caller) else { return alone };
    let counts = !library.tells_itself() && library.team_size() > 1;
    let slot = if counts { memory::here() } else { None };
    let Some(slot) = slot else { return go(real).0 };
    throttle::look(library);
    memory::arrive(slot);
    let (result, was_in_barrier) = go(real);
    if was_in_barrier {
        memory::leave(slot);
    } else {
        memory::let_go(slot);
    }
    result
}

/// Defines what functions that have a barrier do, given their argument, if they have one, and their caller. Where
/// tasks are ours it is what `ours` says, and the real function is not called if that has a result.
macro_rules! meeting {
    ($($name:ident = $call:ident -> $result:ty = $alone:expr, $was_in_barrier:expr, ours $ours:expr;)*) => { $(
        extern "C-unwind" fn $name(argument: *mut c_void, caller: usize) -> $result {
            let ours: fn(&Library, &Worker) -> Option<$result> = $ours;
            if let Some((worker, library)) = overlap::here().and_then(|worker| Some((worker, library(caller)?)))
                && let Some(result) = ours(library, worker)
            {
                return result;
            }
            meet(Call::$call, caller, $alone, |real| {
                type Real = unsafe extern "C-unwind" fn(*mut c_void) -> $result;
                // SAFETY: the real function of this name, called as the program called us: it has this type,
                // or else no argument and does not look at ours.
                let result = unsafe { transmute::<*mut c_void, Real>(real)(argument) };
                let was_in_barrier: fn(&$result) -> bool = $was_in_barrier;
                let was_in_barrier = was_in_barrier(&result);
                (result, was_in_barrier)
            })
        }
    )* };
}

meeting! {
    barrier = Barrier -> () = (), |()| true, ours |library, worker| {
        worker.barrier();
        is_enough(library).then_some(())
    };
    barrier_cancel = BarrierCancel -> bool = false, |_| true, ours |library, worker| {
        let is_cancelled = worker.barrier_or_cancel();
        is_enough(library).then_some(is_cancelled)
    };
    loop_end = LoopEnd -> () = (), |()| true, ours |all, worker| end(all, Call::LoopEndNowait, || worker.barrier());
    loop_end_cancel = LoopEndCancel -> bool = false, |_| true,
        ours |all, worker| end(all, Call::LoopEndNowait, || worker.barrier_or_cancel());
    sections_end = SectionsEnd -> () = (), |()| true,
        ours |all, worker| end(all, Call::SectionsEndNowait, || worker.barrier());
    sections_end_cancel = SectionsEndCancel -> bool = false, |_| true,
        ours |all, worker| end(all, Call::SectionsEndNowait, || worker.barrier_or_cancel());
    // Null: this thread computes the result, and comes to the barrier with it.
    single_copy_start = SingleCopyStart -> *mut c_void = null_mut(), |result| !result.is_null(), ours |_, _| None;
    single_copy_end = SingleCopyEnd -> () = (), |()| true, ours |_, _| None;
}

/// Whether a barrier of ours is enough. Where constructs may be cancelled libgomp's has to follow: a barrier is the end of a loop, too, whose
/// iterations are divided beforehand, and libgomp forgets there that the loop was cancelled.
fn is_enough(library: &Library) -> bool {
    !cancelling::is_allowed(library)
}

/// The end of a construct whose tasks are ours: libgomp's without a barrier, and then ours. Where the construct may have been
/// cancelled ours comes first, and libgomp's whole end behind it, at which nobody waits for tasks any more.
fn end<R>(library: &Library, without_barrier: Call, barrier: impl FnOnce() -> R) -> Option<R> {
    if !is_enough(library) {
        barrier();
        return None;
    }
    library.tell(without_barrier);
    Some(barrier())
}
