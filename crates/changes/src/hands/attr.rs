//! sched_getattr(2) and sched_setattr(2), which the C library does not wrap.
#![allow(unsafe_code, reason = "two system calls with a struct behind a pointer")]

use std::io;
use std::mem::size_of;

use rustix::process::Pid;

use crate::knob::Scheduling;

/// `struct sched_attr`, SCHED_ATTR_SIZE_VER0 (include/uapi/linux/sched/types.h). Utilisation clamps, which
/// came later, are left as they are.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Attr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const DEADLINE: u32 = 6;

pub(super) fn get(pid: Pid) -> io::Result<Scheduling> {
    let mut attr = Attr::default();
    // SAFETY: `attr` is valid for writes of the size that is passed with it.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, pid.as_raw_nonzero().get(), &raw mut attr, size_of::<Attr>(), 0u32)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let slice_ns = if attr.policy == DEADLINE { 0 } else { attr.runtime_ns };
    Ok(Scheduling { policy: attr.policy, flags: attr.flags, nice: attr.nice, priority: attr.priority, slice_ns })
}

pub(super) fn set(pid: Pid, scheduling: &Scheduling) -> io::Result<()> {
    if scheduling.policy == DEADLINE {
        return Err(io::Error::other("SCHED_DEADLINE is not for others to set"));
    }
    let attr = Attr {
        size: size_of::<Attr>() as u32,
        policy: scheduling.policy,
        flags: scheduling.flags,
        nice: scheduling.nice,
        priority: scheduling.priority,
        runtime_ns: scheduling.slice_ns,
        ..Attr::default()
    };
    // SAFETY: `attr` is initialised and says its own size; the kernel only reads it.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, pid.as_raw_nonzero().get(), &raw const attr, 0u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
