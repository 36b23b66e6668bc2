//! Threads and interrupts that the kernel does not let be moved, and why.

use std::fmt;

use crate::knob::Knob;

/// A knob that a session has taken, but could not set. It still has its original value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmoved {
    /// The knob: an affinity or the cgroup of a thread, or an interrupt.
    pub knob: Knob,
    /// Why it could not be set.
    pub why: Why,
}

impl fmt::Display for Unmoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be changed: {}", self.knob, self.why)
    }
}

/// Why the kernel does not let a thread or an interrupt be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel manages the interrupt: EPERM since Linux 6.12 and EIO before (irq_select_affinity_usr in
    /// kernel/irq/proc.c).
    Managed,
    /// The CPUs to which the interrupt would go have no interrupt vector left: ENOSPC (arch/x86/kernel/apic/vector.c).
    NoVector,
    /// The kernel binds the thread to its CPUs, or keeps it in its cgroup: EINVAL for PF_NO_SETAFFINITY
    /// (__sched_setaffinity in kernel/sched), and for this flag and kthreadd (cgroup_procs_write_start in
    /// kernel/cgroup/cgroup.c).
    Bound,
    /// The thread is in SCHED_DEADLINE, which needs all CPUs of its scheduling domain: EBUSY (dl_task_check_affinity in
    /// kernel/sched).
    Deadline,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Managed => "the kernel manages it",
            Why::NoVector => "the other CPUs have no interrupt vector left",
            Why::Bound => "the kernel binds it to its CPUs",
            Why::Deadline => "threads in SCHED_DEADLINE keep all their CPUs",
        })
    }
}
