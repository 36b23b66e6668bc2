//! A software clock event on each CPU, which runs the sampling program.
//!
//! The events belong to CPUs and not to threads. An event of a thread would be stopped and started at each context switch of the thread, which costs
//! more than the switch handler itself. The sampling period is changed about every 100 ms, once per turn (see [`sampling`]). Setting it restarts the
//! period, so half a period is lost on average at each turn, on all CPUs at the same time. In a guest this is 2.5 % of the samples. The shares of
//! functions are not affected, unless the program itself has a period of 100 ms, as cox has.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use libbpf_rs::{Link, ProgramMut};
use perf_event_open_sys::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE, perf_event_attr};

use super::libbpf::system;
use crate::observer::WatchError;
use crate::perf::event;
use crate::sampling;

/// The sampling events. Dropping them stops sampling.
pub(crate) struct Sampler {
    clocks: Vec<SamplingClock>,
    mean_ns: u64,
    turn: u32,
    turn_ends_ns: u64,
}

struct SamplingClock {
    _link: Link,
    /// The event's descriptor, which the link owns and keeps open. It is not duplicated, because that would take a third descriptor for each CPU.
    event: RawFd,
}

impl Sampler {
    /// Starts sampling: on each of `cpus`, `program` takes a sample every `mean_ns` nanoseconds on average.
    pub(crate) fn start(program: &ProgramMut<'_>, mean_ns: u64, cpus: &[u32]) -> Result<Sampler, WatchError> {
        let mut sampler =
            Sampler { clocks: Vec::new(), mean_ns, turn: 0, turn_ends_ns: arch::monotonic_ns() + sampling::TURN_NS };
        let period_ns = sampling::period_of_turn_ns(mean_ns, 0);
        for &cpu in cpus {
            let of_cpu = format!("the sampling clock of CPU {cpu}");
            let event =
                open(cpu, period_ns).map_err(|source| WatchError::system(format!("opening {of_cpu}"), source))?;
            let link = program.attach_perf_event(event.as_raw_fd());
            let link = link.map_err(|e| system(&format!("starting {of_cpu}"), e))?;
            // From here on the link owns the descriptor.
            sampler.clocks.push(SamplingClock { _link: link, event: event.into_raw_fd() });
        }
        Ok(sampler)
    }

    /// Sets the next sampling period if the present turn (about 100 ms) is over. If the kernel refuses to change the period of a CPU's event, that
    /// event keeps its period.
    pub(crate) fn tick(&mut self) {
        let now_ns = arch::monotonic_ns();
        if now_ns < self.turn_ends_ns {
            return;
        }
        self.turn = self.turn.wrapping_add(1);
        self.turn_ends_ns = now_ns + sampling::TURN_NS;
        let period_ns = sampling::period_of_turn_ns(self.mean_ns, self.turn);
        for clock in &self.clocks {
            // The kernel expects the period's address, although the binding's parameter looks like a value.
            let at = (&raw const period_ns) as u64;
            // SAFETY: `clock.event` is a perf event that the link keeps open. The kernel reads from the address only during the call, and does not
            // write to it.
            unsafe { perf_event_open_sys::ioctls::PERIOD(clock.event, at) };
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
    event::open(attr, None, cpu)
}
