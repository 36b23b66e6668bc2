//! What a thread did in an interval, for diagrams and traces.
//!
//! A stretch is the time that one transition of a thread's clock booked. It is computed from the clock before and after the transition, so the sums
//! of the stretches always equal the times in the clock.

use wire::cells::Levels;
use wire::{Cause, Clock, State};

use crate::transition::cause_index;

/// State of a thread in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// Running on a CPU.
    Run,
    /// Woken, and waiting for a CPU.
    WakeDelay,
    /// Preempted, and waiting for a CPU again.
    Preempted {
        /// True if the thread yielded its CPU (sched_yield).
        yielded: bool,
    },
    /// Blocked by this cause.
    Blocked(Cause),
    /// Unknown: before the first event, after the last one, or where events contradict one another.
    Unknown,
}

/// An interval of a thread in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Number of the thread in the replay. Unlike thread ids, these numbers are never reused.
    pub life: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id; 0 if not known yet.
    pub tgid: u32,
    /// Start of the interval.
    pub from_ns: u64,
    /// End of the interval.
    pub until_ns: u64,
    /// State of the thread.
    pub doing: Doing,
    /// The CPU on which the thread ran; in other states the CPU on which it ran last or was queued.
    pub cpu: u16,
}

impl Stretch {
    /// Returns the length in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }
}

/// The values of a clock before a transition. They are needed to compute the transition's stretches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    since_ns: u64,
    state: State,
    cause: usize,
    yielded: bool,
    cpu: u16,
    wake_delay_ns: u64,
    unknown_ns: u64,
}

impl Before {
    pub(crate) fn of(clock: &Clock) -> Before {
        Before {
            since_ns: clock.since_ns,
            state: State::from_wire(clock.state),
            cause: cause_index(clock),
            yielded: clock.yielded != 0,
            cpu: clock.cpu,
            wake_delay_ns: clock.wake_delay_ns,
            unknown_ns: clock.unknown_ns,
        }
    }

    /// Updates `levels`, which count how many threads ran at the same time, if the thread left or got a CPU. If the event shows that the thread's
    /// state since its previous event is unknown, this time is removed from `levels`.
    pub(crate) fn count(&self, after: &Clock, levels: &mut Levels) {
        if self.state == State::Run {
            levels.leave(if after.unknown_ns > self.unknown_ns { self.since_ns } else { after.since_ns });
        }
        if after.state == State::Run as u8 {
            levels.come(after.since_ns);
        }
    }

    /// Returns the stretches of the transition that changed the clock to `after`: none, one, or a block followed by its wake delay.
    pub(crate) fn stretches(&self, after: &Clock, life: u32) -> impl Iterator<Item = Stretch> {
        let (from_ns, until_ns) = (self.since_ns, after.since_ns);
        let delay_ns = after.wake_delay_ns - self.wake_delay_ns;
        let doing = match self.state {
            _ if after.unknown_ns > self.unknown_ns => Doing::Unknown,
            State::Run => Doing::Run,
            State::Born => Doing::WakeDelay,
            State::Preempt => Doing::Preempted { yielded: self.yielded },
            State::Blocked => Doing::Blocked(Cause::ALL[self.cause]),
            State::Unseen | State::Dead => Doing::Unknown,
        };
        let woken_ns = if self.state == State::Blocked { until_ns - delay_ns } else { until_ns };
        let (tid, tgid, cpu) = (after.tid, after.tgid, self.cpu);
        let part = move |doing, from_ns, until_ns| Stretch { life, tid, tgid, from_ns, until_ns, doing, cpu };
        [part(doing, from_ns, woken_ns), part(Doing::WakeDelay, woken_ns, until_ns)]
            .into_iter()
            .filter(|part| part.from_ns < part.until_ns)
    }
}
