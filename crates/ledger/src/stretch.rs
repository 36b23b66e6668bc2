//! What a thread did in an interval, for diagrams and traces.
//!
//! A stretch is an interval in which a thread had one state. When an event changes the state, the stretch that ends is computed from the thread's
//! clock (its time account) before and after the event. So the sums of the stretches always equal the times in the clock.

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

/// Fields of a thread's clock (its time account) as they were before an event changed the thread's state. Compared with the clock after the event,
/// they give the intervals in one state (stretches) that the event ends.
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

    /// Updates `levels`, the times for which 1, 2, 3, … threads ran at the same time, if the event took the thread off a CPU or put it on one.
    /// `after` is the thread's clock after the event. If it shows that the thread's state since its previous event is unknown, the thread is not
    /// counted as running in that time.
    pub(crate) fn count(&self, after: &Clock, levels: &mut Levels) {
        if self.state == State::Run {
            levels.leave(if after.unknown_ns > self.unknown_ns { self.since_ns } else { after.since_ns });
        }
        if after.state == State::Run as u8 {
            levels.come(after.since_ns);
        }
    }

    /// Returns the stretches (intervals in one state) that ended when the clock changed to `after`: none, one, or a block followed by its wake delay.
    /// `life` is the thread's number in the replay.
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
