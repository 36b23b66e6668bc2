//! A software clock event on each CPU that runs the sampling program.
//!
//! Per CPU and not per thread: an event of a thread is stopped and started at each of its context
//! switches, which costs more than the switch handler itself. The period changes from turn to turn (see
//! [`sampling`]); setting it begins a new one, so half a period's samples are missed at each turn.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::Link;
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use super::program::Program;
use crate::observer::WatchError;
use crate::{online, sampling};

/// The events; dropping it stops them.
pub(super) struct Sampler {
    clocks: Vec<SamplingClock>,
    mean_ns: u64,
    turn: u32,
    turn_ends_ns: u64,
}

struct SamplingClock {
    _link: Link,
    event: OwnedFd,
}

impl Sampler {
    /// One sample each `mean_ns` on each CPU that is online, on average.
    pub(super) fn start(program: &Program, mean_ns: u64) -> Result<Sampler, WatchError> {
        let mut sampler =
            Sampler { clocks: Vec::new(), mean_ns, turn: 0, turn_ends_ns: arch::monotonic_ns() + sampling::TURN_NS };
        let period_ns = sampling::period_of_turn_ns(mean_ns, 0);
        for cpu in online::cpus()? {
            let opened = open(cpu, period_ns).and_then(|event| Ok((event.as_fd().try_clone_to_owned()?, event)));
            let (event, to_link) = opened.map_err(|source| WatchError::System {
                what: format!("opening the sampling clock of CPU {cpu}"),
                source,
            })?;
            let link =
                program.sampling_program().attach_perf_event(to_link.as_raw_fd()).map_err(|e| WatchError::System {
                    what: format!("starting the sampling clock of CPU {cpu}"),
                    source: std::io::Error::other(e),
                })?;
            sampler.clocks.push(SamplingClock { _link: link, event });
            // The link owns this descriptor from here on.
            let _ = to_link.into_raw_fd();
        }
        Ok(sampler)
    }

    /// Begin a new turn when the present one is over. A clock that refuses keeps its period.
    pub(super) fn tick(&mut self) {
        let now_ns = arch::monotonic_ns();
        if now_ns < self.turn_ends_ns {
            return;
        }
        self.turn = self.turn.wrapping_add(1);
        self.turn_ends_ns = now_ns + sampling::TURN_NS;
        let period_ns = sampling::period_of_turn_ns(self.mean_ns, self.turn);
        for clock in &self.clocks {
            // The kernel wants the period's address, where the binding says its value.
            let at = (&raw const period_ns) as u64;
            // SAFETY: an open perf event, and an address that the kernel only reads during the call.
            unsafe { perf_event_open_sys::ioctls::PERIOD(clock.event.as_raw_fd(), at) };
        }
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
