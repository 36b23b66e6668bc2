//! Before the program runs: what only its beginning tells.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::overlap;

/// CPUs that the program might use at its start: what a libgomp linked to it has counted.
static CPUS: AtomicU32 = AtomicU32::new(0);
/// Stack size that the environment asks for libgomp's threads; 0: the default.
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// libgomp prints a line for each thread of a new team.
static SHOWS_TEAMS: AtomicBool = AtomicBool::new(false);

/// Holds our path when the program's children shall not have us.
const ALONE: &CStr = c"COX_PRELOAD_ALONE";

/// Run by the dynamic loader before main: one thread, so the environment may be read and changed.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    CPUS.store(allowed_cpus(), Ordering::Relaxed);
    let stack = variable(c"OMP_STACKSIZE").or_else(|| variable(c"GOMP_STACKSIZE"));
    STACK_BYTES.store(stack.map_or(0, stack_bytes), Ordering::Relaxed);
    let shows =
        variable(c"OMP_DISPLAY_AFFINITY").is_some_and(|value| !value.trim_ascii().eq_ignore_ascii_case(b"false"));
    SHOWS_TEAMS.store(shows, Ordering::Relaxed);
    overlap::at_load(variable);
    leave_children_alone();
}

/// CPUs allowed when the program began; 0: unknown.
pub fn cpus() -> u32 {
    CPUS.load(Ordering::Relaxed)
}

/// Stack size of libgomp's threads, if the environment gives one.
pub fn gomp_stack_bytes() -> Option<usize> {
    Some(STACK_BYTES.load(Ordering::Relaxed)).filter(|bytes| *bytes != 0)
}

/// Whether a new team of libgomp's would show in the program's output.
pub fn teams_show() -> bool {
    SHOWS_TEAMS.load(Ordering::Relaxed)
}

fn allowed_cpus() -> u32 {
    // 8192 CPUs: more than any kernel has been built for.
    let mut mask = [0u64; 128];
    // SAFETY: the kernel writes at most so many bytes, and says how many.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    if bytes < 0 { 0 } else { mask.iter().map(|word| word.count_ones()).sum() }
}

/// A variable of the environment. Only while there is one thread.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name is a C string; at load nobody changes the environment meanwhile, and values stay where
    // they are.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv gives a C string or nothing.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

/// A stack size as OpenMP writes it: a number of KiB, or of the unit B, K, M or G behind it. 0: not one.
fn stack_bytes(text: &[u8]) -> usize {
    let text = text.trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_ascii() {
        b"b" | b"B" => 0,
        b"" | b"k" | b"K" => 10,
        b"m" | b"M" => 20,
        b"g" | b"G" => 30,
        _ => return 0,
    };
    let number = number.iter().fold(0usize, |sum, digit| sum.saturating_mul(10).saturating_add((digit - b'0').into()));
    number.saturating_mul(1 << shift)
}

/// Where cox was told to leave child processes alone: takes our path out of LD_PRELOAD.
fn leave_children_alone() {
    let Some(own) = variable(ALONE) else { return };
    // SAFETY: C strings; one thread.
    let list: *mut c_char = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    if !list.is_null() {
        // SAFETY: a C string of the environment, which is the process's own to write. It only gets shorter.
        let length = unsafe { libc::strlen(list) };
        // SAFETY: so many bytes are there, and nobody else looks at them at load.
        let bytes = unsafe { std::slice::from_raw_parts_mut(list.cast::<u8>(), length + 1) };
        let left = without(bytes, length, own);
        if left == 0 {
            // SAFETY: as above; `bytes` is not used any more.
            unsafe { libc::unsetenv(c"LD_PRELOAD".as_ptr()) };
        }
    }
    // SAFETY: a C string; one thread.
    unsafe { libc::unsetenv(ALONE.as_ptr()) };
}

/// Takes the word `own` out of the list in `bytes[..length]`, which colons or blanks divide, and ends it with
/// a NUL; its new length.
fn without(bytes: &mut [u8], length: usize, own: &[u8]) -> usize {
    let divides = |byte: u8| byte == b':' || byte == b' ';
    let (mut read, mut written) = (0, 0);
    while read < length {
        let end = (read..length).find(|&at| divides(bytes[at])).unwrap_or(length);
        if end > read && &bytes[read..end] != own {
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
