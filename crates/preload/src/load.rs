//! What the library does before the program runs.

use std::ffi::{CStr, c_char};

use crate::{memory, overlap, phases, real_symbols, start};

/// Run by the dynamic loader before main: the process has one thread, so the environment may be read and changed.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    start::note(variable);
    phases::at_load(variable);
    overlap::at_load(variable);
    memory::when_forked(forked);
    leave_children_alone();
}

/// Environment variable with the path of our library, set if the program's children must not load it.
const ALONE: &CStr = c"COX_PRELOAD_ALONE";

/// Returns the value of the environment variable `name`. Must be called only while the process has one thread.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name is a C string. At load no other thread changes the environment, and the values stay at their addresses.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv returns a C string or null.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

/// Removes our library from LD_PRELOAD, if cox was told to exclude child processes.
fn leave_children_alone() {
    let Some(library) = variable(ALONE) else { return };
    // SAFETY: the arguments are C strings; the process has one thread.
    let list: *mut c_char = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    if !list.is_null() {
        // SAFETY: `list` is a C string in the environment. The process may change it in place, because it only makes it shorter.
        let length = unsafe { libc::strlen(list) };
        // SAFETY: the string has that many bytes, and no other code accesses it at load.
        let bytes = unsafe { std::slice::from_raw_parts_mut(list.cast::<u8>(), length + 1) };
        let left = without(bytes, length, library);
        if left == 0 {
            // SAFETY: the argument is a C string; the process has one thread. `bytes` is not used after this.
            unsafe { libc::unsetenv(c"LD_PRELOAD".as_ptr()) };
        }
    }
    // SAFETY: the argument is a C string; the process has one thread.
    unsafe { libc::unsetenv(ALONE.as_ptr()) };
}

/// Removes `word` from the list in `bytes[..length]`, whose words are separated by colons or blanks, and terminates the list with a NUL.
/// Returns the new length.
fn without(bytes: &mut [u8], length: usize, word: &[u8]) -> usize {
    let divides = |byte: u8| byte == b':' || byte == b' ';
    let (mut read, mut written) = (0, 0);
    while read < length {
        let end = (read..length).find(|&at| divides(bytes[at])).unwrap_or(length);
        if end > read && &bytes[read..end] != word {
            if written > 0 {
                bytes[written] = b':';
                written += 1;
            }
            bytes.copy_within(read..end, written);
            written += end - read;
        }
        read = end + 1;
    }
    bytes[written] = 0;
    written
}

/// Called in a forked child: threads that this library had in the parent do not exist here.
fn forked() {
    real_symbols::forget_throttles();
    phases::forked();
    overlap::forked();
}
