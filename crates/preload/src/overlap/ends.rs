//! Which regions have never had tasks: at their end nobody needs to wait in our barrier for tasks that others may still make. libgomp's barrier is
//! behind it, and two in a row cost a region without tasks half as much again.
//!
//! It is learned by function. One that has had a task once, or has never run, has the barrier. Where one makes its first task later than
//! that, the members that have come to the end before sleep in libgomp's barrier, once, and standbys do what they would have done. So this
//! is for when there are standbys that can do it all ([`Team::is_served`](tasks::team::Team::is_served)), and not for members that wait in a
//! loop there: these would have the CPUs. Should cox end in that one region, its maker does what is left alone.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::real::Work;

/// Functions that are remembered. Two at one place displace each other, which costs barriers.
const PLACES: usize = 512;
/// Flag beside a function's address, which has room for it: addresses of programs have 47 bits.
const HAD_TASKS: usize = 1;

/// The user wants threads that wait to do so in a loop.
static WAITS_IN_LOOPS: AtomicBool = AtomicBool::new(false);

static FUNCTIONS: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

/// Before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    let is_active =
        variable(c"OMP_WAIT_POLICY").is_some_and(|policy| policy.trim_ascii().eq_ignore_ascii_case(b"active"));
    // Without a policy libgomp loops for some milliseconds; for how long may be asked for.
    WAITS_IN_LOOPS.store(is_active || variable(c"GOMP_SPINCOUNT").is_some(), Ordering::Relaxed);
}

/// Whether members that are let go soon sleep.
pub fn are_worth_it() -> bool {
    !WAITS_IN_LOOPS.load(Ordering::Relaxed)
}

/// Where a function is remembered, and how without tasks.
fn place(work: Work) -> (&'static AtomicUsize, usize) {
    let address = work as usize;
    // Compilers align functions to 16 bytes.
    (&FUNCTIONS[(address >> 4) % PLACES], address << 1)
}

/// Whether regions of this function have been there, and none has had a task.
pub fn has_never_had_tasks(work: Work) -> bool {
    let (place, without) = place(work);
    place.load(Ordering::Relaxed) == without
}

/// A region of this function is over.
pub fn note(work: Work, had_tasks: bool) {
    let (place, without) = place(work);
    let known = place.load(Ordering::Relaxed);
    if had_tasks {
        if known != without | HAD_TASKS {
            place.store(without | HAD_TASKS, Ordering::Relaxed);
        }
    } else if known & !HAD_TASKS != without {
        place.store(without, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn one(_: *mut std::ffi::c_void) {}

    /// Functions of these addresses; nobody calls them.
    fn function(address: usize) -> Work {
        // SAFETY: not null, and of the size of a function's address.
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
