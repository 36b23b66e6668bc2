//! Scheduler events → clocks (the threads' time accounts), for backends that do not keep clocks in the kernel.
//!
//! 1. [`Replay::push`] takes events in any order and holds them back.
//! 2. [`Replay::advance`] states that all events before a given time have been pushed. The buffered events before that time are applied in order of
//!    time; events of the same time in order of arrival. Events arrive ordered per CPU only, so a caller that reads all CPUs' buffers may advance to the
//!    earliest of the buffers' last times.
//! 3. [`Replay::finish`] applies the rest and closes the open clocks.
//!
//! An event that arrives after the replay has advanced beyond its time is still applied. If it is older than the start of the thread's present state,
//! it takes effect at that start.
//!
//! Events are attributed to threads as follows:
//! - The first event of an unknown thread id starts a clock, as for a thread that was found alive. If the thread's process never becomes known, the
//!   thread is reported as a process of its own.
//! - A creation under a known id starts a new clock, because ids are reused. Exception: if an event of an unknown thread id started the clock, the
//!   creation was seen too late, and only completes that clock.
//! - After a thread's death, a switch-in under its id also belongs to a new thread, whose creation was lost. Other events of dead threads are
//!   counted as impossible and otherwise ignored.
//! - After `exec` one thread of the process remains, under the id of the main thread. The clock of the calling thread continues under that id; the
//!   clocks of all other threads end at their last event.
//!
//! A thread ends at its last switch-out. If that is not reported (perf stops at the exit), it ends at its exit. The time between a thread's last
//! event and the start of a later thread with the same id belongs to neither of them.
//!
//! If a backend has no wakings, `blocked` includes the wake delay; `wakeups` still counts the ends of blocks.

mod cpus;
mod sort_buffer;

use std::collections::BTreeSet;

use cpus::Cpus;
use foldhash::HashMap;
use sort_buffer::SortBuffer;
use wire::cells::Levels;
use wire::layout::EXECED;
use wire::{CPU_SLOTS, Cause, Clock, Event, EventKind, Interval, LatencyCount, Left, Pair, PairSum, State};

use crate::close::closed;
use crate::latency::{Closed, Kept};
use crate::stretch::{Before, Stretch};
use crate::transition;

/// One thread, reconstructed from its events.
#[derive(Clone, Debug)]
struct Thread {
    clock: Clock,
    /// True if an event of an unknown thread id started the clock: the thread's creation and process are not known.
    implied: bool,
    /// True after the thread's exit; a last switch-out may follow.
    exited: bool,
    /// The CPU on which the thread runs, if the switch-in was seen.
    on: Option<u16>,
    /// Number of the thread in this replay, from 0. It distinguishes threads that had the same id.
    life: u32,
}

impl Thread {
    /// Creates a thread and starts its clock. With `alive`, the thread existed before it was first seen; otherwise it is created now. `lives` is the
    /// number of threads so far.
    fn new(tid: u32, t_ns: u64, alive: bool, lives: &mut u32) -> Thread {
        let mut clock = Clock { tid, ..Clock::default() };
        let start = if alive { transition::enrolled } else { transition::born };
        start(&mut clock, t_ns);
        *lives += 1;
        Thread { clock, implied: true, exited: false, on: None, life: *lives - 1 }
    }

    fn state(&self) -> State {
        State::from_wire(self.clock.state)
    }

    fn runs_on(&self, cpu: u16) -> bool {
        self.state() == State::Run && self.on == Some(cpu)
    }

    fn is_dead(&self) -> bool {
        self.state() == State::Dead
    }

    /// Marks the thread as dead since its last event.
    fn end(&mut self, levels: &mut Levels) {
        if self.state() == State::Run {
            levels.leave(self.clock.since_ns);
        }
        self.clock.state = State::Dead as u8;
    }

    /// Applies the thread's exit. An exiting thread is running, whatever state its clock has. Its CPU is known only if the switch-in was seen.
    /// Returns the time slice that the exit ends.
    fn exit(&mut self, t_ns: u64) -> Closed {
        let slice = (self.state() == State::Run).then_some((Interval::Slice, t_ns.saturating_sub(self.clock.since_ns)));
        if self.state() != State::Run {
            transition::switch_out(&mut self.clock, t_ns, State::Run, 0, false, 0, 0);
            self.clock.slot = CPU_SLOTS as u16;
        }
        self.clock = closed(&self.clock, t_ns);
        self.exited = true;
        [slice, None]
    }
}

/// Converts events into clocks (the threads' time accounts); see the module's header.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    sort_buffer: SortBuffer,
    arrivals: u64,
    present: HashMap<u32, Thread>,
    past: Vec<Thread>,
    /// Ids of the threads that each process has now, by process id.
    members: HashMap<u32, BTreeSet<u32>>,
    pairs: HashMap<Pair, PairSum>,
    cpus: Cpus,
    lives: u32,
    /// How long 1, 2, 3, … threads ran at the same time.
    levels: Levels,
    /// The stretches (intervals in which a thread had one state) since the last call of `take_stretches`; `None` if they are not wanted.
    stretches: Option<Vec<Stretch>>,
    /// Histograms of interval lengths, if wanted.
    latencies: Option<Kept>,
}

impl Replay {
    /// Creates a replay without events.
    pub fn new() -> Replay {
        Replay::default()
    }

    /// Creates a replay without events that also keeps each thread's stretches (intervals in one state) until they are
    /// [taken](Replay::take_stretches).
    pub fn with_stretches() -> Replay {
        Replay { stretches: Some(Vec::new()), ..Replay::default() }
    }

    /// Makes the replay keep histograms of interval lengths: for all threads together and, if `of_threads`, for each thread.
    #[must_use]
    pub fn with_latencies(self, of_threads: bool) -> Replay {
        Replay { latencies: Some(Kept::new(of_threads)), ..self }
    }

    /// Returns the histograms of interval lengths; none without [`with_latencies`](Replay::with_latencies).
    pub fn latencies(&self) -> Vec<LatencyCount> {
        self.latencies.as_ref().map_or(Vec::new(), Kept::counts)
    }

    /// Returns the stretches (intervals in which a thread had one state) that ended since the last call. Those of one thread are in order of time,
    /// and leave no gap from the thread's creation on.
    pub fn take_stretches(&mut self) -> Vec<Stretch> {
        self.stretches.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes an event.
    pub fn push(&mut self, event: Event) {
        self.sort_buffer.push(event);
        self.arrivals += 1;
    }

    /// Applies all events before `until_ns`; the caller must have pushed them. Calls with an earlier `until_ns` than before do nothing.
    pub fn advance(&mut self, until_ns: u64) {
        let mut due = self.sort_buffer.take_until(until_ns);
        for event in due.drain(..) {
            self.apply(event);
        }
        self.sort_buffer.give_back(due);
    }

    /// Returns for how long 1, 2, 3, … threads ran at the same time, from the events applied so far. If an event shows that a thread's run time since
    /// its switch-in is in fact unknown, this time is subtracted again. It is subtracted from the time for the number of threads that run now,
    /// although another number may have run then.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Returns the number of events taken so far.
    pub fn events(&self) -> u64 {
        self.arrivals
    }

    /// Returns what [`finish`](Replay::finish) would return if the window ended at `end_ns`, without ending the replay. It produces no stretches.
    pub fn snapshot(&self, end_ns: u64) -> Vec<Clock> {
        Replay { stretches: None, ..self.clone() }.finish(end_ns)
    }

    /// Applies everything up to and including `end_ns`, drops later events, and returns one clock per thread, closed at `end_ns`, in order of
    /// creation. The clock of a thread that still lived at `end_ns` has a state other than `Dead`.
    pub fn finish(&mut self, end_ns: u64) -> Vec<Clock> {
        self.advance(end_ns.saturating_add(1));
        self.sort_buffer.clear();
        self.members.clear();
        let past = std::mem::take(&mut self.past);
        let mut present: Vec<_> = std::mem::take(&mut self.present).into_values().collect();
        // The last stretches are produced in a fixed order, so that two readings of a recording give the same result.
        present.sort_by_key(|thread| (thread.clock.born_ns, thread.clock.tid));
        let mut clocks: Vec<Clock> = past
            .into_iter()
            .chain(present)
            .map(|mut thread| {
                if thread.exited {
                    thread.end(&mut self.levels);
                }
                if thread.clock.tgid == 0 {
                    thread.clock.tgid = thread.clock.tid;
                }
                let before = Before::of(&thread.clock);
                thread.clock = closed(&thread.clock, end_ns);
                tell(&mut self.stretches, &before, &thread);
                thread.clock
            })
            .collect();
        clocks.sort_by_key(|c| (c.born_ns, c.tid, c.since_ns));
        clocks
    }

    /// Returns, for each pair of waker and woken thread, the number of wake-ups and the total blocked time that they ended. Only the trace events
    /// applied so far count.
    pub fn pairs(&self) -> Vec<(Pair, PairSum)> {
        let mut pairs: Vec<_> = self.pairs.iter().map(|(pair, sum)| (*pair, *sum)).collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        pairs
    }

    fn apply(&mut self, event: Event) {
        let Event { t_ns, tid, kind } = event;
        match kind {
            EventKind::Born { tgid, parent_tgid } => {
                self.newcomer(tid, t_ns, tgid, false).clock.parent_tgid = parent_tgid;
            }
            EventKind::Enrolled { tgid, blocked } => {
                let clock = &mut self.newcomer(tid, t_ns, tgid, true).clock;
                if let Some(cause) = blocked.filter(|_| clock.state == State::Unseen as u8) {
                    clock.state = State::Blocked as u8;
                    clock.cause = cause as u8;
                }
            }
            EventKind::Waking { waker } => self.waking(tid, t_ns, waker),
            EventKind::Why { cause } => {
                let thread = self.present.get_mut(&tid).filter(|thread| thread.state() == State::Blocked);
                thread.into_iter().for_each(|thread| thread.clock.cause = cause as u8);
            }
            EventKind::In { cpu } => {
                if self.present.get(&tid).is_some_and(|thread| thread.is_dead() && t_ns >= thread.clock.since_ns) {
                    self.retire(tid);
                }
                self.comes(tid, t_ns, cpu);
            }
            EventKind::Had { cpu } => self.had(tid, t_ns, cpu),
            EventKind::Out { left } => self.leaves(tid, t_ns, |thread| {
                let (state, cause, yielded) = match left {
                    Left::Preempted { yielded } => (State::Preempt, 0, yielded),
                    // If this event does not contain the cause of the block, a later event, at the end of the block, contains it.
                    Left::Blocked(cause) if !thread.exited => {
                        (State::Blocked, cause.unwrap_or(Cause::Other) as u8, false)
                    }
                    Left::Blocked(_) | Left::Dead => (State::Dead, 0, false),
                };
                let closed = transition::switch_out(&mut thread.clock, t_ns, state, cause, yielded, 0, 0);
                // If the exit was applied before this switch-out, it has already ended the last time slice.
                if thread.exited { Closed::default() } else { closed }
            }),
            EventKind::Migrated { cpu, kind } => {
                if let Some(thread) = self.living(tid, t_ns) {
                    transition::moved(&mut thread.clock, cpu, kind);
                }
            }
            EventKind::Named { comm, exec } => {
                if exec {
                    self.alone_after_exec(tid, None);
                }
                if let Some(thread) = self.living(tid, t_ns) {
                    thread.clock.comm = comm_bytes(&comm);
                    thread.clock.flags |= if exec { EXECED } else { 0 };
                }
            }
            EventKind::Exec { caller } => {
                self.alone_after_exec(tid, Some(caller));
                self.living(tid, t_ns).into_iter().for_each(|thread| thread.clock.flags |= EXECED);
            }
            EventKind::Exit => {
                // If the last switch-out was seen before the exit, the thread is dead already, and its exit changes nothing.
                let over = self.present.get(&tid).is_some_and(|thread| thread.is_dead() || thread.exited);
                if !over {
                    self.leaves(tid, t_ns, |thread| thread.exit(t_ns));
                }
            }
        }
    }

    /// Applies a switch-in.
    fn comes(&mut self, tid: u32, t_ns: u64, cpu: u16) {
        self.had(tid, t_ns, cpu);
        self.change(tid, t_ns, |thread| {
            thread.on = Some(cpu);
            transition::switch_in(&mut thread.clock, t_ns, cpu, 0, 0)
        });
        if let Some(given_ns) = self.overlap_ns(tid) {
            self.correct(tid, t_ns, |thread| transition::came_later(&mut thread.clock, given_ns));
        }
        self.cpus.come(cpu, tid);
    }

    /// Finds time that is attributed to two threads. Returns the time up to which the CPU of the running thread `tid` was held by other threads, if
    /// this is later than the thread's switch-in; otherwise `None`.
    fn overlap_ns(&mut self, tid: u32) -> Option<u64> {
        let thread = self.present.get(&tid).filter(|thread| thread.state() == State::Run)?;
        let given_ns = self.cpus.given_until_ns(thread.on?);
        (thread.clock.since_ns < given_ns).then_some(given_ns)
    }

    /// Called when an event proves that thread `tid` has run on `cpu` until now. If another thread was thought to be on this CPU, or this thread on
    /// another CPU, records that a switch-out is missing. The table in `cpus` lists the cases.
    fn had(&mut self, tid: u32, t_ns: u64, cpu: u16) {
        if let Some(other) = self.cpus.held_by_other(cpu, tid) {
            self.contradict(other, t_ns, cpu);
        }
        let elsewhere = self.present.get(&tid).and_then(|thread| thread.on).filter(|on| *on != cpu);
        if let Some(on) = elsewhere {
            self.contradict(tid, t_ns, on);
        }
    }

    /// Records that a thread has left a CPU at an unknown time, because its switch-out is missing.
    fn contradict(&mut self, tid: u32, t_ns: u64, cpu: u16) {
        self.cpus.gone(cpu, tid);
        if self.present.get(&tid).is_some_and(|thread| thread.runs_on(cpu)) {
            self.correct(tid, t_ns, |thread| {
                transition::contradicted(&mut thread.clock, t_ns);
                thread.on = None;
            });
        }
    }

    /// Applies a switch-out or an exit, and records that this thread held its CPU until now.
    fn leaves(&mut self, tid: u32, t_ns: u64, book: impl FnOnce(&mut Thread) -> Closed) {
        if self.present.get(&tid).is_some_and(|thread| thread.state() == State::Run && thread.on.is_none()) {
            // The thread counts as running, but its switch-in was not seen, only its exit. So it is not known on which CPU it ran, and the time since
            // its last event becomes unknown.
            self.correct(tid, t_ns, |thread| transition::unseen_since(&mut thread.clock, t_ns));
        }
        if let Some(given_ns) = self.overlap_ns(tid) {
            self.correct(tid, t_ns, |thread| transition::came_later(&mut thread.clock, given_ns.min(t_ns)));
        }
        self.change(tid, t_ns, book);
        let Some(thread) = self.present.get_mut(&tid) else { return };
        let Some(cpu) = thread.on else { return };
        self.cpus.give(cpu, thread.clock.since_ns);
        // A thread that has exited still counts as running: it has its CPU until its last switch-out.
        if thread.state() != State::Run {
            thread.on = None;
            self.cpus.gone(cpu, tid);
        }
    }

    /// Corrects a living thread's clock if events contradict each other or are missing. No interval length is counted in the histograms.
    fn correct(&mut self, tid: u32, t_ns: u64, book: impl FnOnce(&mut Thread)) {
        self.change(tid, t_ns, |thread| {
            book(thread);
            Closed::default()
        });
    }

    /// Applies an event to a living thread, and keeps the stretches (intervals in one state) that the event ends.
    fn change(&mut self, tid: u32, t_ns: u64, book: impl FnOnce(&mut Thread) -> Closed) {
        let Some(thread) = self.living(tid, t_ns) else { return };
        let before = Before::of(&thread.clock);
        let closed = book(thread);
        // The thread is looked up again: `living` borrowed all of `self`, and the next lines use other fields.
        if let Some(thread) = self.present.get_mut(&tid) {
            tell(&mut self.stretches, &before, thread);
            before.count(&thread.clock, &mut self.levels);
            self.latencies.iter_mut().for_each(|kept| kept.take(&mut thread.clock, closed));
        }
    }

    /// Returns the thread of an event. If the thread is dead, counts the event as impossible and returns `None`.
    fn living(&mut self, tid: u32, t_ns: u64) -> Option<&mut Thread> {
        let lives = &mut self.lives;
        let thread = self.present.entry(tid).or_insert_with(|| Thread::new(tid, t_ns, true, lives));
        if thread.is_dead() {
            thread.clock.impossible = thread.clock.impossible.wrapping_add(1);
            return None;
        }
        Some(thread)
    }

    /// Ends the thread of this id at its last event, and moves it to `past`.
    fn retire(&mut self, tid: u32) {
        if let Some(mut thread) = self.leave(tid) {
            thread.end(&mut self.levels);
            self.past.push(thread);
        }
    }

    fn leave(&mut self, tid: u32) -> Option<Thread> {
        let thread = self.present.remove(&tid)?;
        if let Some(members) = self.members.get_mut(&thread.clock.tgid) {
            members.remove(&tid);
        }
        Some(thread)
    }

    /// Adds a thread of process `tgid`. With `alive`, the thread existed before it was first seen; otherwise it is created now. If the id has a clock
    /// that can be this thread's, that clock is kept.
    fn newcomer(&mut self, tid: u32, t_ns: u64, tgid: u32, alive: bool) -> &mut Thread {
        let known = match self.present.get(&tid) {
            Some(thread) if !thread.is_dead() && !thread.exited && (thread.implied || alive) => self.leave(tid),
            _ => None,
        };
        let mut thread = known.unwrap_or_else(|| {
            self.retire(tid);
            Thread::new(tid, t_ns, alive, &mut self.lives)
        });
        thread.implied = false;
        thread.clock.tgid = tgid;
        self.members.entry(tgid).or_default().insert(tid);
        self.present.entry(tid).insert_entry(thread).into_mut()
    }

    /// Records a waking. If it ends a block, adds the block to the sums of this pair of waker and woken thread. Only the first waking after a
    /// switch-out ends a block.
    fn waking(&mut self, tid: u32, t_ns: u64, waker: u32) {
        let Some(thread) = self.living(tid, t_ns) else { return };
        let clock = &mut thread.clock;
        let ends_block = !transition::is_woken(clock);
        transition::waking(clock, t_ns);
        if ends_block && transition::is_woken(clock) {
            let blocked_ns = t_ns - clock.since_ns;
            let sum = self.pairs.entry(Pair { waker, wakee: tid }).or_default();
            sum.count += 1;
            // Saturates, because in a damaged recording each of several threads with this id may be blocked for centuries.
            sum.blocked_ns = sum.blocked_ns.saturating_add(blocked_ns);
        }
    }

    /// Applies `exec`: one thread of the process remains, under the process id `leader`. The remaining thread is the caller or, if the caller is
    /// unknown, the thread that was running.
    fn alone_after_exec(&mut self, leader: u32, caller: Option<u32>) {
        let runs =
            |tid: &u32| self.present.get(tid).is_some_and(|thread| thread.state() == State::Run && !thread.exited);
        let lives = |tid: &u32| self.present.get(tid).is_some_and(|thread| !thread.is_dead() && !thread.exited);
        // Removes the dead threads too. Otherwise, if a process calls exec repeatedly, the code below would go through them each time.
        let members = self.members.remove(&leader).unwrap_or_default();
        let others: Vec<u32> = members.into_iter().filter(|tid| *tid != leader && lives(tid)).collect();
        let caller = match caller {
            Some(caller) => others.iter().copied().find(|tid| *tid == caller),
            None => others.iter().copied().find(|tid| !runs(&leader) && runs(tid)),
        };
        for tid in others {
            if let Some(thread) = self.present.get_mut(&tid).filter(|_| Some(tid) != caller) {
                thread.end(&mut self.levels);
            }
        }
        if let Some(mut thread) = caller.and_then(|tid| self.leave(tid)) {
            self.retire(leader);
            thread.clock.tid = leader;
            if let Some(cpu) = thread.on {
                self.cpus.come(cpu, leader);
            }
            self.present.insert(leader, thread);
        }
        if self.present.get(&leader).is_some_and(|thread| thread.clock.tgid == leader) {
            self.members.entry(leader).or_default().insert(leader);
        }
    }
}

/// Appends the stretches (intervals in one state) that ended when the thread's clock changed from `before` to its present values, if stretches are
/// wanted.
fn tell(stretches: &mut Option<Vec<Stretch>>, before: &Before, thread: &Thread) {
    if let Some(stretches) = stretches {
        stretches.extend(before.stretches(&thread.clock, thread.life));
    }
}

/// Converts a name to the kernel's form: at most 15 bytes and a NUL.
fn comm_bytes(comm: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(comm.bytes().take_while(|b| *b != 0)) {
        *to = from;
    }
    bytes
}

#[cfg(test)]
mod tests;
