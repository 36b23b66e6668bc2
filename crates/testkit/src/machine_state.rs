//! The state of this machine before and after a session ([`machine::state`]), for tests and for `quiet-check`.

use std::thread;
use std::time::{Duration, Instant};

pub use machine::state::{MachineState, ThreadState, Threads, is_of_worker, movable_on, numbers_of, threads};

/// How long everything may take to be restored, and the time between two comparisons.
const PATIENCE: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_millis(100);

/// Returns what is not as it was, after some time for what the kernel does later. Unbound workers are left out: only the kernel can restore them.
#[must_use]
pub fn not_restored(before: &MachineState) -> Vec<String> {
    not_restored_within(before, PATIENCE)
}

/// Returns what is not as it was after `patience`, like [`not_restored`].
#[must_use]
pub fn not_restored_within(before: &MachineState, patience: Duration) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let differences = before.differences_but_workers(&MachineState::read());
        if differences.is_empty() || begin.elapsed() > patience {
            return differences;
        }
        thread::sleep(WAIT);
    }
}
