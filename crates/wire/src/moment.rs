//! What happened when: the record of a trace, byte for byte (`include/cox/moment.h`).

use std::mem::{offset_of, size_of};

use bytemuck::{Pod, Zeroable};

use crate::{Cause, Migration, State, Waiting};

/// CPUs that a recording tells of, at most: those that a Linux kernel can be built for (`NR_CPUS_RANGE_END` of `arch/x86/Kconfig`). What is said to
/// have been on others is damaged: traces and pictures have room for each CPU up to the highest. perf records on all of them;
/// [`MAX_CPUS`](crate::MAX_CPUS) is what BPF has room for.
pub const MOST_CPUS: u32 = 8192;
/// No clock shows more: half of what fits, 290 years. Sums of two times are made in many places, so readers of files take no later one.
pub const LATEST_NS: u64 = u64::MAX / 2;

/// One thing that happened, as BPF tells it and files keep it. [`Moment::what`] says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Moment {
    /// When, on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// To whom.
    pub tid: u32,
    /// Who else.
    pub other: u32,
    /// Where.
    pub cpu: u16,
    /// What: a number of `enum cox_moment_kind`.
    pub kind: u8,
    /// How.
    pub detail: u8,
    /// And more.
    pub more: u32,
}

/// Moments of a CPU that found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Gap {
    /// The first of them.
    pub since_ns: u64,
    /// How many.
    pub count: u64,
}

const _: () = {
    assert!(size_of::<Moment>() == 24 && offset_of!(Moment, kind) == 18);
    assert!(size_of::<Gap>() == 16);
};

/// How a thread stands when it leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Runnable.
    Preempted {
        /// By sched_yield.
        yielded: bool,
    },
    /// Not runnable. The cause is told, if that is known only later, by the switch that ends the block.
    Blocked(Option<Cause>),
    /// For good.
    Dead,
}

/// What a [`Moment`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One thread leaves a CPU, another comes; 0: the idle task.
    Switch {
        /// Who leaves.
        out: u32,
        /// How.
        left: Left,
        /// Whether it is one of ours.
        out_is_member: bool,
        /// Who comes.
        into: u32,
        /// Whether it is one of ours.
        in_is_member: bool,
        /// By what it was blocked until now, if it was.
        in_cause: Option<Cause>,
    },
    /// A thread is woken.
    Waking {
        /// Who.
        tid: u32,
        /// By whom; 0: an interrupt, the idle task, or not seen.
        waker: u32,
        /// Where it was last.
        last_cpu: u16,
    },
    /// A thread moves to another CPU.
    Migration {
        /// Who.
        tid: u32,
        /// From which CPU.
        from: u16,
        /// Why.
        kind: Migration,
    },
    /// A new thread.
    Born {
        /// Who.
        tid: u32,
        /// Of which process.
        tgid: u32,
        /// Made by which process.
        parent_tgid: u32,
    },
    /// A thread that was there before.
    Enrolled {
        /// Who.
        tid: u32,
        /// Of which process.
        tgid: u32,
        /// Asleep, as the kernel said, and why.
        blocked: Option<Cause>,
    },
    /// A process runs another program from here on.
    Exec {
        /// Its thread from now on.
        tid: u32,
        /// The thread that asked for it.
        caller: u32,
    },
    /// A thread came to this CPU without being announced; told when it leaves.
    Arrived {
        /// Who.
        tid: u32,
    },
    /// A thread's present block is by this cause.
    Why {
        /// Who.
        tid: u32,
        /// By what.
        cause: Cause,
    },
    /// Moments of this CPU found no room, until its next one.
    Lost {
        /// How many.
        count: u32,
    },
    /// A sample found a thread on a CPU, where it is not said.
    Sample {
        /// Who.
        tid: u32,
        /// Why it spun; `None`: it worked.
        waiting: Option<Waiting>,
    },
}

/// `more` of a switch; see `moment.h`.
const MEMBER_OUT: u32 = 1 << 16;
const MEMBER_IN: u32 = 1 << 17;
const YIELDED: u32 = 1 << 18;

/// The kind of a sample, which is told by cox, and its `detail` until it is known what the thread did.
const SAMPLE: u8 = 10;
const UNRESOLVED: u8 = 0xff;

/// Bytes that stand for no cause.
const NO_CAUSE: u8 = 0xff;

fn cause(byte: u32) -> Option<Cause> {
    Cause::ALL.get(byte as usize & 0xff).copied()
}

impl Moment {
    /// What it says; `None` for a kind, or a state, that this version does not know.
    #[must_use]
    pub fn what(&self) -> Option<What> {
        let Moment { tid, other, detail, more, .. } = *self;
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

    /// A moment that says this.
    #[must_use]
    pub fn new(t_ns: u64, cpu: u16, what: What) -> Moment {
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
        Moment { t_ns, tid, other, cpu, kind, detail, more }
    }

    /// A sample of which it is not known yet whether the thread spun: the code at `place` is read when the session is over. Until
    /// [`resolved`](Moment::resolved) it says nothing.
    #[must_use]
    pub fn sampled(t_ns: u64, tid: u32, place: u32) -> Moment {
        Moment { t_ns, tid, other: place, cpu: 0, kind: SAMPLE, detail: UNRESOLVED, more: 0 }
    }

    /// With what is known of places by now, if it is a sample; others stay as they are.
    #[must_use]
    pub fn resolved(self, waits: &[Option<Waiting>]) -> Moment {
        if self.kind != SAMPLE || self.detail != UNRESOLVED {
            return self;
        }
        match waits.get(self.other as usize) {
            Some(waiting) => Moment::new(self.t_ns, self.cpu, What::Sample { tid: self.tid, waiting: *waiting }),
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
            let moment = Moment::new(5, 3, what);
            assert_eq!((moment.what(), moment.t_ns, moment.cpu), (Some(what), 5, 3));
        }
    }

    #[test]
    fn a_sample_says_something_once_its_place_is_known() {
        let sample = Moment::sampled(5, 9, 1);
        assert_eq!(sample.what(), None);
        let resolved = sample.resolved(&[None, Some(Waiting::OpenMp)]);
        assert_eq!(resolved.what(), Some(What::Sample { tid: 9, waiting: Some(Waiting::OpenMp) }));
        assert_eq!((sample.resolved(&[None]), resolved.resolved(&[None, None])), (sample, resolved));
    }

    #[test]
    fn an_unknown_kind_says_nothing() {
        assert_eq!(Moment { kind: 99, ..Moment::default() }.what(), None);
        assert_eq!(Moment { kind: 1, detail: 2, ..Moment::default() }.what(), None);
        assert_eq!(Moment { kind: 3, detail: 200, ..Moment::default() }.what(), None);
    }
}
