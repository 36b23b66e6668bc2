//! Trace events: the records of a trace, byte for byte (`include/cox/trace_event.h`).

use std::mem::{offset_of, size_of};

use bytemuck::{Pod, Zeroable};

use crate::{Cause, Migration, State, Waiting};

/// Maximum number of CPUs in a recording: the largest for which a Linux kernel can be built (`NR_CPUS_RANGE_END` of `arch/x86/Kconfig`). An event
/// on a CPU with a higher number is treated as damaged data. The limit matters because traces and charts reserve room for each CPU up to the
/// highest. It applies to recordings of perf, which records all CPUs; the limit for BPF is [`MAX_CPUS`](crate::MAX_CPUS).
pub const MOST_CPUS: u32 = 8192;
/// Latest time, ns, that readers of files accept: half of the range of a `u64` (290 years), because many functions add two times, and the sum must
/// not overflow.
pub const LATEST_NS: u64 = u64::MAX / 2;

/// A trace event, as BPF writes it and as files store it. [`TraceEvent::what`] decodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Pod, Zeroable)]
#[repr(C)]
pub struct TraceEvent {
    /// Time of the event, nanoseconds on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Another thread, a process, or a number, depending on `kind`.
    pub other: u32,
    /// The CPU on which the event happened.
    pub cpu: u16,
    /// The kind of event: a number of `enum cox_trace_event_kind`.
    pub kind: u8,
    /// A detail, whose meaning depends on `kind`.
    pub detail: u8,
    /// A further detail, whose meaning depends on `kind`.
    pub more: u32,
}

/// A gap in a CPU's trace: events that were lost because the ring was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Gap {
    /// Time of the first lost event, nanoseconds.
    pub since_ns: u64,
    /// Number of lost events.
    pub count: u64,
}

const _: () = {
    assert!(size_of::<TraceEvent>() == 24 && offset_of!(TraceEvent, kind) == 18);
    assert!(size_of::<Gap>() == 16);
};

/// The state in which a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The thread is still runnable.
    Preempted {
        /// Whether the thread called sched_yield.
        yielded: bool,
    },
    /// The thread is not runnable. `None`: the cause is not known yet; the event of the switch that ends the block contains it.
    Blocked(Option<Cause>),
    /// The thread has ended.
    Dead,
}

/// The decoded contents of a [`TraceEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A CPU switches from one thread to another; id 0 is the idle task.
    Switch {
        /// The thread that leaves.
        out: u32,
        /// The state in which the thread `out` leaves its CPU.
        left: Left,
        /// Whether the thread that leaves is tracked.
        out_is_member: bool,
        /// The thread that comes.
        into: u32,
        /// Whether the thread that comes is tracked.
        in_is_member: bool,
        /// Why `into` was blocked, if this switch ends its block.
        in_cause: Option<Cause>,
    },
    /// A thread is woken.
    Waking {
        /// The woken thread.
        tid: u32,
        /// The waking thread; 0: an interrupt, the idle task, or unknown.
        waker: u32,
        /// The CPU on which the woken thread ran last.
        last_cpu: u16,
    },
    /// A thread moves to another CPU.
    Migration {
        /// The thread.
        tid: u32,
        /// The previous CPU.
        from: u16,
        /// The reason.
        kind: Migration,
    },
    /// A thread is created.
    Born {
        /// The new thread.
        tid: u32,
        /// The new thread's process.
        tgid: u32,
        /// The creating thread's process.
        parent_tgid: u32,
    },
    /// cox begins to track (enrols) a thread that existed before.
    Enrolled {
        /// The thread.
        tid: u32,
        /// The thread's process.
        tgid: u32,
        /// Why the thread is asleep, if the kernel says that it is.
        blocked: Option<Cause>,
    },
    /// A process executes another program.
    Exec {
        /// The thread's id after the exec: that of the process's main thread.
        tid: u32,
        /// The thread that called exec.
        caller: u32,
    },
    /// A thread came to this CPU at this time, but no event reported its arrival. Recorded when the thread leaves.
    Arrived {
        /// The thread.
        tid: u32,
    },
    /// The cause of a thread's present block, if no switch event contains it.
    Why {
        /// The thread.
        tid: u32,
        /// The cause.
        cause: Cause,
    },
    /// Trace events of this CPU were lost from this time until its next event.
    Lost {
        /// Number of lost events.
        count: u32,
    },
    /// A sample found a thread running; the CPU is not recorded.
    Sample {
        /// The thread.
        tid: u32,
        /// Why the thread was spinning; `None`: the thread was working.
        waiting: Option<Waiting>,
    },
}

/// Bits of `more` in a switch; see `trace_event.h`.
const MEMBER_OUT: u32 = 1 << 16;
const MEMBER_IN: u32 = 1 << 17;
const YIELDED: u32 = 1 << 18;

/// The `kind` of a sample, which cox itself writes; and its `detail` while cox has not yet determined what the thread was doing.
const SAMPLE: u8 = 10;
const UNRESOLVED: u8 = 0xff;

/// The byte that means "no cause".
const NO_CAUSE: u8 = 0xff;

fn cause(byte: u32) -> Option<Cause> {
    Cause::ALL.get(byte as usize & 0xff).copied()
}

impl TraceEvent {
    /// Decodes the event. Returns `None` for a kind or state that this version does not know.
    #[must_use]
    pub fn what(&self) -> Option<What> {
        let TraceEvent { tid, other, detail, more, .. } = *self;
        Some(match self.kind {
            1 => What::Switch {
                out: tid,
                left: match State::from_wire(detail) {
                    State::Preempt => Left::Preempted { yielded: more & YIELDED != 0 },
                    State::Blocked => Left::Blocked(cause(more)),
                    State::Dead => Left::Dead,
                    _ => return None,
                },
                out_is_member: more & MEMBER_OUT != 0,
                into: other,
                in_is_member: more & MEMBER_IN != 0,
                in_cause: cause(more >> 8),
            },
            2 => What::Waking { tid, waker: other, last_cpu: more as u16 },
            3 => What::Migration { tid, from: more as u16, kind: Migration::ALL.get(usize::from(detail)).copied()? },
            4 => What::Born { tid, tgid: other, parent_tgid: more },
            5 => {
                let is_blocked = State::from_wire(detail) == State::Blocked;
                What::Enrolled { tid, tgid: other, blocked: is_blocked.then(|| cause(more).unwrap_or(Cause::Other)) }
            }
            6 => What::Exec { tid, caller: other },
            7 => What::Arrived { tid },
            8 => What::Why { tid, cause: cause(detail.into())? },
            9 => What::Lost { count: other },
            SAMPLE if detail == 0 => What::Sample { tid, waiting: None },
            SAMPLE => What::Sample { tid, waiting: Some(Waiting::ALL.get(usize::from(detail) - 1).copied()?) },
            _ => return None,
        })
    }

    /// Encodes an event.
    #[must_use]
    pub fn new(t_ns: u64, cpu: u16, what: What) -> TraceEvent {
        let byte = |cause: Option<Cause>| u32::from(cause.map_or(NO_CAUSE, |cause| cause as u8));
        let (kind, tid, other, detail, more) = match what {
            What::Switch { out, left, out_is_member, into, in_is_member, in_cause } => {
                let (state, blocked_by, yielded) = match left {
                    Left::Preempted { yielded } => (State::Preempt, None, yielded),
                    Left::Blocked(cause) => (State::Blocked, cause, false),
                    Left::Dead => (State::Dead, None, false),
                };
                let flag = |is: bool, flag: u32| if is { flag } else { 0 };
                let flags = flag(out_is_member, MEMBER_OUT) | flag(in_is_member, MEMBER_IN) | flag(yielded, YIELDED);
                (1, out, into, state as u8, byte(blocked_by) | byte(in_cause) << 8 | flags)
            }
            What::Waking { tid, waker, last_cpu } => (2, tid, waker, 0, last_cpu.into()),
            What::Migration { tid, from, kind } => (3, tid, 0, kind as u8, from.into()),
            What::Born { tid, tgid, parent_tgid } => (4, tid, tgid, 0, parent_tgid),
            What::Enrolled { tid, tgid, blocked } => {
                let state = if blocked.is_some() { State::Blocked } else { State::Unseen };
                (5, tid, tgid, state as u8, byte(blocked))
            }
            What::Exec { tid, caller } => (6, tid, caller, 0, 0),
            What::Arrived { tid } => (7, tid, 0, 0, 0),
            What::Why { tid, cause } => (8, tid, 0, cause as u8, 0),
            What::Lost { count } => (9, 0, count, 0, 0),
            What::Sample { tid, waiting } => (SAMPLE, tid, 0, waiting.map_or(0, |waiting| waiting as u8 + 1), 0),
        };
        TraceEvent { t_ns, tid, other, cpu, kind, detail, more }
    }

    /// Makes a sample that found thread `tid` running at the code place number `place`. Whether threads spin at this place is determined only at the
    /// end of the session. Until the sample is [`resolved`](TraceEvent::resolved), [`what`](TraceEvent::what) returns `None` for it.
    #[must_use]
    pub fn sampled(t_ns: u64, tid: u32, place: u32) -> TraceEvent {
        TraceEvent { t_ns, tid, other: place, cpu: 0, kind: SAMPLE, detail: UNRESOLVED, more: 0 }
    }

    /// Returns the sample with its result from `waits`. For each code place, by number, `waits` has the reason for spinning there; `None` means that
    /// threads work there. Other events are returned unchanged.
    #[must_use]
    pub fn resolved(self, waits: &[Option<Waiting>]) -> TraceEvent {
        if self.kind != SAMPLE || self.detail != UNRESOLVED {
            return self;
        }
        match waits.get(self.other as usize) {
            Some(waiting) => TraceEvent::new(self.t_ns, self.cpu, What::Sample { tid: self.tid, waiting: *waiting }),
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_was_meant() {
        let switch =
            |left, in_cause| What::Switch { out: 7, left, out_is_member: true, into: 0, in_is_member: false, in_cause };
        let all = [
            switch(Left::Preempted { yielded: true }, None),
            switch(Left::Preempted { yielded: false }, Some(Cause::Futex)),
            switch(Left::Blocked(Some(Cause::Disk)), None),
            switch(Left::Blocked(None), Some(Cause::Unspecified)),
            switch(Left::Dead, None),
            What::Waking { tid: 1, waker: 2, last_cpu: 7 },
            What::Migration { tid: 1, from: 1023, kind: Migration::WhileQueued },
            What::Born { tid: 3, tgid: 2, parent_tgid: 1 },
            What::Enrolled { tid: 3, tgid: 2, blocked: None },
            What::Enrolled { tid: 3, tgid: 2, blocked: Some(Cause::Poll) },
            What::Exec { tid: 2, caller: 3 },
            What::Arrived { tid: 9 },
            What::Why { tid: 9, cause: Cause::Network },
            What::Lost { count: 1_000_000 },
            What::Sample { tid: 9, waiting: None },
            What::Sample { tid: 9, waiting: Some(Waiting::Yield) },
        ];
        for what in all {
            let trace_event = TraceEvent::new(5, 3, what);
            assert_eq!((trace_event.what(), trace_event.t_ns, trace_event.cpu), (Some(what), 5, 3));
        }
    }

    #[test]
    fn a_sample_says_something_once_its_place_is_known() {
        let sample = TraceEvent::sampled(5, 9, 1);
        assert_eq!(sample.what(), None);
        let resolved = sample.resolved(&[None, Some(Waiting::OpenMp)]);
        assert_eq!(resolved.what(), Some(What::Sample { tid: 9, waiting: Some(Waiting::OpenMp) }));
        assert_eq!((sample.resolved(&[None]), resolved.resolved(&[None, None])), (sample, resolved));
    }

    #[test]
    fn an_unknown_kind_says_nothing() {
        assert_eq!(TraceEvent { kind: 99, ..TraceEvent::default() }.what(), None);
        assert_eq!(TraceEvent { kind: 1, detail: 2, ..TraceEvent::default() }.what(), None);
        assert_eq!(TraceEvent { kind: 3, detail: 200, ..TraceEvent::default() }.what(), None);
    }
}
