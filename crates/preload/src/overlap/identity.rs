//! Answers to a task's queries about its thread and its regions. On a standby (an additional thread of this library, which runs tasks), libgomp would
//! answer that there is no team.
//!
//! This works only for queries that return a number. It does not work for a program's own thread-local data: a task on a standby would access the
//! standby's copy. Therefore, the tasks of a program with such data ([`has_own_thread_data`]) run only on threads of the team.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;

use tasks::nesting::{Common, Level};
use tasks::worker::Worker;

use super::current::{real_fn, worker_anywhere, worker_in_region};
use crate::calls::Call;
use crate::real_symbols::library;

/// Returns the number of the calling thread in its team.
pub extern "C" fn thread_num() -> c_int {
    worker_in_region().and_then(|worker| worker.thread_number()).unwrap_or(0) as c_int
}

/// Returns the number of the calling thread in its team. In a region whose tasks `overlap` does not run, it asks libgomp. To be used only if all
/// callers use the same libgomp.
pub extern "C" fn thread_num_anywhere() -> c_int {
    match worker_in_region() {
        Some(worker) => worker.thread_number().unwrap_or(0) as c_int,
        None => library(0).map_or(0, |library| library.number(Call::omp_get_thread_num)),
    }
}

/// Returns the regions that enclose the thread's innermost region, the outermost first, as far as this library has recorded them.
pub fn around(worker: &Worker) -> &[Level] {
    worker.nesting().map(|nesting| &nesting.levels[..]).unwrap_or_default()
}

/// Returns the number of outermost nesting levels that libgomp does not know on this thread.
pub fn hidden(worker: &Worker) -> c_int {
    if worker.is_helper() {
        return around(worker).len() as c_int + 1;
    }
    worker.nesting().map_or(0, |nesting| nesting.hidden as c_int)
}

/// Returns whether libgomp's answers about enclosing regions may be wrong on this thread.
pub fn has_own_levels(worker: &Worker) -> bool {
    worker.is_helper() || worker.nesting().is_some()
}

/// Returns the number of enclosing regions. `ask` calls libgomp's omp_get_level, which does not count the levels that libgomp does not know on this
/// thread ([`hidden`]).
pub fn level_of(worker: &Worker, ask: impl FnOnce() -> c_int) -> c_int {
    hidden(worker) + if worker.is_helper() { 0 } else { ask() }
}

/// Returns the number of threads of the region at the nesting level `at`. `ask` calls libgomp's omp_get_team_size, for regions that libgomp knows on
/// this thread. Its argument is `at` without the outer levels that libgomp does not know on this thread ([`hidden`]).
pub fn team_size_of(worker: &Worker, at: c_int, ask: impl FnOnce(c_int) -> c_int) -> c_int {
    let around = around(worker);
    match usize::try_from(at) {
        Err(_) => -1,
        Ok(0) => 1,
        Ok(at) if at <= around.len() => around[at - 1].size as c_int,
        Ok(_) if !worker.is_helper() => ask(at - hidden(worker)),
        Ok(_) if at == hidden(worker) => worker.team().map_or(1, |team| team.size() as c_int),
        Ok(_) => -1,
    }
}

/// Returns the thread number that this thread or its ancestor has in the region at the nesting level `at`. `ask` calls libgomp's
/// omp_get_ancestor_thread_num, for regions that libgomp knows on this thread. Its argument is `at` without the outer levels that libgomp does not
/// know on this thread ([`hidden`]).
pub fn ancestor_of(worker: &Worker, at: c_int, ask: impl FnOnce(c_int) -> c_int) -> c_int {
    let around = around(worker);
    match usize::try_from(at) {
        Err(_) => -1,
        Ok(0) => 0,
        Ok(at) if at <= around.len() => around[at - 1].number() as c_int,
        // `at` is the nesting level of the thread's own region, whose tasks `overlap` runs.
        Ok(at) if at == around.len() + 1 && worker.team().is_some() => worker.thread_number().unwrap_or(0) as c_int,
        Ok(_) if !worker.is_helper() => ask(at - hidden(worker)),
        Ok(_) => -1,
    }
}

/// Returns how many of the enclosing regions that libgomp does not know on this thread ([`hidden`]) have more than one thread.
fn hidden_active(worker: &Worker) -> c_int {
    let around = around(worker);
    let hidden = around.iter().take(hidden(worker) as usize).filter(|level| level.size > 1).count() as c_int;
    let in_team = worker.is_helper() && worker.team().is_some_and(|team| team.size() > 1);
    hidden + c_int::from(in_team)
}

/// Calls libgomp's own version of the OpenMP function that the program has called.
fn ask_libgomp() -> c_int {
    // SAFETY: the libgomp function that `dispatch` has set for this call has this type.
    let real_fn: Option<unsafe extern "C" fn() -> c_int> = unsafe { std::mem::transmute(real_fn()) };
    // SAFETY: a program may call this OpenMP function at any point.
    real_fn.map_or(0, |real_fn| unsafe { real_fn() })
}

/// Does the same as [`ask_libgomp`] for the functions whose argument is a level, such as `omp_get_team_size`.
fn ask_libgomp_at(at: c_int) -> c_int {
    // SAFETY: the libgomp function that `dispatch` has set for this call has this type.
    let real_fn: Option<unsafe extern "C" fn(c_int) -> c_int> = unsafe { std::mem::transmute(real_fn()) };
    // SAFETY: a program may call this OpenMP function at any point.
    real_fn.map_or(-1, |real_fn| unsafe { real_fn(at) })
}

/// Returns the number of threads in the team.
pub extern "C" fn num_threads() -> c_int {
    worker_in_region().and_then(|worker| worker.team()).map_or(1, |team| team.size() as c_int)
}

/// Returns the number of enclosing regions.
pub extern "C" fn level() -> c_int {
    worker_anywhere().map_or(0, |worker| level_of(worker, ask_libgomp))
}

/// Returns whether an enclosing region has more than one thread.
pub extern "C" fn in_parallel() -> c_int {
    (active_level() > 0).into()
}

/// Returns the number of enclosing regions with more than one thread. If the program has called `omp_in_parallel`, libgomp answers only whether
/// there is such a region. The result is then 0 if there is none, and above 0 otherwise.
pub extern "C" fn active_level() -> c_int {
    worker_anywhere().map_or(0, |worker| hidden_active(worker) + if worker.is_helper() { 0 } else { ask_libgomp() })
}

/// Returns whether a nested region that begins now may have more than one thread. libgomp is asked for the maximum number of nested regions with more
/// than one thread.
pub extern "C" fn nested() -> c_int {
    let levels = ask_libgomp();
    let active = worker_anywhere().map_or(0, |worker| {
        let known = || library(0).map_or(0, |library| library.number(Call::omp_get_active_level));
        hidden_active(worker) + if worker.is_helper() { 0 } else { known() }
    });
    (levels > 1 && levels > active).into()
}

/// Returns the number of threads of the region at the nesting level `at`.
pub extern "C" fn team_size(at: c_int) -> c_int {
    worker_anywhere().map_or(-1, |worker| team_size_of(worker, at, ask_libgomp_at))
}

/// Returns the thread number that this thread or its ancestor has in the region at the nesting level `at`.
pub extern "C" fn ancestor_thread_num(at: c_int) -> c_int {
    worker_anywhere().map_or(-1, |worker| ancestor_of(worker, at, ask_libgomp_at))
}

/// Returns the values that the outermost region and all regions within it share, such as the thread limit. `None` if this thread is in no region.
fn common() -> Option<&'static Common> {
    let worker = worker_anywhere()?;
    let team = worker.nesting().map(|nesting| nesting.outermost).or_else(|| worker.team());
    team.map(|team| &team.common)
}

/// Returns the limit of the number of threads in all enclosing regions.
pub extern "C" fn thread_limit() -> c_int {
    let limit = common().map_or(u32::MAX, |common| common.thread_limit.load(Ordering::Relaxed));
    c_int::try_from(limit).unwrap_or(c_int::MAX)
}

/// Returns the number of the team in its league.
pub extern "C" fn team_num() -> c_int {
    common().map_or(0, |common| common.league[0].load(Ordering::Relaxed)) as c_int
}

/// Returns the number of teams in the league.
pub extern "C" fn num_teams() -> c_int {
    common().map_or(1, |common| common.league[1].load(Ordering::Relaxed)) as c_int
}

/// Defines the Fortran forms of queries about a level, which is passed by reference as an integer of any size.
macro_rules! by_reference {
    ($($(#[$doc:meta])* $name:ident = $of:ident(&$number:ty);)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// `at` is the address of a nesting level.
        pub unsafe extern "C" fn $name(at: *const $number) -> c_int {
            // SAFETY: guaranteed by the caller. A level outside of c_int's range is invalid.
            $of(c_int::try_from(unsafe { *at }).unwrap_or(-1))
        }
    )* };
}

by_reference! {
    /// Fortran's form of [`team_size`]: the level is passed by reference, with four bytes.
    team_size_fortran = team_size(&i32);
    /// Fortran's form of [`team_size`]: the level is passed by reference, with eight bytes.
    team_size_fortran_8 = team_size(&i64);
    /// Fortran's form of [`ancestor_thread_num`]: the level is passed by reference, with four bytes.
    ancestor_thread_num_fortran = ancestor_thread_num(&i32);
    /// Fortran's form of [`ancestor_thread_num`]: the level is passed by reference, with eight bytes.
    ancestor_thread_num_fortran_8 = ancestor_thread_num(&i64);
}

/// Returns whether the program, or a library of its own, has thread-local data, such as `threadprivate` variables.
pub fn has_own_thread_data() -> bool {
    // SAFETY: dl_iterate_phdr(3) calls `has_thread_data` for each loaded object, and only before it returns.
    unsafe { libc::dl_iterate_phdr(Some(has_thread_data), std::ptr::null_mut()) != 0 }
}

unsafe extern "C" fn has_thread_data(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the dynamic loader passes a valid description.
    let (name, headers) = unsafe {
        let object = &*object;
        let name = if object.dlpi_name.is_null() { c"" } else { CStr::from_ptr(object.dlpi_name) };
        (name.to_bytes(), std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    // The thread-local data of system libraries are caches and error codes, which work on any thread.
    let systems = [&b"/lib"[..], b"/usr/lib"].iter().any(|folder| name.starts_with(folder)) || is_a_compilers(name);
    let ours = [&b"libcox_preload.so"[..], b"libcox_loops.so"].iter().any(|library| name.ends_with(library));
    let has = headers.iter().any(|header| header.p_type == libc::PT_TLS && header.p_memsz > 0);
    (has && !systems && !ours).into()
}

/// Returns whether a library belongs to the compiler, in any folder: users install their own versions (conda, Spack, modules).
fn is_a_compilers(path: &[u8]) -> bool {
    const ALL: [&[u8]; 5] = [b"libgomp.so", b"libstdc++.so", b"libgcc_s.so", b"libgfortran.so", b"libquadmath.so"];
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    ALL.iter().any(|library| name.starts_with(library))
}
