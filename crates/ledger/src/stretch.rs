//! What a thread did from when to when, as a picture or a trace has it.
//!
//! A stretch is what one transition booked: the difference of two states of the thread's clock. So stretches add up to what the clock says, by
//! construction, and there is one rule for both.

use wire::{Cause, Clock, State};

use crate::transition::cause_index;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// Has a CPU.
    Run,
    /// Woken, and waits for a CPU.
    WakeDelay,
    /// Has lost its CPU, and waits for another turn.
    Preempted {
        /// It gave it away itself (sched_yield).
        yielded: bool,
    },
    /// Waits for something else.
    Blocked(Cause),
    /// Before the first event, after the last one, or where events contradict one another.
    Unknown,
}

/// What a thread did for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its thread: the n-th life that the replay met. Ids are used again, these numbers are not.
    pub life: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id; 0 where it is not known yet.
    pub tgid: u32,
    /// From then …
    pub from_ns: u64,
    /// … until then.
    pub until_ns: u64,
    /// What.
    pub doing: Doing,
    /// Where it ran; otherwise where it ran last, or was queued.
    pub cpu: u16,
}

impl Stretch {
    /// How long.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }
}

/// A clock before a transition, as far as is needed to tell what it booked.
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

    /// What was booked until the clock stood at `after`: nothing, one stretch, or a block with the wake delay behind it.
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
