//! The C transitions (`wire/include/cox/clock.h`, `cells.h`) compiled natively: the oracle for tests of the Rust rules in `ledger`.

use wire::Clock;
use wire::latency::INTERVALS;

unsafe extern "C" {
    fn cox_native_born(c: *mut Clock, t: u64);
    fn cox_native_waking(c: *mut Clock, t: u64);
    fn cox_native_in(c: *mut Clock, t: u64, cpu: u16, steal: u64, irq: u64);
    fn cox_native_out(c: *mut Clock, t: u64, state: u8, cause: u8, yielded: u8, steal: u64, irq: u64);
    fn cox_native_migrate(c: *mut Clock, cpu: u16, old_cpu_allowed: u8);
    fn cox_native_add(sum: *mut Clock, c: *const Clock);
    fn cox_native_take_ended(into: *mut [u64; INTERVALS]);
    fn cox_native_latency_bucket(ns: u64) -> u64;
    fn cox_native_cell_arrival(t: u64) -> u64;
    fn cox_native_cell_thread_time(cell: u64, t: u64) -> u64;
    fn cox_native_cell_presence(cell: u64, t: u64) -> u64;
    fn cox_native_cell_since(later: u64, earlier: u64) -> u64;
    fn cox_native_cell_step(cell: u64, delta: i32, t: u64) -> u64;
    fn cox_native_umt_place(tid: u32, n: u32) -> u32;
}

/// Applies a birth at `t_ns`.
pub fn born(c: &mut Clock, t_ns: u64) {
    // SAFETY: `Clock` is repr(C) with the layout asserted on both sides; the reference is valid.
    unsafe { cox_native_born(c, t_ns) }
}

/// Applies a waking at `t_ns`.
pub fn waking(c: &mut Clock, t_ns: u64) {
    // SAFETY: `Clock` has the same layout on both sides, and the reference is valid.
    unsafe { cox_native_waking(c, t_ns) }
}

/// Applies a switch-in at `t_ns` on `cpu`, with that CPU's steal and interrupt clocks.
pub fn switch_in(c: &mut Clock, t_ns: u64, cpu: u16, steal_ns: u64, irq_ns: u64) {
    // SAFETY: `Clock` has the same layout on both sides, and the reference is valid.
    unsafe { cox_native_in(c, t_ns, cpu, steal_ns, irq_ns) }
}

/// Applies a switch-out at `t_ns` into wire state `state`.
pub fn switch_out(c: &mut Clock, t_ns: u64, state: u8, cause: u8, yielded: bool, steal_ns: u64, irq_ns: u64) {
    // SAFETY: `Clock` has the same layout on both sides, and the reference is valid.
    unsafe { cox_native_out(c, t_ns, state, cause, yielded.into(), steal_ns, irq_ns) }
}

/// Applies a migration to `cpu`.
pub fn migrate(c: &mut Clock, cpu: u16, old_cpu_allowed: bool) {
    // SAFETY: `Clock` has the same layout on both sides, and the reference is valid.
    unsafe { cox_native_migrate(c, cpu, old_cpu_allowed.into()) }
}

/// Adds a final clock to a sum of clocks.
pub fn add(sum: &mut Clock, c: &Clock) {
    // SAFETY: `Clock` has the same layout on both sides, and the reference is valid.
    unsafe { cox_native_add(sum, c) }
}

/// Returns the lengths of the intervals that events ended since the last call on this thread, by kind; `u64::MAX` if none ended.
pub fn take_ended() -> [u64; INTERVALS] {
    let mut ended = [0; INTERVALS];
    // SAFETY: the C side writes exactly that many numbers.
    unsafe { cox_native_take_ended(&raw mut ended) }
    ended
}

/// Returns the index of the bucket that counts intervals of `ns` nanoseconds.
pub fn latency_bucket(ns: u64) -> u64 {
    // SAFETY: a pure function of its argument.
    unsafe { cox_native_latency_bucket(ns) }
}

/// Returns what an arrival at `t_ns` adds to a thread-time cell.
pub fn cell_arrival(t_ns: u64) -> u64 {
    // SAFETY: a pure function of its argument.
    unsafe { cox_native_cell_arrival(t_ns) }
}

/// Returns the thread-time integral W(t) of a thread-time cell.
pub fn cell_thread_time(cell: u64, t_ns: u64) -> u64 {
    // SAFETY: a pure function of its arguments.
    unsafe { cox_native_cell_thread_time(cell, t_ns) }
}

/// Returns the presence integral I(t) of a presence cell.
pub fn cell_presence(cell: u64, t_ns: u64) -> u64 {
    // SAFETY: a pure function of its arguments.
    unsafe { cox_native_cell_presence(cell, t_ns) }
}

/// Returns the time between two readings of a cell.
pub fn cell_since(later: u64, earlier: u64) -> u64 {
    // SAFETY: a pure function of its arguments.
    unsafe { cox_native_cell_since(later, earlier) }
}

/// Returns a presence cell after a step of +1 or -1.
pub fn cell_step(cell: u64, delta: i32, t_ns: u64) -> u64 {
    // SAFETY: a pure function of its arguments.
    unsafe { cox_native_cell_step(cell, delta, t_ns) }
}

/// Returns the n-th place in the table of threads in which the thread `tid` may be.
pub fn umt_place(tid: u32, n: u32) -> usize {
    // SAFETY: a pure function of its arguments.
    unsafe { cox_native_umt_place(tid, n) as usize }
}
