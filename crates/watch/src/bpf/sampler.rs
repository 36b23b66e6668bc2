//! A software clock event on each CPU, which runs the sampling program.
//!
//! The events belong to CPUs and not to threads. An event of a thread would be stopped and started at each context switch of the thread, which costs
//! more than the switch handler itself. The sampling period is changed about every 100 ms, once per turn (see [`sampling`]). Setting it restarts the
//! period, so half a period is lost on average at each turn, on all CPUs at the same time. In a guest this is 2.5 % of the samples. The shares of
//! functions are not affected, unless the program itself has a period of 100 ms, as cox has.
//!
//! There are two kinds of turns:
//! - In most turns, each CPU has a period of its own. The shares of functions are computed from these samples.
//! - In every third turn, from the first one on, all CPUs have the same period, which begins at the same time, so they take their samples at the same time: in
//!   rounds. A round shows which threads worked at one moment. It does not show how long threads wait: the first CPU's sampling interrupt delays the thread there, and the
//!   thread on the next CPU has often begun to wait for it when its own sample is taken. (Measured with LULESH, whose loops take some 10 µs, on two CPUs of
//!   a guest: 25 % spinning in rounds, 17 % with different periods.) The order of the CPUs is reversed in every second such turn, so that no thread always
//!   has the later sample.
//!
//! The clocks are restarted one after the other, which takes some microseconds for each CPU. If it takes longer than [`LONGEST_RESTART_NS`], as on machines
//! with more than about a hundred CPUs, or if the kernel refuses a period, the turn has no rounds.

use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use libbpf_rs::{Link, ProgramMut};
use perf_event_open_sys::bindings::PERF_COUNT_SW_CPU_CLOCK;

use super::libbpf::system;
use crate::observer::WatchError;
use crate::perf::event;
use crate::sampling;

/// One turn of this many is one in which the CPUs take their samples in rounds.
const TURNS_PER_ROUND_TURN: u32 = 3;

/// The first turn of a sampler with rounds: a turn with rounds itself, because serial parts are often at the beginning of a run.
pub(crate) const FIRST_TURN: u32 = 1;

/// Returns a turn without rounds, for a sampler that never begins another one. Samplers with different numbers have different periods.
pub(crate) fn turn_without_rounds(number: u32) -> u32 {
    number.wrapping_mul(TURNS_PER_ROUND_TURN)
}

/// Longest time for which the clocks of all CPUs may be restarted, ns. The samples of a round are then taken within this time; the shortest period on bare
/// metal is three times as long.
const LONGEST_RESTART_NS: u64 = 250_000;

/// The sampling events. Dropping them stops sampling.
pub(crate) struct Sampler {
    clocks: Vec<SamplingClock>,
    mean_ns: u64,
    turn: u32,
    turn_ends_ns: u64,
    /// The last turn in which the CPUs took their samples in rounds: from when all CPUs had the same period, to when the first one got another.
    rounds: Range<u64>,
}

struct SamplingClock {
    _link: Link,
    /// The event's descriptor, which the link owns and keeps open. It is not duplicated, because that would take a third descriptor for each CPU.
    event: RawFd,
}

impl Sampler {
    /// Starts sampling: on each of `cpus`, `program` takes a sample every `mean_ns` nanoseconds on average. `turn`: the number of the first turn.
    pub(crate) fn start(
        program: &ProgramMut<'_>,
        mean_ns: u64,
        cpus: &[u32],
        turn: u32,
    ) -> Result<Sampler, WatchError> {
        let mut sampler = Sampler { clocks: Vec::new(), mean_ns, turn, turn_ends_ns: 0, rounds: 0..0 };
        let period_ns = sampling::period_of_turn_ns(mean_ns, turn, 0);
        for &cpu in cpus {
            let of_cpu = format!("the sampling clock of CPU {cpu}");
            let event =
                open(cpu, period_ns).map_err(|source| WatchError::system(format!("opening {of_cpu}"), source))?;
            let link = program.attach_perf_event(event.as_raw_fd());
            let link = link.map_err(|e| system(&format!("starting {of_cpu}"), e))?;
            // From here on the link owns the descriptor.
            sampler.clocks.push(SamplingClock { _link: link, event: event.into_raw_fd() });
        }
        sampler.begin_turn(arch::monotonic_ns());
        Ok(sampler)
    }

    /// Begins the next turn if the present one (about 100 ms) is over.
    pub(crate) fn tick(&mut self) {
        let now_ns = arch::monotonic_ns();
        if now_ns >= self.turn_ends_ns {
            self.turn = self.turn.wrapping_add(1);
            self.begin_turn(now_ns);
        }
    }

    /// Returns the time of the last turn with rounds: samples taken in it, in this turn or the one before, belong to rounds.
    pub(crate) fn rounds(&self) -> Range<u64> {
        self.rounds.clone()
    }

    /// Sets the sampling periods of the turn. If the kernel refuses to change the period of a CPU's event, that event keeps its period.
    fn begin_turn(&mut self, now_ns: u64) {
        self.turn_ends_ns = now_ns + sampling::TURN_NS;
        self.rounds.end = self.rounds.end.min(now_ns);
        let in_rounds = self.turn % TURNS_PER_ROUND_TURN == 1;
        let backwards = in_rounds && self.turn % (2 * TURNS_PER_ROUND_TURN) == 1;
        let count = self.clocks.len();
        let mut is_set = true;
        for at in 0..count {
            let number = if backwards { count - 1 - at } else { at };
            let of_cpu = if in_rounds { 0 } else { number as u32 };
            let period_ns = sampling::period_of_turn_ns(self.mean_ns, self.turn, of_cpu);
            is_set &= self.clocks[number].set_period(period_ns);
        }
        let restarted_ns = arch::monotonic_ns();
        if in_rounds && is_set && restarted_ns.saturating_sub(now_ns) <= LONGEST_RESTART_NS {
            self.rounds = restarted_ns..u64::MAX;
        }
    }
}

impl SamplingClock {
    /// Sets the period and restarts it. Returns false if the kernel refuses.
    fn set_period(&self, period_ns: u64) -> bool {
        // The kernel expects the period's address, although the binding's parameter looks like a value.
        let at = (&raw const period_ns) as u64;
        // SAFETY: `event` is a perf event that the link keeps open. The kernel reads from the address only during the call, and does not write to it.
        unsafe { perf_event_open_sys::ioctls::PERIOD(self.event, at) == 0 }
    }
}

fn open(cpu: u32, period_ns: u64) -> std::io::Result<OwnedFd> {
    event::open(event::every(period_ns, PERF_COUNT_SW_CPU_CLOCK), None, Some(cpu))
}
