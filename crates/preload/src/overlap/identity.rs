//! What a task hears when it asks who runs it: on a standby, libgomp would say that there is no team.
//!
//! Only numbers can be given so. A program with thread-local data of its own ([`has_own_thread_data`]) would find that of the
//! standby: its tasks stay on threads of the team.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;

use super::here;
use crate::real::{Call, library};

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

/// Threads of the team.
pub extern "C" fn num_threads() -> c_int {
    here().and_then(|worker| worker.team()).map_or(1, |team| team.size() as c_int)
}

/// Regions around this place, those of one thread not counted apart: what is ours has more.
pub extern "C" fn level() -> c_int {
    here().and_then(|worker| worker.team()).map_or(0, |team| team.level.load(Ordering::Relaxed) as c_int)
}

/// Whether one of them has more than one thread.
pub extern "C" fn in_parallel() -> c_int {
    (active_level() > 0).into()
}

/// How many of them have more than one thread: all but the innermost were not ours else.
pub extern "C" fn active_level() -> c_int {
    level() - c_int::from(num_threads() == 1)
}

/// Threads of the region at a level: of the innermost, or of the program.
pub extern "C" fn team_size(at: c_int) -> c_int {
    match (at, at.cmp(&level())) {
        (0, _) => 1,
        (_, std::cmp::Ordering::Equal) => num_threads(),
        // Those between are not known on a standby: of one thread, which they mostly are.
        (1.., std::cmp::Ordering::Less) => 1,
        _ => -1,
    }
}

/// The number that this thread, or its ancestor, has there.
pub extern "C" fn ancestor_thread_num(at: c_int) -> c_int {
    match (at, at.cmp(&level())) {
        (0, _) => 0,
        (_, std::cmp::Ordering::Equal) => thread_num(),
        (1.., std::cmp::Ordering::Less) => 0,
        _ => -1,
    }
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
