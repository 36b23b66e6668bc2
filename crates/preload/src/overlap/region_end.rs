//! Regions that have never had tasks. At the end of such a region, no thread needs to wait in our barrier for tasks that others may still create.
//! libgomp's barrier follows anyway, and with two barriers in a row a region without tasks takes 1.5 times as long.
//!
//! Rule: our barrier is left out if the region's function has run before and has never had a task. The module remembers these functions. If such a
//! function later creates its first task, members that have already reached the region's end sleep in libgomp's barrier and cannot run tasks;
//! standbys run the tasks instead. This happens only once for each function. The rule applies only if standbys can run all tasks
//! ([`Team::is_served`](tasks::team::Team::is_served)) and members do not spin in libgomp's barrier, where they would occupy the CPUs. If cox ends
//! during such a region, the thread that created the task runs the remaining tasks alone.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::real_symbols::Work;

/// Number of entries of [`FUNCTIONS`]. If the functions of two regions share an entry, they overwrite each other's value. Their regions may then end
/// with the additional barrier of `overlap` although they had no tasks; this costs time, but is correct.
const PLACES: usize = 512;
/// Flag in the lowest bit of an entry: the function has had tasks. The other bits are the function's address, shifted left by one bit. No bit is
/// lost, because addresses in programs have 47 bits.
const HAD_TASKS: usize = 1;

/// True if the user wants waiting threads to spin.
static WAITS_IN_LOOPS: AtomicBool = AtomicBool::new(false);

/// Functions of regions that have run, and whether they have had tasks.
static FUNCTIONS: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

/// Reads the settings; called before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    let is_active =
        variable(c"OMP_WAIT_POLICY").is_some_and(|policy| policy.trim_ascii().eq_ignore_ascii_case(b"active"));
    // If OMP_WAIT_POLICY is not set, libgomp spins for some milliseconds only. GOMP_SPINCOUNT sets another duration, so it counts as a wish to spin.
    WAITS_IN_LOOPS.store(is_active || variable(c"GOMP_SPINCOUNT").is_some(), Ordering::Relaxed);
}

/// Returns whether members sleep soon after they arrive in libgomp's barrier, because the user has not asked for spinning.
pub fn members_sleep_soon() -> bool {
    !WAITS_IN_LOOPS.load(Ordering::Relaxed)
}

/// Returns the entry of a region's function, and the value that the entry has if the function has run and never had tasks.
fn place(work: Work) -> (&'static AtomicUsize, usize) {
    let address = work as usize;
    // The lowest four bits do not help to distinguish functions, because compilers align functions to 16 bytes.
    (&FUNCTIONS[(address >> 4) % PLACES], address << 1)
}

/// Returns whether regions of this function have run, and none of these regions has had a task.
pub fn has_never_had_tasks(work: Work) -> bool {
    let (place, without) = place(work);
    place.load(Ordering::Relaxed) == without
}

/// Called when a region of the function `work` is over: records that the function has run, and whether it has ever had tasks.
pub fn note(work: Work, had_tasks: bool) {
    let (place, without) = place(work);
    let known = place.load(Ordering::Relaxed);
    let with = without | HAD_TASKS;
    let value = if had_tasks || known == with { with } else { without };
    if known != value {
        place.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn one(_: *mut std::ffi::c_void) {}

    /// Returns a function pointer to `address`; it is never called.
    fn function(address: usize) -> Work {
        // SAFETY: `address` is not null, and a `usize` has the size of a function pointer.
        unsafe { std::mem::transmute::<usize, Work>(address) }
    }

    #[test]
    fn one_task_is_enough_for_good() {
        assert!(!has_never_had_tasks(one), "it has never run");
        note(one, false);
        assert!(has_never_had_tasks(one));
        note(one, false);
        assert!(has_never_had_tasks(one));
        note(one, true);
        assert!(!has_never_had_tasks(one));
        note(one, false);
        assert!(!has_never_had_tasks(one), "who has had one may have one again");
    }

    #[test]
    fn functions_at_one_place_displace_each_other() {
        let (first, second) = (function(0x7000_0010), function(0x7000_0010 + 16 * PLACES));
        note(first, false);
        assert!(has_never_had_tasks(first) && !has_never_had_tasks(second));
        note(second, true);
        assert!(!has_never_had_tasks(first) && !has_never_had_tasks(second));
        note(first, false);
        assert!(has_never_had_tasks(first), "it has been there again");
    }
}
