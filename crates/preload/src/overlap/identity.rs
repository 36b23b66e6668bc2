//! What a task hears when it asks who runs it: on a standby, libgomp would say that there is no team.
//!
//! Only numbers can be given so. A program with thread-local data of its own ([`has_own_thread_data`]) would find that of the
//! standby: its tasks stay on threads of the team.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;

use tasks::around::Nesting;
use tasks::nesting::Common;
use tasks::worker::Worker;

use super::beyond::beyond;
use super::here::{anywhere, here};
use crate::calls::Call;
use crate::real::library;

/// Number of the calling thread in its team.
pub extern "C" fn thread_num() -> c_int {
    here().and_then(|worker| worker.thread_number()).unwrap_or(0) as c_int
}

/// The same, or what libgomp says where tasks are not ours; only if there is one libgomp for all.
pub extern "C" fn thread_num_anywhere() -> c_int {
    match here() {
        Some(worker) => worker.thread_number().unwrap_or(0) as c_int,
        None => library(0).map_or(0, |library| library.number(Call::GetThreadNum)),
    }
}

/// Levels that libgomp does not know of on this thread: the first.
pub fn hidden(worker: &Worker) -> c_int {
    let nesting = worker.nesting();
    if worker.is_guest() {
        return nesting.map_or(0, |nesting| nesting.levels().len() as c_int) + 1;
    }
    nesting.map_or(0, |nesting| nesting.hidden() as c_int)
}

/// Whether libgomp may be wrong about regions around this thread.
pub fn has_own_levels(worker: &Worker) -> bool {
    worker.is_guest() || worker.nesting().is_some()
}

/// Regions around this place, of which libgomp knows `real()`.
pub fn level_of(worker: &Worker, real: impl FnOnce() -> c_int) -> c_int {
    hidden(worker) + if worker.is_guest() { 0 } else { real() }
}

/// Threads of the region at a level; `real` is asked by libgomp's levels.
pub fn team_size_of(worker: &Worker, at: c_int, real: impl FnOnce(c_int) -> c_int) -> c_int {
    let around = worker.nesting().map_or(&[][..], Nesting::levels);
    match usize::try_from(at) {
        Err(_) => -1,
        Ok(0) => 1,
        Ok(at) if at <= around.len() => around[at - 1].size() as c_int,
        Ok(_) if !worker.is_guest() => real(at - hidden(worker)),
        Ok(_) if at == hidden(worker) => worker.team().map_or(1, |team| team.size() as c_int),
        Ok(_) => -1,
    }
}

/// The number that this thread, or its ancestor, has there.
pub fn ancestor_of(worker: &Worker, at: c_int, real: impl FnOnce(c_int) -> c_int) -> c_int {
    let around = worker.nesting().map_or(&[][..], Nesting::levels);
    match usize::try_from(at) {
        Err(_) => -1,
        Ok(0) => 0,
        Ok(at) if at <= around.len() => around[at - 1].number() as c_int,
        // That of the team whose tasks are ours.
        Ok(at) if at == around.len() + 1 && worker.team().is_some() => worker.thread_number().unwrap_or(0) as c_int,
        Ok(_) if !worker.is_guest() => real(at - hidden(worker)),
        Ok(_) => -1,
    }
}

/// How many of the regions that libgomp does not know of have more than one thread.
fn hidden_active(worker: &Worker) -> c_int {
    let around = worker.nesting().map_or(&[][..], Nesting::levels);
    let hidden = around.iter().take(hidden(worker) as usize).filter(|level| level.size() > 1).count() as c_int;
    let own = worker.is_guest() && worker.team().is_some_and(|team| team.size() > 1);
    hidden + c_int::from(own)
}

/// libgomp's function behind the one that is called.
fn real() -> c_int {
    // SAFETY: `ways` names a function of this type.
    let real: Option<unsafe extern "C" fn() -> c_int> = unsafe { std::mem::transmute(beyond()) };
    // SAFETY: as above; it may be called anywhere.
    real.map_or(0, |real| unsafe { real() })
}

/// The same for a question about a level.
fn real_at(at: c_int) -> c_int {
    // SAFETY: as above.
    let real: Option<unsafe extern "C" fn(c_int) -> c_int> = unsafe { std::mem::transmute(beyond()) };
    // SAFETY: as above.
    real.map_or(-1, |real| unsafe { real(at) })
}

/// Threads of the team.
pub extern "C" fn num_threads() -> c_int {
    here().and_then(|worker| worker.team()).map_or(1, |team| team.size() as c_int)
}

/// Regions around this place.
pub extern "C" fn level() -> c_int {
    anywhere().map_or(0, |worker| level_of(worker, real))
}

/// Whether one of them has more than one thread.
pub extern "C" fn in_parallel() -> c_int {
    (active_level() > 0).into()
}

/// How many of them have more than one thread; or, if libgomp is asked for that, whether one has.
pub extern "C" fn active_level() -> c_int {
    anywhere().map_or(0, |worker| hidden_active(worker) + if worker.is_guest() { 0 } else { real() })
}

/// Whether more active regions may be within those around. libgomp is asked how many there may be.
pub extern "C" fn nested() -> c_int {
    let levels = real();
    let active = anywhere().map_or(0, |worker| {
        let known = || library(0).map_or(0, |library| library.number(Call::GetActiveLevel));
        hidden_active(worker) + if worker.is_guest() { 0 } else { known() }
    });
    (levels > 1 && levels > active).into()
}

/// Threads of the region at a level.
pub extern "C" fn team_size(at: c_int) -> c_int {
    anywhere().map_or(-1, |worker| team_size_of(worker, at, real_at))
}

/// The number that this thread, or its ancestor, has there.
pub extern "C" fn ancestor_thread_num(at: c_int) -> c_int {
    anywhere().map_or(-1, |worker| ancestor_of(worker, at, real_at))
}

/// What the regions around have in common.
fn common() -> Option<&'static Common> {
    let worker = anywhere()?;
    let team = worker.nesting().map(Nesting::outermost).or_else(|| worker.team());
    team.map(|team| &team.common)
}

/// Threads that the regions around may have together.
pub extern "C" fn thread_limit() -> c_int {
    let limit = common().map_or(u32::MAX, |common| common.thread_limit.load(Ordering::Relaxed));
    c_int::try_from(limit).unwrap_or(c_int::MAX)
}

/// Number of the league's team.
pub extern "C" fn team_num() -> c_int {
    common().map_or(0, |common| common.league[0].load(Ordering::Relaxed)) as c_int
}

/// Teams of the league.
pub extern "C" fn num_teams() -> c_int {
    common().map_or(1, |common| common.league[1].load(Ordering::Relaxed)) as c_int
}

/// Defines Fortran's forms of questions about a level, which is given by reference, and may be of any size there is.
macro_rules! by_reference {
    ($($(#[$doc:meta])* $name:ident = $of:ident(&$number:ty);)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The address of a level.
        pub unsafe extern "C" fn $name(at: *const $number) -> c_int {
            // SAFETY: the caller's promise. A level beyond all is none.
            $of(c_int::try_from(unsafe { *at }).unwrap_or(-1))
        }
    )* };
}

by_reference! {
    /// As [`team_size`].
    team_size_fortran = team_size(&i32);
    /// As [`team_size`].
    team_size_fortran_8 = team_size(&i64);
    /// As [`ancestor_thread_num`].
    ancestor_thread_num_fortran = ancestor_thread_num(&i32);
    /// As [`ancestor_thread_num`].
    ancestor_thread_num_fortran_8 = ancestor_thread_num(&i64);
}

/// Whether the program, or a library of its own, has thread-local data: `threadprivate` among it.
pub fn has_own_thread_data() -> bool {
    // SAFETY: calls the function below with each object, now.
    unsafe { libc::dl_iterate_phdr(Some(has_thread_data), std::ptr::null_mut()) != 0 }
}

unsafe extern "C" fn has_thread_data(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: as the dynamic loader describes it.
    let (name, headers) = unsafe {
        let object = &*object;
        let name = if object.dlpi_name.is_null() { c"" } else { CStr::from_ptr(object.dlpi_name) };
        (name.to_bytes(), std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    // Of the system's libraries the thread-local data are caches and errors: they work on any thread.
    let systems = [&b"/lib"[..], b"/usr/lib"].iter().any(|folder| name.starts_with(folder)) || is_a_compilers(name);
    let ours = name.ends_with(b"libcox_preload.so");
    let has = headers.iter().any(|header| header.p_type == libc::PT_TLS && header.p_memsz > 0);
    (has && !systems && !ours).into()
}

/// Whether a library is one of the compiler's, wherever it lies: users bring their own version (conda, Spack, modules).
fn is_a_compilers(path: &[u8]) -> bool {
    const ALL: [&[u8]; 5] = [b"libgomp.so", b"libstdc++.so", b"libgcc_s.so", b"libgfortran.so", b"libquadmath.so"];
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    ALL.iter().any(|library| name.starts_with(library))
}
