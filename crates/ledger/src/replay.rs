//! Scheduler events → clocks, for backends that do not keep clocks in the kernel.
//!
//! 1. [`Replay::push`] takes events in any order and holds them back.
//! 2. [`Replay::advance`] says that everything before a time is in: what is held from before it is
//!    applied in time order, equal times in order of arrival. Events come ordered per CPU only, so a
//!    caller that reads all CPUs' buffers may advance to the earliest of their last times.
//! 3. [`Replay::finish`] applies the rest and closes what is open.
//!
//! An event that arrives after its time was passed is still applied, late; the clock clamps what that
//! does to time, and [`Replay::late`] counts it.
//!
//! Who an event belongs to:
//! - An unknown thread id starts a clock like that of a thread enrolled alive. If its process never
//!   becomes known, the thread is reported as a process of its own.
//! - A birth under an id that is known starts a new clock: ids are reused. It only completes a clock
//!   that was itself started by an event of an unknown thread, whose birth was seen too late.
//! - A switch-in of a dead thread, after its death, is also a new thread whose birth was lost. Other
//!   events of the dead are late copies and are counted as impossible.
//! - After `exec` one thread of the process is left, under the id of the first. The clock of the
//!   thread that called it goes on under that id; those of all others end at their last event.
//!
//! A thread ends at its last switch-out, or at its exit where that is not reported (perf stops with
//! the exit). Nothing is guessed about the time between a thread's last event and a later thread of
//! the same id.
//!
//! A backend without wakings leaves `blocked` undivided: it includes the wake delay, and `wakeups`
//! still counts the ends of blocks.

mod cpus;
mod held;

use std::collections::BTreeSet;

use foldhash::HashMap;
use wire::layout::EXECED;
use wire::{CPU_SLOTS, Clock, Event, EventKind, Off, Pair, PairSum, State};

use crate::close::closed;
use crate::stretch::{Before, Stretch};
use crate::transition;
use cpus::Cpus;
use held::Held;

/// One thread as its events tell it.
#[derive(Clone, Debug)]
struct Thread {
    clock: Clock,
    /// Started by an event of an unknown thread: birth and process are not known.
    implied: bool,
    /// Has left by exit; a last switch-out may follow.
    exited: bool,
    /// The CPU it has, where its arrival was seen.
    on: Option<u16>,
    /// Tells lives apart that had the same id.
    life: u32,
}

impl Thread {
    fn implied(tid: u32, t_ns: u64, lives: &mut u32) -> Thread {
        let mut clock = Clock { tid, ..Clock::default() };
        transition::enrolled(&mut clock, t_ns);
        Thread { clock, implied: true, exited: false, on: None, life: next(lives) }
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

    /// Ends the thread at its last event.
    fn end(&mut self) {
        self.clock.state = State::Dead as u8;
    }

    /// A thread that exits is running, whatever was seen of it before; where is known only if its
    /// switch-in was seen.
    fn exit(&mut self, t_ns: u64) {
        if self.state() != State::Run {
            transition::switch_out(&mut self.clock, t_ns, State::Run, 0, false, 0, 0);
            self.clock.slot = CPU_SLOTS as u16;
        }
        self.clock = closed(&self.clock, t_ns);
        self.exited = true;
    }
}

fn next(lives: &mut u32) -> u32 {
    *lives += 1;
    *lives - 1
}

/// Turns events into clocks; see the module's header.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    held: Held,
    arrivals: u64,
    passed_ns: u64,
    late: u64,
    present: HashMap<u32, Thread>,
    past: Vec<Thread>,
    /// Present threads by process.
    members: HashMap<u32, BTreeSet<u32>>,
    pairs: HashMap<Pair, PairSum>,
    cpus: Cpus,
    lives: u32,
    /// What threads have done since the last look, where that is wanted.
    stretches: Option<Vec<Stretch>>,
}

impl Replay {
    /// Nothing seen yet.
    pub fn new() -> Replay {
        Replay::default()
    }

    /// Nothing seen yet; what each thread does is kept until it is [taken](Replay::take_stretches).
    pub fn with_stretches() -> Replay {
        Replay { stretches: Some(Vec::new()), ..Replay::default() }
    }

    /// What threads have done: each thread's stretches in order, without gaps from its birth on, told when they end.
    pub fn take_stretches(&mut self) -> Vec<Stretch> {
        self.stretches.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes an event.
    pub fn push(&mut self, event: Event) {
        if event.t_ns < self.passed_ns {
            self.late += 1;
        }
        self.held.push(event);
        self.arrivals += 1;
    }

    /// All events before `until_ns` have been pushed. Going back changes nothing.
    pub fn advance(&mut self, until_ns: u64) {
        let mut due = self.held.take_until(until_ns);
        for event in due.drain(..) {
            self.apply(event);
        }
        self.held.give_back(due);
        self.passed_ns = self.passed_ns.max(until_ns);
    }

    /// Events taken so far.
    pub fn events(&self) -> u64 {
        self.arrivals
    }

    /// Events that arrived after [`advance`](Replay::advance) had passed their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Yields what [`finish`](Replay::finish) would if the window ended at `end_ns`, and goes on. Nothing of it is told as stretches.
    pub fn snapshot(&self, end_ns: u64) -> Vec<Clock> {
        Replay { stretches: None, ..self.clone() }.finish(end_ns)
    }

    /// Applies everything up to and including `end_ns`, drops what came after the window, and yields
    /// one clock per thread, closed at `end_ns`, in order of birth. A thread that was still there
    /// has a state other than `Dead`.
    pub fn finish(&mut self, end_ns: u64) -> Vec<Clock> {
        self.advance(end_ns.saturating_add(1));
        self.held.clear();
        self.members.clear();
        let past = std::mem::take(&mut self.past);
        let mut present: Vec<_> = std::mem::take(&mut self.present).into_values().collect();
        // Their last stretches are told in an order of their own, so that two readings of a recording are the same.
        present.sort_by_key(|thread| (thread.clock.born_ns, thread.clock.tid));
        let mut clocks: Vec<Clock> = past
            .into_iter()
            .chain(present)
            .map(|mut thread| {
                if thread.exited {
                    thread.end();
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

    /// Who ended whose blocks, how often and how long, from the wakings applied so far.
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
            EventKind::Out { off } => self.leaves(tid, t_ns, |thread| {
                let (state, cause, yielded) = match off {
                    Off::Preempted { yielded } => (State::Preempt, 0, yielded),
                    Off::Blocked(cause) if !thread.exited => (State::Blocked, cause as u8, false),
                    Off::Blocked(_) | Off::Dead => (State::Dead, 0, false),
                };
                transition::switch_out(&mut thread.clock, t_ns, state, cause, yielded, 0, 0);
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
                // The last switch-out may have been seen first.
                let over = self.present.get(&tid).is_some_and(|thread| thread.is_dead() || thread.exited);
                if !over {
                    self.leaves(tid, t_ns, |thread| thread.exit(t_ns));
                }
            }
        }
    }

    /// Switched in.
    fn comes(&mut self, tid: u32, t_ns: u64, cpu: u16) {
        self.had(tid, t_ns, cpu);
        self.change(tid, t_ns, |thread| {
            transition::switch_in(&mut thread.clock, t_ns, cpu, 0, 0);
            thread.on = Some(cpu);
        });
        if let Some(given_ns) = self.overlap_ns(tid) {
            self.change(tid, t_ns, |thread| transition::came_later(&mut thread.clock, given_ns));
        }
        self.cpus.come(cpu, tid);
    }

    /// Until when the CPU of a running thread is another one's, where that is after its arrival.
    fn overlap_ns(&mut self, tid: u32) -> Option<u64> {
        let thread = self.present.get(&tid).filter(|thread| thread.state() == State::Run)?;
        let given_ns = self.cpus.given_until_ns(thread.on?);
        (thread.clock.since_ns < given_ns).then_some(given_ns)
    }

    /// Only this thread can have had the CPU until now, and no other CPU. (`cpus` has the table.)
    fn had(&mut self, tid: u32, t_ns: u64, cpu: u16) {
        if let Some(other) = self.cpus.held_by_other(cpu, tid) {
            self.contradict(other, t_ns, cpu);
        }
        let elsewhere = self.present.get(&tid).and_then(|thread| thread.on).filter(|on| *on != cpu);
        if let Some(on) = elsewhere {
            self.contradict(tid, t_ns, on);
        }
    }

    /// A thread that came to a CPU is not there any more.
    fn contradict(&mut self, tid: u32, t_ns: u64, cpu: u16) {
        self.cpus.gone(cpu, tid);
        if self.present.get(&tid).is_some_and(|thread| thread.runs_on(cpu)) {
            self.change(tid, t_ns, |thread| {
                transition::contradicted(&mut thread.clock, t_ns);
                thread.on = None;
            });
        }
    }

    /// Switched out, or ended: what it had of its CPU's time is given to it.
    fn leaves(&mut self, tid: u32, t_ns: u64, book: impl FnOnce(&mut Thread)) {
        if self.present.get(&tid).is_some_and(|thread| thread.state() == State::Run && thread.on.is_none()) {
            // Since its exit; where it ran is not known.
            self.change(tid, t_ns, |thread| transition::unseen_since(&mut thread.clock, t_ns));
        }
        if let Some(given_ns) = self.overlap_ns(tid) {
            self.change(tid, t_ns, |thread| transition::came_later(&mut thread.clock, given_ns.min(t_ns)));
        }
        self.change(tid, t_ns, book);
        let Some(thread) = self.present.get_mut(&tid) else { return };
        let Some(cpu) = thread.on else { return };
        self.cpus.give(cpu, thread.clock.since_ns);
        // One that exits has its CPU until its last switch.
        if thread.state() != State::Run {
            thread.on = None;
            self.cpus.gone(cpu, tid);
        }
    }

    /// Books an event of a living thread, and what the thread did until then.
    fn change(&mut self, tid: u32, t_ns: u64, book: impl FnOnce(&mut Thread)) {
        let Some(thread) = self.living(tid, t_ns) else { return };
        let before = Before::of(&thread.clock);
        book(thread);
        // Looked up again: what is told is another part of self.
        if let Some(thread) = self.present.get(&tid) {
            tell(&mut self.stretches, &before, thread);
        }
    }

    /// The thread an event belongs to; `None`, and counted as impossible, when it is dead.
    fn living(&mut self, tid: u32, t_ns: u64) -> Option<&mut Thread> {
        let lives = &mut self.lives;
        let thread = self.present.entry(tid).or_insert_with(|| Thread::implied(tid, t_ns, lives));
        if thread.is_dead() {
            thread.clock.impossible = thread.clock.impossible.wrapping_add(1);
            return None;
        }
        Some(thread)
    }

    /// Moves the thread of this id to the past, ended at its last event.
    fn retire(&mut self, tid: u32) {
        if let Some(mut thread) = self.leave(tid) {
            thread.end();
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

    /// A birth in process `tgid`, or (`alive`) a first meeting.
    fn newcomer(&mut self, tid: u32, t_ns: u64, tgid: u32, alive: bool) -> &mut Thread {
        let known = match self.present.get(&tid) {
            Some(thread) if !thread.is_dead() && !thread.exited && (thread.implied || alive) => self.leave(tid),
            _ => None,
        };
        let mut thread = known.unwrap_or_else(|| {
            self.retire(tid);
            let mut clock = Clock { tid, ..Clock::default() };
            if alive {
                transition::enrolled(&mut clock, t_ns);
            } else {
                transition::born(&mut clock, t_ns);
            }
            Thread { clock, implied: false, exited: false, on: None, life: next(&mut self.lives) }
        });
        thread.implied = false;
        thread.clock.tgid = tgid;
        self.members.entry(tgid).or_default().insert(tid);
        self.present.entry(tid).insert_entry(thread).into_mut()
    }

    /// Books a waking, and who ended how long a block: the first waking after a switch-out does.
    fn waking(&mut self, tid: u32, t_ns: u64, waker: u32) {
        let Some(thread) = self.living(tid, t_ns) else { return };
        let clock = &mut thread.clock;
        let ends_block = !transition::is_woken(clock);
        transition::waking(clock, t_ns);
        if ends_block && transition::is_woken(clock) {
            let blocked_ns = t_ns - clock.since_ns;
            let sum = self.pairs.entry(Pair { waker, wakee: tid }).or_default();
            sum.count += 1;
            // Of an id that was used again, each of its threads may claim centuries.
            sum.blocked_ns = sum.blocked_ns.saturating_add(blocked_ns);
        }
    }

    /// `exec` left one thread of the process, under the process's id `leader`: the one that asked for it, or that ran.
    fn alone_after_exec(&mut self, leader: u32, caller: Option<u32>) {
        let runs =
            |tid: &u32| self.present.get(tid).is_some_and(|thread| thread.state() == State::Run && !thread.exited);
        let lives = |tid: &u32| self.present.get(tid).is_some_and(|thread| !thread.is_dead() && !thread.exited);
        // The dead go as well: who calls exec again and again does not meet them each time.
        let members = self.members.remove(&leader).unwrap_or_default();
        let others: Vec<u32> = members.into_iter().filter(|tid| *tid != leader && lives(tid)).collect();
        let caller = match caller {
            Some(caller) => others.iter().copied().find(|tid| *tid == caller),
            None => others.iter().copied().find(|tid| !runs(&leader) && runs(tid)),
        };
        for tid in others {
            if let Some(thread) = self.present.get_mut(&tid).filter(|_| Some(tid) != caller) {
                thread.end();
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

/// What a thread did between two states of its clock, to whoever wants to know.
fn tell(stretches: &mut Option<Vec<Stretch>>, before: &Before, thread: &Thread) {
    if let Some(stretches) = stretches {
        stretches.extend(before.stretches(&thread.clock, thread.life));
    }
}

/// A name as the kernel keeps it: at most 15 bytes and a NUL.
fn comm_bytes(comm: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(comm.bytes().take_while(|b| *b != 0)) {
        *to = from;
    }
    bytes
}

#[cfg(test)]
mod tests;
