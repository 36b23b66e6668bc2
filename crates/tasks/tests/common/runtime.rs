//! A runtime with control variables, which keeps them as libgomp does: for the calling thread's implicit task.

use std::cell::Cell;
use std::io::Write;
use std::panic::Location;

use tasks::icv::{Runtime, Values, begin};
use tasks::worker::Worker;

/// What every thread begins with.
pub const FIRST: Values = Values { threads: 100, dynamic: 0, levels: 1, schedule: (1, 0), device: 0, allocator: 1 };

thread_local! {
    static NOW: Cell<Values> = const { Cell::new(FIRST) };
}

/// Has tasks find values in this runtime.
pub fn at_load() {
    begin(Runtime { read: |_| NOW.get(), write: |_, values| NOW.set(*values) });
}

/// The calling thread's implicit task has these values from now on: what the runtime does where a region begins and ends.
pub fn replace(values: Values) -> Values {
    NOW.replace(values)
}

/// What the program reads: the number of threads.
#[allow(dead_code, reason = "not every test asks for it")]
pub fn threads() -> i32 {
    NOW.get().threads
}

/// Ends the test program if the number of threads is another: others would wait for ever for a task that panics.
#[track_caller]
pub fn expect_threads(expected: i32) {
    let found = NOW.get().threads;
    if found != expected {
        let _ = writeln!(std::io::stderr(), "{}: {found} threads, expected {expected}", Location::caller());
        std::process::abort();
    }
}

/// What the program reads: the default allocator.
#[allow(dead_code, reason = "not every test asks for it")]
pub fn allocator() -> usize {
    NOW.get().allocator
}

/// The program sets the number of threads.
#[allow(dead_code, reason = "not every test sets it in tasks")]
pub fn set_threads(worker: &Worker, threads: i32) {
    worker.set_icvs(|| NOW.set(Values { threads, ..NOW.get() }));
}

/// The program sets the default allocator.
#[allow(dead_code, reason = "as above")]
pub fn set_allocator(worker: &Worker, allocator: usize) {
    worker.set_icvs(|| NOW.set(Values { allocator, ..NOW.get() }));
}
