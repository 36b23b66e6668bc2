//! Which regions have never had tasks: at their end nobody needs to wait in our barrier for tasks that others may still make. libgomp's barrier is
//! behind it, and two in a row cost a region without tasks half as much again.
//!
//! It is learned by function. One that has had a task once, or has never run, has the barrier. Where one makes its first task later than
//! that, the members that have come to the end before sleep in libgomp's barrier, once, and standbys do what they would have done; so this
//! is for when there are standbys.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::real::Work;

/// Functions that are remembered. Two at one place displace each other, which costs barriers.
const PLACES: usize = 512;
/// Flag beside a function's address, which has room for it: addresses of programs have 47 bits.
const HAD_TASKS: usize = 1;

static FUNCTIONS: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

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
