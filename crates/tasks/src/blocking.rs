//! Task functions that probably block: those whose latest task on a standby has blocked. A standby is an additional thread, which runs tasks
//! while other threads are blocked.
//!
//! A task that blocks gives its CPU back soon. If it begins while other threads want the CPU, it costs them little, and the disk or process
//! that it will wait for starts to work sooner. So a standby begins such tasks even on a CPU for which other threads wait (`helping`), and
//! they come before other tasks (`queues`).
//!
//! *Rejected alternative:* standbys begin any task on such a CPU. If the tasks compute, up to 64 more threads would compete for the CPUs.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::task::Work;

/// Number of entries. Most programs have fewer task constructs. If two functions with the same hash block, each overwrites the entry of the
/// other, so only the last one counts as blocking.
const PLACES: usize = 256;

/// A hash table of functions' addresses.
pub(crate) struct Blocking([AtomicUsize; PLACES]);

/// The blocking functions of this process. Threads use the table without a lock: a wrong answer costs only time.
pub(crate) static BLOCKING: Blocking = Blocking::new();

impl Blocking {
    const fn new() -> Blocking {
        Blocking([const { AtomicUsize::new(0) }; PLACES])
    }

    #[inline]
    fn place(&self, work: Work) -> &AtomicUsize {
        // Addresses of functions differ little. The upper bits of the product differ even then.
        &self.0[((work as usize as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % PLACES]
    }

    /// Returns whether tasks of this function probably block.
    #[inline]
    pub fn has(&self, work: Work) -> bool {
        self.place(work).load(Ordering::Relaxed) == work as usize
    }

    /// Records, after a task of this function has ended, whether it has blocked.
    pub fn note(&self, work: Work, has_blocked: bool) {
        if self.has(work) != has_blocked {
            let address = if has_blocked { work as usize } else { 0 };
            self.place(work).store(address, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ffi::c_void;

    use super::*;

    unsafe extern "C-unwind" fn reads(data: *mut c_void) {
        std::hint::black_box(data);
    }

    unsafe extern "C-unwind" fn computes(data: *mut c_void) {
        std::hint::black_box(data.addr() + 1);
    }

    #[test]
    fn what_the_last_task_of_a_function_did_is_known() {
        let table = Blocking::new();
        table.note(reads, true);
        table.note(computes, false);
        assert_eq!((table.has(reads), table.has(computes)), (true, false));
        table.note(reads, false);
        table.note(computes, true);
        assert_eq!((table.has(reads), table.has(computes)), (false, true));
    }

    /// If two functions share an entry, the function that does not block does not overwrite the one that does.
    #[test]
    fn functions_that_share_a_place_are_told_apart() {
        let table = Blocking::new();
        // SAFETY: the test never calls these functions.
        let made = |address: usize| unsafe { std::mem::transmute::<usize, Work>(address) };
        let first = made(0x40_1000);
        let other =
            (1..).map(|n| made(0x40_1000 + 16 * n)).find(|other| std::ptr::eq(table.place(*other), table.place(first)));
        let other = other.unwrap();
        table.note(first, true);
        table.note(other, false);
        assert_eq!((table.has(first), table.has(other)), (true, false));
        table.note(other, true);
        assert_eq!((table.has(first), table.has(other)), (false, true));
    }
}
