//! sched_getattr(2) and sched_setattr(2), which the C library does not wrap, and the resource limits that apply to
//! sched_setattr(2).
#![allow(unsafe_code, reason = "three system calls with a struct behind a pointer")]

use std::io;
use std::mem::size_of;

use rustix::process::Pid;

use crate::value::Scheduling;

/// `struct sched_attr`, SCHED_ATTR_SIZE_VER0 (include/uapi/linux/sched/types.h). This version lacks the utilisation
/// clamps, so they are not changed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Attr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// SCHED_FLAG_RESET_ON_FORK.
const RESET_ON_FORK: u64 = 1;

pub(crate) fn get(pid: Pid) -> io::Result<Scheduling> {
    let mut attr = Attr::default();
    // SAFETY: `attr` is valid for writes of the size that is passed with it.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, pid.as_raw_nonzero().get(), &raw mut attr, size_of::<Attr>(), 0u32)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let slice_ns = if attr.policy == Scheduling::DEADLINE { 0 } else { attr.runtime_ns };
    Ok(Scheduling { policy: attr.policy, flags: attr.flags, nice: attr.nice, priority: attr.priority, slice_ns })
}

impl Attr {
    /// Makes attributes for SCHED_FIFO at this priority; children do not inherit it.
    pub(crate) fn real_time(priority: u32) -> Attr {
        let size = size_of::<Attr>() as u32;
        Attr { size, policy: libc::SCHED_FIFO as u32, flags: RESET_ON_FORK, priority, ..Attr::default() }
    }

    /// Returns the same attributes with SCHED_FLAG_RESET_ON_FORK.
    pub(crate) fn reset_on_fork(self) -> Attr {
        Attr { flags: self.flags | RESET_ON_FORK, ..self }
    }

    pub(crate) fn of(scheduling: &Scheduling) -> io::Result<Attr> {
        if scheduling.policy == Scheduling::DEADLINE {
            return Err(io::Error::other("cox cannot put a thread into SCHED_DEADLINE"));
        }
        Ok(Attr {
            size: size_of::<Attr>() as u32,
            policy: scheduling.policy,
            flags: scheduling.flags,
            nice: scheduling.nice,
            priority: scheduling.priority,
            runtime_ns: scheduling.slice_ns,
            ..Attr::default()
        })
    }
}

pub(crate) fn set(pid: Pid, attr: &Attr) -> io::Result<()> {
    // SAFETY: `attr` is initialised and contains its own size; the kernel only reads it.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, pid.as_raw_nonzero().get(), &raw const *attr, 0u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the soft limits RLIMIT_NICE and RLIMIT_RTPRIO of a thread's process.
pub(super) fn limits(pid: Pid) -> io::Result<(u64, u64)> {
    let one = |which| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: no new limit is passed, and `limit` is valid for writes.
        let result = unsafe { libc::prlimit(pid.as_raw_nonzero().get(), which, std::ptr::null(), &raw mut limit) };
        if result == 0 { Ok(limit.rlim_cur) } else { Err(io::Error::last_os_error()) }
    };
    Ok((one(libc::RLIMIT_NICE)?, one(libc::RLIMIT_RTPRIO)?))
}
