//! perf_event_open(2) and its ioctls: the attributes that cox requests, and what the kernel's refusals mean.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::bindings::perf_event_attr;
use perf_event_open_sys::{ioctls, perf_event_open};

use crate::observer::WatchError;

/// Returns the attributes of the event that is opened on a tracked thread and one CPU.
///
/// Its counter is the thread's CPU clock, sampled. Compared with a dummy counter, the sampling timer added no measurable cost to the switch
/// records; a second event for sampling cost another 4 % of a pipe ping-pong. Samples in the kernel are excluded: without privilege that is a
/// condition for opening the event, and with privilege the address would be the kernel's. With a period of 0 it counts nothing: no timer interrupts
/// the thread, and only the switch records are left.
pub(super) fn member(children: bool, sample_period_ns: u64) -> perf_event_attr {
    let counter = if sample_period_ns > 0 { abi::PERF_COUNT_SW_TASK_CLOCK } else { abi::PERF_COUNT_SW_DUMMY };
    let mut attr = software(counter);
    attr.__bindgen_anon_1.sample_period = sample_period_ns;
    attr.set_inherit(1);
    attr.set_inherit_thread(u64::from(!children));
    attr.set_context_switch(1);
    attr.set_task(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr
}

/// Returns the attributes of the event that owns a CPU's ring. It never counts, and outlives every tracked thread. The ring becomes readable when
/// `watermark_bytes` are unread.
pub(super) fn ring_owner(watermark_bytes: u32) -> perf_event_attr {
    let mut attr = software(abi::PERF_COUNT_SW_DUMMY);
    attr.set_disabled(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = watermark_bytes;
    attr
}

/// Returns the attributes that all events have in common: `counter`, and what a record contains.
pub(super) fn software(counter: abi::perf_sw_ids) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: abi::PERF_TYPE_SOFTWARE,
        // This may be larger than an old kernel's struct. The kernel accepts that as long as the fields that it does not know are zero.
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(counter),
        // `parse` reads exactly these fields.
        sample_type: u64::from(
            abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU,
        ),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// Returns the attributes of a software event that runs a BPF program each time that `counter` has grown by `period`.
pub(crate) fn every(period: u64, counter: abi::perf_sw_ids) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: abi::PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(counter),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = period;
    attr
}

/// Opens a perf event with the attributes `attr`. It is active while thread `tid` (0: the calling thread) is on `cpu`; if `tid` is `None`, for all
/// threads on `cpu`; if `cpu` is `None`, on every CPU.
pub(crate) fn open(mut attr: perf_event_attr, tid: Option<u32>, cpu: Option<u32>) -> io::Result<OwnedFd> {
    let id = |id: Option<u32>| id.map_or(Ok(-1), i32::try_from);
    let (Ok(tid), Ok(cpu)) = (id(tid), id(cpu)) else {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    };
    let flags = abi::PERF_FLAG_FD_CLOEXEC;
    // SAFETY: `attr` is initialised and outlives the call. A software event writes to no user memory.
    let fd = unsafe { perf_event_open(&mut attr, tid, cpu, -1, flags.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is a new descriptor that no other code owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes `event` write into the ring of `owner`, an event on the same CPU.
pub(super) fn redirect(event: &OwnedFd, owner: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `event` and `owner` are open perf events.
    checked(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), owner.as_raw_fd()) })
}

/// Runs a BPF program each time that the event counts to its period.
pub(crate) fn run(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; the kernel keeps its own reference to the program.
    checked(unsafe { ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as _) })?;
    // SAFETY: `event` is an open perf event; the argument 0 means this event only, not its group.
    checked(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Stops an event and all events that other threads inherited from it.
pub(super) fn stop(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: `event` is an open perf event; the argument 0 means this event only, not its group.
    checked(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the error for a kernel that does not let cox open perf events at all: why, and what to do. `paranoid` is the sysctl
/// kernel.perf_event_paranoid.
pub(super) fn refusal(source: io::Error, paranoid: Option<i64>, children: bool) -> WatchError {
    let unavailable =
        |why: String| WatchError::Unavailable { what: "perf backend: cannot open perf events".to_owned(), why };
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => unavailable(match paranoid {
            Some(level) if level > 2 => format!(
                "kernel.perf_event_paranoid is {level}, which forbids perf events to users without CAP_PERFMON. \
                 Fix: sudo sysctl kernel.perf_event_paranoid=2, or use --backend proc"
            ),
            level => format!(
                "{source}, although kernel.perf_event_paranoid{level} permits perf events: probably a seccomp filter \
                 (container, service) or a security module. Fix: allow perf_event_open there (docker: --cap-add \
                 PERFMON), or use --backend proc",
                level = level.map_or_else(String::new, |level| format!(" = {level}"))
            ),
        }),
        Some(libc::ENOSYS) => {
            unavailable("this kernel is built without CONFIG_PERF_EVENTS. Fix: use --backend proc".to_owned())
        }
        Some(libc::EINVAL | libc::E2BIG) if !children => unavailable(
            "leaving out child processes needs Linux 5.13. Fix: include them, or use --backend proc".to_owned(),
        ),
        Some(libc::EMFILE | libc::ENFILE) => unavailable(too_many_files()),
        _ => WatchError::System { what: "perf_event_open".to_owned(), source },
    }
}

/// Returns the error for a thread `tid` of process `pid` whose events cannot be opened, although events on cox itself could.
pub(super) fn refusal_of(pid: u32, tid: u32, source: io::Error) -> WatchError {
    let what = format!("perf backend: cannot observe thread {tid} of process {pid}");
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => WatchError::Unavailable {
            what,
            why: "it belongs to another user, or its program may not be traced. Fix: run as that user or with \
                  CAP_PERFMON, or use --backend proc"
                .to_owned(),
        },
        Some(libc::EMFILE | libc::ENFILE) => WatchError::Unavailable { what, why: too_many_files() },
        _ => WatchError::System { what, source },
    }
}

fn too_many_files() -> String {
    "too many open files: perf needs one file per existing thread and CPU (threads × CPUs). Fix: raise ulimit -n, or use --backend proc"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(errno: i32, paranoid: Option<i64>, children: bool) -> String {
        refusal(io::Error::from_raw_os_error(errno), paranoid, children).to_string()
    }

    #[test]
    fn refusals_name_the_reason_and_the_way_out() {
        for errno in [libc::EACCES, libc::EPERM] {
            let paranoid = text(errno, Some(4), true);
            assert!(paranoid.contains("kernel.perf_event_paranoid is 4"), "{paranoid}");
            assert!(paranoid.contains("sysctl kernel.perf_event_paranoid=2"), "{paranoid}");
            let filtered = text(errno, Some(2), true);
            assert!(filtered.contains("paranoid = 2 permits perf events"), "{filtered}");
            assert!(filtered.contains("seccomp"), "{filtered}");
            assert!(!text(errno, None, true).contains("is  "), "no level to show");
        }
        assert!(text(libc::EINVAL, Some(2), false).contains("Linux 5.13"));
        assert!(!text(libc::EINVAL, Some(2), true).contains("Linux 5.13"));
        assert!(text(libc::EMFILE, Some(2), true).contains("ulimit -n"));
        assert!(text(libc::ENOSYS, None, true).contains("CONFIG_PERF_EVENTS"));
        for errno in [libc::EACCES, libc::ENOSYS, libc::EMFILE] {
            assert!(text(errno, Some(3), true).contains("--backend proc"));
        }
    }
}
