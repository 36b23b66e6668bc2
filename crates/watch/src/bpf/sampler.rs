//! A software clock event on each CPU that runs the sampling program.
//!
//! Per CPU and not per thread: an event of a thread is stopped and started at each of its context
//! switches, which costs more than the switch handler itself.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::Link;
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use super::program::Program;
use crate::observer::WatchError;
use crate::online;

/// The events; dropping it stops them.
pub(super) struct Sampler {
    _links: Vec<Link>,
}

impl Sampler {
    /// One sample each `period_ns` on each CPU that is online.
    pub(super) fn start(program: &Program, period_ns: u64) -> Result<Sampler, WatchError> {
        let mut sampler = Sampler { _links: Vec::new() };
        for cpu in online::cpus()? {
            let event = open(cpu, period_ns).map_err(|source| WatchError::System {
                what: format!("opening the sampling clock of CPU {cpu}"),
                source,
            })?;
            let link =
                program.sampling_program().attach_perf_event(event.as_raw_fd()).map_err(|e| WatchError::System {
                    what: format!("starting the sampling clock of CPU {cpu}"),
                    source: std::io::Error::other(e),
                })?;
            sampler._links.push(link);
            // The link owns the event's descriptor from here on.
            let _ = event.into_raw_fd();
        }
        Ok(sampler)
    }
}

fn open(cpu: u32, period_ns: u64) -> std::io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = period_ns;
    // SAFETY: `attr` is fully initialised and its size is in it; the kernel only reads it.
    let fd =
        unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, -1, cpu as i32, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just given us and nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
