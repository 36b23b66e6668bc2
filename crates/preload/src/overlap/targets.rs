//! Target constructs: libgomp runs them, and we order them among our tasks.
//!
//! A target construct is a task. libgomp would wait for what it depends on, and defer it where the program says `nowait`, among tasks of
//! its own: it knows none of ours, and our taskwaits, taskgroups and barriers know none of libgomp's. So here each is done at once, when
//! all that it depends on has been done. Without a device it is the calling thread that runs it, outside of any region:
//! there, tasks are libgomp's, which does them at once.

use std::ffi::{c_int, c_uint, c_ushort, c_void};
use std::mem::transmute;
use std::ptr;

use super::beyond::beyond;
use super::doors;
use super::here::here;

/// The task may be deferred (gomp-constants.h).
const NOWAIT: c_uint = 1;
/// The kind of a variable that the construct has a copy of, in the lower byte; the upper one is the binary logarithm of its alignment.
const FIRSTPRIVATE: c_ushort = 12;

type Target = unsafe extern "C-unwind" fn(
    c_int,
    *mut c_void,
    usize,
    *mut *mut c_void,
    *mut usize,
    *mut c_ushort,
    c_uint,
    *const usize,
    *mut *mut c_void,
);
type Mapping =
    unsafe extern "C-unwind" fn(c_int, usize, *mut *mut c_void, *mut usize, *mut c_ushort, c_uint, *const usize);

/// A target region.
#[allow(clippy::too_many_arguments, reason = "the compiler's")]
pub unsafe extern "C-unwind" fn target(
    device: c_int,
    work: *mut c_void,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut c_ushort,
    flags: c_uint,
    depend: *const usize,
    arguments: *mut *mut c_void,
) {
    // SAFETY: libgomp's function, set by the door for this call.
    let real: Target = unsafe { transmute(beyond()) };
    // Copies are of the values that the construct finds, not of those that it has waited for.
    // SAFETY: the compiler's three arrays.
    let copies = (!depend.is_null()).then(|| unsafe { copy_firstprivate(count, addresses, sizes, kinds) });
    // SAFETY: the compiler's arguments.
    unsafe {
        wait_for(depend);
        aside(|| real(device, work, count, addresses, sizes, kinds, flags & !NOWAIT, ptr::null(), arguments));
    }
    drop(copies);
}

/// Copies between the host and a device: `target update`, and `target enter data` and `target exit data`.
pub unsafe extern "C-unwind" fn mapping(
    device: c_int,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut c_ushort,
    flags: c_uint,
    depend: *const usize,
) {
    // SAFETY: as above.
    let real: Mapping = unsafe { transmute(beyond()) };
    // SAFETY: the compiler's arguments.
    unsafe {
        wait_for(depend);
        real(device, count, addresses, sizes, kinds, flags & !NOWAIT, ptr::null());
    }
}

unsafe fn wait_for(depend: *const usize) {
    if !depend.is_null() {
        // SAFETY: the compiler's array.
        unsafe { doors::taskwait_depend(depend) };
    }
}

/// Calls what may run the program's code outside of the region that the thread is in.
fn aside(call: impl FnOnce()) {
    let Some(worker) = here() else { return call() };
    let before = worker.step_aside();
    call();
    worker.come_back(before);
}

/// Copies what the construct has copies of and enters the copies' addresses; they are there until the result goes.
///
/// # Safety
/// The compiler's arrays of `count` elements.
unsafe fn copy_firstprivate(
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const c_ushort,
) -> Vec<Vec<u8>> {
    let mut copies = Vec::new();
    for at in 0..count {
        // SAFETY: the caller's promise.
        let (address, bytes, kind) = unsafe { (&mut *addresses.add(at), *sizes.add(at), *kinds.add(at)) };
        if kind & 0xff != FIRSTPRIVATE || address.is_null() {
            continue;
        }
        let align = 1usize << (kind >> 8);
        let mut room = vec![0u8; bytes + align];
        let shift = room.as_ptr().align_offset(align);
        // SAFETY: there are `align` more bytes than are copied, of which the shift takes less.
        let copy = unsafe { room.as_mut_ptr().add(shift) };
        // SAFETY: the variable has so many bytes.
        unsafe { ptr::copy_nonoverlapping(address.cast::<u8>(), copy, bytes) };
        *address = copy.cast();
        copies.push(room);
    }
    copies
}
