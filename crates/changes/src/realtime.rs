//! Scheduling and CPU of the calling thread, for threads of cox that must not wait for the program's threads.

use std::io;

use rustix::thread::gettid;

use crate::kernel_value::KernelValue;
use crate::knob_io::attr::{self, Attr};
use crate::value::{Scheduling, Value};

/// The shortest slice that the kernel grants, ns (sched_setattr(2), Linux 6.12).
const SHORTEST_SLICE_NS: u64 = 100_000;

/// Sets SCHED_FIFO at this priority. If neither CAP_SYS_NICE nor RLIMIT_RTPRIO allows that, sets the shortest slice.
/// Threads and processes that the caller creates do not inherit the priority.
///
/// # Errors
/// Fails if neither is allowed.
pub fn become_punctual(priority: u32) -> io::Result<()> {
    attr::set(gettid(), &Attr::real_time(priority)).or_else(|_| take_shortest_slice())
}

/// Runs `what` at the priority of [`become_punctual`]. Then restores the caller's scheduling.
pub fn punctually<T>(priority: u32, what: impl FnOnce() -> T) -> T {
    let before = attr::get(gettid()).and_then(|own| Attr::of(&own));
    let _ = become_punctual(priority);
    let result = what();
    if let Ok(before) = before {
        // Only CAP_SYS_NICE allows to clear the flag that keeps children from inheriting the priority. It does no harm.
        // Ignore a failure: the thread is then punctual more often than it needs to be.
        let _ = attr::set(gettid(), &before).or_else(|_| attr::set(gettid(), &before.reset_on_fork()));
    }
    result
}

/// Sets the shortest slice. When a thread with the shortest slice wakes up, it immediately preempts a thread with a
/// longer slice, unless the waking thread has already used more than its share. Before Linux 6.12 slices cannot be
/// chosen, and nothing changes. Threads and processes that the caller creates inherit the slice.
///
/// # Errors
/// The kernel's error, which is not expected.
pub fn take_shortest_slice() -> io::Result<()> {
    let own = attr::get(gettid())?;
    attr::set(gettid(), &Attr::of(&Scheduling { slice_ns: SHORTEST_SLICE_NS, ..own })?)
}

/// Binds the calling thread to this CPU.
///
/// # Errors
/// Fails if the CPU is offline or not allowed.
pub fn stay_on(cpu: u32) -> io::Result<()> {
    KernelValue::of(&Value::Cpus([cpu].into_iter().collect()))?.write(gettid())
}
