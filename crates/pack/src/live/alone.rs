//! The only thread of a process is not bound to a single CPU before it has run for some time. OpenMP counts the CPUs of
//! the affinity mask when the process starts or loads OpenMP; if the thread were bound then, OpenMP would count one CPU.

/// CPU time of the only thread of a process until it may be bound, ns.
const ALONE_NS: u64 = 1_000_000_000;

/// Returns whether a thread may be bound to a single CPU. `alone`: it is the only thread of its process, and its CPU time
/// is `run_ns`.
pub fn may_be_bound(alone: bool, run_ns: u64) -> bool {
    !alone || run_ns >= ALONE_NS
}
