//! Target constructs: libgomp runs them, and this module orders them among our tasks.
//!
//! A target construct is a task. libgomp would wait for its dependences or, with `nowait`, put it into the queue of libgomp's own tasks. But libgomp
//! does not know our tasks, and our taskwaits, taskgroups and barriers do not know libgomp's. Therefore each construct runs immediately, as soon as
//! everything it depends on is done. Without a device, the calling thread runs it, outside of any region; there, tasks belong to libgomp, which runs
//! them immediately.

use std::ffi::{c_int, c_uint, c_ushort, c_void};
use std::mem::transmute;
use std::ptr;

use super::current::{real_fn, worker_in_region};
use super::entries;

/// Flag: the construct may be deferred (gomp-constants.h).
const NOWAIT: c_uint = 1;
/// Kind of a variable that the construct copies. The kind is in the lower byte; the upper byte is the binary logarithm of the variable's alignment.
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

/// Runs a target region.
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
    // SAFETY: `real_fn` returns the libgomp function that the dispatch function has set for this call; it has this type.
    let real_fn: Target = unsafe { transmute(real_fn()) };
    // Copied before the construct waits for its dependences, because the copies must have the values that the variables have now.
    //
    // SAFETY: gcc's code has passed three arrays of `count` elements.
    let copies = (!depend.is_null()).then(|| unsafe { copy_firstprivate(count, addresses, sizes, kinds) });
    // SAFETY: gcc's code has passed these arguments for the target construct.
    unsafe {
        wait_for(depend);
        aside(|| real_fn(device, work, count, addresses, sizes, kinds, flags & !NOWAIT, ptr::null(), arguments));
    }
    drop(copies);
}

/// Runs `target update`, `target enter data` and `target exit data`, which copy between the host and a device.
pub unsafe extern "C-unwind" fn mapping(
    device: c_int,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut c_ushort,
    flags: c_uint,
    depend: *const usize,
) {
    // SAFETY: `real_fn` returns the libgomp function that the dispatch function has set for this call; it has this type.
    let real_fn: Mapping = unsafe { transmute(real_fn()) };
    // SAFETY: gcc's code has passed these arguments for the target construct.
    unsafe {
        wait_for(depend);
        real_fn(device, count, addresses, sizes, kinds, flags & !NOWAIT, ptr::null());
    }
}

unsafe fn wait_for(depend: *const usize) {
    if !depend.is_null() {
        // SAFETY: the compiler's code passes a valid array of dependences, or null.
        unsafe { entries::taskwait_depend(depend) };
    }
}

/// Calls `call`, which may run the program's code. During the call, the thread counts as outside of any region, so libgomp runs tasks that the code
/// creates.
fn aside(call: impl FnOnce()) {
    let Some(worker) = worker_in_region() else { return call() };
    let before = worker.step_aside();
    call();
    worker.come_back(before);
}

/// Copies the construct's firstprivate variables, and replaces the variables' addresses in `addresses` by those of the copies. The copies live as
/// long as the result.
///
/// # Safety
/// The arrays are the compiler's, and have `count` elements.
unsafe fn copy_firstprivate(
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const c_ushort,
) -> Vec<Vec<u8>> {
    let mut copies = Vec::new();
    for at in 0..count {
        // SAFETY: guaranteed by the caller.
        let (address, bytes, kind) = unsafe { (&mut *addresses.add(at), *sizes.add(at), *kinds.add(at)) };
        if kind & 0xff != FIRSTPRIVATE || address.is_null() {
            continue;
        }
        let align = 1usize << (kind >> 8);
        let mut room = vec![0u8; bytes + align];
        let shift = room.as_ptr().align_offset(align);
        // SAFETY: the buffer is `align` bytes larger than the copy, and the shift is less than `align`.
        let copy = unsafe { room.as_mut_ptr().add(shift) };
        // SAFETY: the variable has that many bytes.
        unsafe { ptr::copy_nonoverlapping(address.cast::<u8>(), copy, bytes) };
        *address = copy.cast();
        copies.push(room);
    }
    copies
}
