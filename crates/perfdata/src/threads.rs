//! Converts perf's events to [`TraceEvent`]s and keeps the threads' names and processes.
//!
//! perf records the whole machine, so every thread except the idle threads counts as tracked. The result cannot contain
//! what perf does not record:
//!
//! - A thread that existed before the recording is tracked from its first event on. The time before that event is unknown.
//! - The reason for a block is unknown, except for stopped threads. State D can be a disk, a kernel lock or a page
//!   fault.
//! - The reason for a migration is derived: if the thread was blocked, the wake-up chose the CPU; otherwise the load
//!   balancer or the affinity mask did.
//! - A thread's process is known only from perf's own records (FORK, COMM). If the recording has only the scheduler's
//!   tracepoints, the thread counts as its own process.
//!
//! Some kernels lose switches *from* the idle task, on some CPUs all of them. A thread is then switched out without a
//! recorded switch-in. `sched_stat_runtime` reports the run time that the scheduler charged to the thread, and the
//! time of the switch-in (the thread's *arrival*) is calculated from it. Without that event, this time is unknown.

use foldhash::HashMap;
use wire::{Left, Migration, TraceEvent, What};

use crate::event::{Comm, Event, Kind};

/// State of a thread, as far as perf reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum ThreadState {
    /// No event of the thread has been read yet.
    #[default]
    Unmet,
    Newborn,
    Running,
    Runnable,
    Blocked,
    Dead,
}

/// One of the threads that had the same id, one after another.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    born_ns: u64,
    /// Process id; 0 if unknown.
    tgid: u32,
    comm: Comm,
}

/// All threads that had one id, one after another, and the state of the latest.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// The threads that had this id, in order of start time; see [`Entry::begin`].
    lives: Vec<Life>,
    state: ThreadState,
    cpu: u16,
    /// Time of the thread's last event, nanoseconds.
    since_ns: u64,
    /// Run time that the scheduler charged to the thread since its last switch, nanoseconds.
    ran_ns: u64,
}

impl Entry {
    fn life(&mut self) -> &mut Life {
        if self.lives.is_empty() {
            self.lives.push(Life::default());
        }
        let last = self.lives.len() - 1;
        &mut self.lives[last]
    }

    /// Adds the next thread with this id. A late event may report that the thread started before the previous thread
    /// with this id. In that case, the new thread gets the previous thread's start time, so that the list stays sorted.
    /// To insert it further ahead instead would take quadratic time in a file that consists of late events.
    fn begin(&mut self, life: Life) {
        let last_ns = self.lives.last().map_or(0, |last| last.born_ns);
        self.lives.push(Life { born_ns: life.born_ns.max(last_ns), ..life });
    }

    fn name(&mut self, comm: Comm) {
        self.life().comm = comm;
    }

    fn enter(&mut self, state: ThreadState, t_ns: u64, cpu: u16) {
        (self.state, self.since_ns, self.cpu, self.ran_ns) = (state, t_ns, cpu, 0);
    }
}

/// All threads of a recording.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    by_tid: HashMap<u32, Entry>,
    /// The highest CPU number of all trace events, plus one.
    pub cpus: u32,
    /// Number of switch-ins that were not recorded and were derived from the charged run time.
    pub recovered: u64,
    /// Whether the first scheduler event was seen.
    has_begun: bool,
}

impl Threads {
    /// Returns the thread's name in the kernel's form: 16 bytes, padded with NUL.
    #[must_use]
    pub fn comm(&self, tid: u32, born_ns: u64) -> Comm {
        self.life(tid, born_ns).map_or([0; 16], |life| life.comm)
    }

    fn life(&self, tid: u32, born_ns: u64) -> Option<&Life> {
        let lives = &self.by_tid.get(&tid)?.lives;
        // Binary search: a file may reuse an id as often as it has records.
        let later = lives.partition_point(|life| life.born_ns <= born_ns);
        lives.get(later.saturating_sub(1))
    }

    /// Converts one perf event, and passes the resulting trace events to `hand_on`. Trace events are in order of time, with one exception: if a
    /// switch-in was not recorded, its time is calculated at the switch-out. Its trace event is passed on only then.
    pub fn take(&mut self, event: &Event, mut hand_on: impl FnMut(TraceEvent)) {
        let mut cpus = self.cpus;
        self.tell(event, |trace_event| {
            cpus = cpus.max(u32::from(trace_event.cpu) + 1);
            hand_on(trace_event);
        });
        self.cpus = cpus;
    }

    fn tell(&mut self, event: &Event, mut hand_on: impl FnMut(TraceEvent)) {
        let Event { t_ns, .. } = *event;
        let cpu = small(event.cpu);
        self.has_begun |= event.kind.is_of_scheduler();
        let mut say = |t_ns, cpu, what| hand_on(TraceEvent::new(t_ns, cpu, what));
        match event.kind {
            Kind::Comm { pid, tid, comm, exec } => {
                let entry = self.by_tid.entry(tid).or_default();
                entry.name(comm);
                entry.life().tgid = pid;
                if exec && !matches!(entry.state, ThreadState::Unmet | ThreadState::Dead) {
                    say(t_ns, cpu, What::Exec { tid, caller: tid });
                }
            }
            Kind::Fork { pid, parent_pid, tid, parent } => {
                let comm = self.by_tid.get(&parent).and_then(|entry| entry.lives.last()).map(|life| life.comm);
                if t_ns == 0 || !self.has_begun {
                    let life = self.by_tid.entry(tid).or_default().life();
                    *life = Life { tgid: pid, comm: comm.unwrap_or(life.comm), ..*life };
                } else {
                    self.born(t_ns, cpu, tid, Life { born_ns: t_ns, tgid: pid, comm: comm.unwrap_or_default() });
                    say(t_ns, cpu, What::Born { tid, tgid: pid, parent_tgid: parent_pid });
                }
            }
            Kind::Forked { parent, child, comm } => {
                let is_known = self.by_tid.get(&child).is_some_and(|entry| entry.state == ThreadState::Newborn);
                if !is_known {
                    self.born(t_ns, cpu, child, Life { born_ns: t_ns, tgid: 0, comm });
                    say(t_ns, cpu, What::Born { tid: child, tgid: child, parent_tgid: self.process(parent) });
                }
            }
            Kind::Waking { tid, comm, is_new, by_interrupt } => {
                let state = self.by_tid.get(&tid).map_or(ThreadState::Unmet, |entry| entry.state);
                if is_new {
                    if state != ThreadState::Newborn {
                        self.born(t_ns, cpu, tid, Life { born_ns: t_ns, tgid: 0, comm });
                        say(t_ns, cpu, What::Born { tid, tgid: tid, parent_tgid: 0 });
                    }
                } else if state != ThreadState::Dead {
                    let waker = if by_interrupt { 0 } else { u32::try_from(event.tid).unwrap_or(0) };
                    let entry = self.meet(t_ns, cpu, tid, &mut say);
                    if entry.lives.last().is_none_or(|life| life.comm[0] == 0) {
                        entry.name(comm);
                    }
                    entry.since_ns = t_ns;
                    say(t_ns, cpu, What::Waking { tid, waker, last_cpu: entry.cpu });
                }
            }
            Kind::Migration { tid, from, to } => {
                if self.by_tid.get(&tid).is_some_and(|entry| entry.state == ThreadState::Dead) {
                    return;
                }
                let entry = self.meet(t_ns, cpu, tid, &mut say);
                let kind = match entry.state {
                    ThreadState::Blocked | ThreadState::Newborn => Migration::AtWakeup,
                    _ => Migration::WhileQueued,
                };
                entry.cpu = small(to);
                say(t_ns, small(to), What::Migration { tid, from: small(from), kind });
            }
            Kind::Ran { tid, run_ns } => {
                if let Some(entry) = self.by_tid.get_mut(&tid) {
                    entry.ran_ns = entry.ran_ns.saturating_add(run_ns);
                }
            }
            Kind::Switch { prev, prev_comm, left, next, next_comm, .. } => {
                if prev != 0 {
                    let entry = self.meet(t_ns, cpu, prev, &mut say);
                    entry.name(prev_comm);
                    let is_away =
                        matches!(entry.state, ThreadState::Blocked | ThreadState::Runnable | ThreadState::Newborn);
                    let is_recovered = is_away && entry.ran_ns > 0;
                    if is_recovered {
                        let arrived_ns = t_ns.saturating_sub(entry.ran_ns).max(entry.since_ns);
                        say(arrived_ns, cpu, What::Arrived { tid: prev });
                    }
                    let state = match left {
                        Left::Preempted { .. } => ThreadState::Runnable,
                        Left::Blocked(_) => ThreadState::Blocked,
                        Left::Dead => ThreadState::Dead,
                    };
                    entry.enter(state, t_ns, cpu);
                    self.recovered += u64::from(is_recovered);
                }
                if next != 0 {
                    let entry = self.meet(t_ns, cpu, next, &mut say);
                    entry.name(next_comm);
                    entry.enter(ThreadState::Running, t_ns, cpu);
                }
                let (out_is_member, in_is_member) = (prev != 0, next != 0);
                let what = What::Switch { out: prev, left, out_is_member, into: next, in_is_member, in_cause: None };
                say(t_ns, cpu, what);
            }
            Kind::Execed { tid, caller } => say(t_ns, cpu, What::Exec { tid, caller }),
            Kind::Lost { count } => say(t_ns, cpu, What::Lost { count: u32::try_from(count).unwrap_or(u32::MAX) }),
            // Not passed on: the thread's last switch reports its end.
            Kind::Exited { .. } | Kind::Exit { .. } => {}
        }
    }

    /// Returns the process of a thread, or the thread's own id if the process is unknown.
    fn process(&self, tid: u32) -> u32 {
        let told = self.by_tid.get(&tid).and_then(|entry| entry.lives.last()).map_or(0, |life| life.tgid);
        if told == 0 { tid } else { told }
    }

    fn born(&mut self, t_ns: u64, cpu: u16, tid: u32, life: Life) {
        let entry = self.by_tid.entry(tid).or_default();
        // The id has had no event so far, so an earlier record is about the same thread, not about a previous thread with
        // this id.
        if entry.state == ThreadState::Unmet {
            entry.lives.clear();
        }
        entry.begin(life);
        entry.enter(ThreadState::Newborn, t_ns, cpu);
    }

    /// Returns the entry of this thread id. If this is the thread's first event, first reports the thread as tracked (`What::Enrolled`).
    fn meet(&mut self, t_ns: u64, cpu: u16, tid: u32, say: &mut impl FnMut(u64, u16, What)) -> &mut Entry {
        let entry = self.by_tid.entry(tid).or_default();
        if matches!(entry.state, ThreadState::Unmet | ThreadState::Dead) {
            if entry.state == ThreadState::Dead {
                entry.begin(Life { born_ns: t_ns, ..Life::default() });
            }
            let told = entry.life().tgid;
            say(t_ns, cpu, What::Enrolled { tid, tgid: if told == 0 { tid } else { told }, blocked: None });
            // A thread counts as running until a switch tells its real state.
            entry.enter(ThreadState::Running, t_ns, cpu);
        }
        entry
    }
}

/// Converts a CPU number to the 16 bits that a trace event has for it. Larger numbers become 65,535.
fn small(cpu: u32) -> u16 {
    u16::try_from(cpu).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
