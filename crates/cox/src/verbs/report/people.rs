//! Who is who to perf: threads as its `timehist` numbers and names them.
//!
//! perf goes by the ids that a record was made on, which are -1 when the thread has been reaped already, and by names that its own records tell.

use std::collections::HashMap;

use ledger::timehist::{Left, Line, Timehist, Who};
use perfdata::event::Raw;
use perfdata::{Comm, Event, Kind};
use wire::layout::comm_text;

/// Names with their ids are cut to this by perf.
const LONGEST: usize = 31;

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    pid: i32,
    /// The thread that made it; -1: not told.
    pub parent: i32,
    comm: Comm,
}

/// All of them, and what `timehist` says of them.
pub struct People {
    /// The rule, and its sums.
    pub hist: Timehist,
    present: HashMap<i32, Person>,
    /// Those whose ids were used again, in order.
    past: HashMap<i32, Vec<Person>>,
}

impl People {
    /// Nobody yet.
    pub fn new(hist: Timehist) -> People {
        People { hist, present: HashMap::new(), past: HashMap::new() }
    }

    /// Takes an event; a switch makes a line.
    pub fn take(&mut self, event: &Event) -> Option<Line> {
        match event.kind {
            Kind::Comm { pid, tid, comm, .. } => {
                self.meet(pid.cast_signed(), tid.cast_signed()).comm = comm;
            }
            Kind::Fork { pid, parent_pid, tid, parent } => {
                let comm = self.meet(parent_pid.cast_signed(), parent.cast_signed()).comm;
                let (pid, tid) = (pid.cast_signed(), tid.cast_signed());
                let had_a_line = self.hist.born(tid.cast_unsigned());
                let person = Person { pid, parent: parent.cast_signed(), comm };
                let before = self.present.insert(tid, person);
                if let Some(before) = before.filter(|_| had_a_line) {
                    self.past.entry(tid).or_default().push(before);
                }
            }
            Kind::Waking { tid, comm, .. } => {
                let person = self.meet(0, tid.cast_signed());
                // Text tells no names but those in events.
                if person.pid <= 0 && person.comm[0] == 0 {
                    person.comm = comm;
                }
                self.hist.woken(event.t_ns, tid);
            }
            Kind::Migration { tid, .. } => self.hist.migrated(tid),
            Kind::Switch { prev, prev_comm, raw, .. } => {
                let who = if prev == 0 {
                    Who::Idle(event.cpu)
                } else {
                    let tid = if event.tid == 0 { event.pid } else { event.tid };
                    let person = self.meet(event.pid, tid);
                    if person.comm[0] == 0 && tid.cast_unsigned() == prev {
                        person.comm = prev_comm;
                    }
                    Who::Thread(tid)
                };
                let left = match raw {
                    Raw::Running => Left::Running,
                    Raw::Preempted => Left::Marked,
                    Raw::Uninterruptible => Left::Uninterruptible,
                    Raw::Other => Left::Other,
                };
                return Some(self.hist.switched(event.t_ns, event.cpu, who, left));
            }
            _ => {}
        }
        None
    }

    fn meet(&mut self, pid: i32, tid: i32) -> &mut Person {
        let new = Person { pid, parent: -1, comm: Comm::default() };
        let person = self.present.entry(tid).or_insert(new);
        if person.pid == -1 {
            person.pid = pid;
        }
        person
    }

    /// Who had this id as the n-th of those that had a line.
    pub fn person(&self, tid: i32, nth: usize) -> Option<&Person> {
        self.past.get(&tid).and_then(|past| past.get(nth)).or_else(|| self.present.get(&tid))
    }

    /// `name[tid/pid]`.
    pub fn name(&self, who: Who, nth: usize) -> String {
        let Who::Thread(tid) = who else { return "<idle>".to_owned() };
        let person = self.person(tid, nth);
        let comm = match person {
            Some(Person { comm, .. }) if comm[0] != 0 => comm_text(comm),
            _ => format!(":{tid}"),
        };
        let mut name = match person.map_or(-1, |person| person.pid) {
            pid if pid <= 0 || pid == tid => format!("{comm}[{tid}]"),
            pid => format!("{comm}[{tid}/{pid}]"),
        };
        let end = name.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST).last().unwrap_or(0);
        if name.len() > LONGEST {
            name.truncate(end);
        }
        name
    }

    /// The one that has the id now.
    pub fn name_now(&self, who: Who) -> String {
        self.name(who, usize::MAX)
    }
}
