//! Values that can only be read when the program starts.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Number of CPUs that the program was allowed on at its start, which is what libgomp counts.
static CPUS: AtomicU32 = AtomicU32::new(0);
/// Stack size from the environment for libgomp's threads; 0 for the default.
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// True if libgomp prints a line for each thread of a new team.
static SHOWS_TEAMS: AtomicBool = AtomicBool::new(false);

/// Records the settings from the environment (`variable` returns the value of a variable), and the number of allowed CPUs. Called before the program
/// runs.
pub fn note(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    CPUS.store(allowed_cpus(), Ordering::Relaxed);
    let stack = variable(c"OMP_STACKSIZE").or_else(|| variable(c"GOMP_STACKSIZE"));
    STACK_BYTES.store(stack.map_or(0, stack_bytes), Ordering::Relaxed);
    let shows =
        variable(c"OMP_DISPLAY_AFFINITY").is_some_and(|value| !value.trim_ascii().eq_ignore_ascii_case(b"false"));
    SHOWS_TEAMS.store(shows, Ordering::Relaxed);
}

/// Returns the number of CPUs allowed at the program's start; 0 if unknown.
pub fn cpus() -> u32 {
    CPUS.load(Ordering::Relaxed)
}

/// Returns the stack size of libgomp's threads in bytes, if the environment sets one.
pub fn gomp_stack_bytes() -> Option<usize> {
    Some(STACK_BYTES.load(Ordering::Relaxed)).filter(|bytes| *bytes != 0)
}

/// Returns whether a new team of libgomp would be visible in the program's output.
pub fn teams_show() -> bool {
    SHOWS_TEAMS.load(Ordering::Relaxed)
}

fn allowed_cpus() -> u32 {
    // Room for 8192 CPUs, more than any kernel has been built for.
    let mut mask = [0u64; 128];
    // SAFETY: the kernel writes at most the given number of bytes, and returns how many.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    if bytes < 0 { 0 } else { mask.iter().map(|word| word.count_ones()).sum() }
}

/// Parses a stack size in OpenMP's format: a number of KiB, or a number with the unit B, K, M or G. Returns 0 if it is invalid.
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
