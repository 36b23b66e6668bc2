//! Keeps the list of tracked threads, and turns records into [`Event`]s. Pure.
//!
//! perf records leave some things out. They are handled as follows:
//!
//! * The kernel removes a thread's events when the thread exits, before its last switch-out. EXIT is therefore followed by an `Out { Dead }` of
//!   the same time: the last microseconds are missing.
//! * FORK contains no name, so the new thread gets the creator's name, as in the kernel.
//! * If a thread other than the main thread calls exec, it takes over the main thread's id, and there are no more records of its old id. The main
//!   thread has exited before that. So the next record with the main thread's id is the exec's COMM, or a switch-out during the exec. At that
//!   time, all other threads of the process are dead, and the caller's old id is no longer in use.
//! * A switch of a thread that is not tracked means that its FORK record was lost: the thread is then enrolled.

use std::collections::HashMap;

use wire::{Cause, Event, EventKind, Left};

use super::parse::{Record, Stamp};

#[derive(Debug)]
struct Member {
    tgid: u32,
    comm: String,
    /// True from the thread's exec until the next record about the thread.
    silent_since_exec: bool,
}

/// The tracked threads that are alive according to the records.
#[derive(Debug)]
pub(super) struct Roster {
    children: bool,
    members: HashMap<u32, Member>,
    /// Threads (tgid, tid) for which the record after an exec was EXIT. They may still be alive, without perf's events: see
    /// [`take_hidden`](Roster::take_hidden).
    hidden: Vec<(u32, u32)>,
}

impl Roster {
    /// Makes an empty list. Without `children`, processes that tracked threads create are not tracked.
    pub(super) fn new(children: bool) -> Roster {
        Roster { children, members: HashMap::new(), hidden: Vec::new() }
    }

    /// Returns whether thread `tid` is tracked.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.members.contains_key(&tid)
    }

    /// Returns the threads (tgid, tid), since the last call, for which the record after an exec was EXIT. Either the program ended very soon, or
    /// the thread executes a file that its user may not read. In the second case, the kernel has removed perf's events from the thread, and the
    /// thread is still alive.
    pub(super) fn take_hidden(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.hidden)
    }

    fn hear(&mut self, tid: u32) {
        if let Some(member) = self.members.get_mut(&tid) {
            member.silent_since_exec = false;
        }
    }

    /// Returns the tracked threads as (tgid, tid).
    pub(super) fn members(&self) -> impl Iterator<Item = (u32, u32)> {
        self.members.iter().map(|(tid, member)| (member.tgid, *tid))
    }

    /// Tracks an existing thread from the time `t_ns` on.
    pub(super) fn enrol(&mut self, t_ns: u64, tgid: u32, tid: u32, comm: String, events: &mut Vec<Event>) {
        events.push(Event { t_ns, tid, kind: EventKind::Enrolled { tgid, blocked: None } });
        self.add(t_ns, tgid, tid, comm, events);
    }

    fn add(&mut self, t_ns: u64, tgid: u32, tid: u32, comm: String, events: &mut Vec<Event>) {
        if !comm.is_empty() {
            events.push(Event { t_ns, tid, kind: EventKind::Named { comm: comm.clone(), exec: false } });
        }
        self.members.insert(tid, Member { tgid, comm, silent_since_exec: false });
    }

    /// Removes a tracked thread that has exited.
    pub(super) fn bury(&mut self, t_ns: u64, tid: u32, events: &mut Vec<Event>) {
        if self.members.remove(&tid).is_some() {
            events.push(Event { t_ns, tid, kind: EventKind::Exit });
            events.push(Event { t_ns, tid, kind: EventKind::Out { left: Left::Dead } });
        }
    }

    /// Turns a record into events. Records must come in order of time.
    pub(super) fn apply(&mut self, record: Record, events: &mut Vec<Event>) {
        match record {
            Record::In { at } => {
                self.meet(at, events);
                self.hear(at.tid);
                events.push(Event { t_ns: at.t_ns, tid: at.tid, kind: EventKind::In { cpu: cpu(at) } });
            }
            Record::Out { at, preempted } => {
                self.meet(at, events);
                self.hear(at.tid);
                let left = if preempted {
                    Left::Preempted { yielded: false }
                } else {
                    Left::Blocked(Some(Cause::Unspecified))
                };
                events.push(Event { t_ns: at.t_ns, tid: at.tid, kind: EventKind::Had { cpu: cpu(at) } });
                events.push(Event { t_ns: at.t_ns, tid: at.tid, kind: EventKind::Out { left } });
            }
            Record::Fork { t_ns, pid, tid, ppid, ptid } => {
                if pid == ppid || self.children {
                    let comm = self.members.get(&ptid).map(|parent| parent.comm.clone()).unwrap_or_default();
                    self.born(t_ns, pid, tid, ppid, comm, events);
                }
            }
            Record::Exit { t_ns, tid } => {
                if let Some(member) = self.members.get(&tid).filter(|member| member.silent_since_exec) {
                    self.hidden.push((member.tgid, tid));
                }
                self.bury(t_ns, tid, events);
            }
            Record::Comm { at, pid, tid, comm, exec } => {
                self.meet(Stamp { pid, tid, ..at }, events);
                if let Some(member) = self.members.get_mut(&tid) {
                    member.comm.clone_from(&comm);
                    member.silent_since_exec |= exec;
                }
                events.push(Event { t_ns: at.t_ns, tid, kind: EventKind::Named { comm, exec } });
            }
            Record::Sample { .. }
            | Record::Lost { .. }
            | Record::LostSamples { .. }
            | Record::Throttled
            | Record::Other => {}
        }
    }

    fn born(&mut self, t_ns: u64, tgid: u32, tid: u32, parent_tgid: u32, comm: String, events: &mut Vec<Event>) {
        // Ids are unique, so a tracked thread of this id must have died unnoticed.
        self.bury(t_ns, tid, events);
        events.push(Event { t_ns, tid, kind: EventKind::Born { tgid, parent_tgid } });
        self.add(t_ns, tgid, tid, comm, events);
    }

    fn meet(&mut self, at: Stamp, events: &mut Vec<Event>) {
        if self.has(at.tid) {
            return;
        }
        let others: Vec<u32> = self.members().filter(|(tgid, _)| *tgid == at.pid).map(|(_, tid)| tid).collect();
        if at.tid == at.pid && !others.is_empty() {
            self.exec_by_thread(at, others, events);
        } else {
            self.enrol(at.t_ns, at.pid, at.tid, String::new(), events);
        }
    }

    fn exec_by_thread(&mut self, at: Stamp, others: Vec<u32>, events: &mut Vec<Event>) {
        for other in others {
            self.bury(at.t_ns, other, events);
        }
        self.born(at.t_ns, at.pid, at.tid, at.pid, String::new(), events);
        events.push(Event { t_ns: at.t_ns, tid: at.tid, kind: EventKind::In { cpu: cpu(at) } });
    }
}

fn cpu(at: Stamp) -> u16 {
    u16::try_from(at.cpu).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(t_ns: u64, pid: u32, tid: u32) -> Stamp {
        Stamp { pid, tid, t_ns, cpu: 1 }
    }

    fn fork(t_ns: u64, pid: u32, tid: u32) -> Record {
        Record::Fork { t_ns, pid, tid, ppid: 10, ptid: 10 }
    }

    /// Events of one record, without their times.
    fn apply(roster: &mut Roster, record: Record) -> Vec<(u32, EventKind)> {
        let mut events = Vec::new();
        roster.apply(record, &mut events);
        events.into_iter().map(|event| (event.tid, event.kind)).collect()
    }

    fn with_main(children: bool) -> Roster {
        let mut roster = Roster::new(children);
        roster.enrol(0, 10, 10, "app".to_owned(), &mut Vec::new());
        roster
    }

    fn named(comm: &str, exec: bool) -> EventKind {
        EventKind::Named { comm: comm.to_owned(), exec }
    }

    const HAD: EventKind = EventKind::Had { cpu: 1 };
    const DEAD: EventKind = EventKind::Out { left: Left::Dead };

    #[test]
    fn a_life() {
        let mut roster = with_main(true);
        let born = EventKind::Born { tgid: 10, parent_tgid: 10 };
        assert_eq!(apply(&mut roster, fork(1, 10, 11)), [(11, born), (11, named("app", false))]);
        assert_eq!(apply(&mut roster, Record::In { at: at(2, 10, 11) }), [(11, EventKind::In { cpu: 1 })]);
        let blocked = EventKind::Out { left: Left::Blocked(Some(Cause::Unspecified)) };
        assert_eq!(apply(&mut roster, Record::Out { at: at(3, 10, 11), preempted: false }), [(11, HAD), (11, blocked)]);
        let preempted = EventKind::Out { left: Left::Preempted { yielded: false } };
        assert_eq!(
            apply(&mut roster, Record::Out { at: at(4, 10, 11), preempted: true }),
            [(11, HAD), (11, preempted)]
        );
        assert_eq!(apply(&mut roster, Record::Exit { t_ns: 5, tid: 11 }), [(11, EventKind::Exit), (11, DEAD)]);
        assert!(!roster.has(11));
        assert_eq!(apply(&mut roster, Record::Exit { t_ns: 6, tid: 11 }), [], "nobody dies twice");
    }

    #[test]
    fn child_processes_are_members_if_wanted() {
        let mut with = with_main(true);
        assert_eq!(apply(&mut with, fork(1, 20, 20))[0].1, EventKind::Born { tgid: 20, parent_tgid: 10 });
        let mut without = with_main(false);
        assert_eq!(apply(&mut without, fork(1, 20, 20)), []);
        assert_eq!(apply(&mut without, fork(1, 10, 11)).len(), 2, "threads still are");
    }

    #[test]
    fn names_are_kept_for_threads_to_come() {
        let mut roster = with_main(true);
        let comm = Record::Comm { at: at(1, 10, 10), pid: 10, tid: 10, comm: "solver".to_owned(), exec: true };
        assert_eq!(apply(&mut roster, comm), [(10, named("solver", true))]);
        assert_eq!(apply(&mut roster, fork(2, 10, 11))[1], (11, named("solver", false)));
    }

    #[test]
    fn an_exec_by_another_thread_takes_the_main_threads_id() {
        let taken_over = [
            (11, EventKind::Exit),
            (11, DEAD),
            (10, EventKind::Born { tgid: 10, parent_tgid: 10 }),
            (10, EventKind::In { cpu: 1 }),
        ];
        let comm = || Record::Comm { at: at(4, 10, 10), pid: 10, tid: 10, comm: "next".to_owned(), exec: true };
        let new_name = [(10, named("next", true))];
        for preempted_before in [false, true] {
            let mut roster = with_main(true);
            apply(&mut roster, fork(1, 10, 11));
            apply(&mut roster, Record::Exit { t_ns: 2, tid: 10 });
            if preempted_before {
                let out = [(10, HAD), (10, EventKind::Out { left: Left::Preempted { yielded: false } })];
                let first = apply(&mut roster, Record::Out { at: at(3, 10, 10), preempted: true });
                assert_eq!(first, [&taken_over[..], &out].concat());
                assert_eq!(apply(&mut roster, comm()), new_name);
            } else {
                assert_eq!(apply(&mut roster, comm()), [&taken_over[..], &new_name[..]].concat());
            }
            assert_eq!(roster.members().collect::<Vec<_>>(), [(10, 10)]);
        }
    }

    #[test]
    fn lost_records_are_made_up_for() {
        let mut roster = with_main(true);
        let met = apply(&mut roster, Record::In { at: at(1, 10, 12) });
        assert_eq!(met, [(12, EventKind::Enrolled { tgid: 10, blocked: None }), (12, EventKind::In { cpu: 1 })]);
        let again: Vec<EventKind> = apply(&mut roster, fork(2, 10, 12)).into_iter().map(|(_, kind)| kind).collect();
        let born = EventKind::Born { tgid: 10, parent_tgid: 10 };
        assert_eq!(again, [EventKind::Exit, DEAD, born, named("app", false)]);
    }
}
