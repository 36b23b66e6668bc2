//! Loaded objects: the program and its libraries.

use std::ffi::{c_int, c_void};
use std::ptr;

/// A loaded object that contains a given address.
pub struct Object {
    /// Start address.
    pub start: usize,
    /// End address (excluded).
    pub end: usize,
    name: *const libc::c_char,
    /// The address that was looked up.
    address: usize,
}

impl Object {
    /// Returns whether the object contains an address.
    pub fn contains(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Returns a new dlopen(3) handle of the object.
    pub fn handle(&self) -> Option<*mut c_void> {
        // SAFETY: `name` is a C string: the loader's name of a loaded object. It is empty for the program itself, which dlopen(3) opens by a null
        // name.
        let name = if unsafe { *self.name } == 0 { ptr::null() } else { self.name };
        // SAFETY: RTLD_NOLOAD loads nothing.
        let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(handle)
    }
}

/// Returns the loaded object that contains an address.
pub fn object_of(address: usize) -> Option<Object> {
    let mut object = Object { start: 0, end: 0, name: ptr::null(), address };
    // SAFETY: the callback gets the pointer passed here, and only during this call.
    let found = unsafe { libc::dl_iterate_phdr(Some(holds), (&raw mut object).cast()) };
    (found != 0).then_some(object)
}

/// Stops the iteration at the object that contains the address.
unsafe extern "C" fn holds(info: *mut libc::dl_phdr_info, _: usize, object: *mut c_void) -> c_int {
    // SAFETY: `object_of` passes its own Object, and the loader a valid description.
    let (info, object) = unsafe { (&*info, &mut *object.cast::<Object>()) };
    // SAFETY: the object has `dlpi_phnum` program headers at this address.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let end = start.wrapping_add(header.p_memsz as usize);
        if (start..end).contains(&object.address) {
            (object.start, object.end, object.name) = (start, end, info.dlpi_name);
            return 1;
        }
    }
    0
}
