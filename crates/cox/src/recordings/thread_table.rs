//! Thread table with the ids and names that `perf sched timehist` prints.
//!
//! perf uses the ids in the header of a record, which are -1 if the thread has been reaped already, and the names from its own records.

use std::collections::HashMap;

use ledger::timehist::{Left, Line, Timehist, Who};
use perfdata::event::Raw;
use perfdata::{Comm, Event, Kind};
use wire::layout::comm_text;

/// perf cuts a name with its ids to this length.
const LONGEST: usize = 31;

/// A thread as perf knows it.
#[derive(Clone, Copy, Debug)]
pub struct KnownThread {
    pid: i32,
    /// True if perf's own record (PERF_RECORD_FORK) reported the thread's creation, and the tracepoint `sched_process_fork` has not reported it yet.
    is_told: bool,
    /// True if a perf record set the name. Otherwise the name comes from the thread's latest event.
    is_named: bool,
    /// The creating thread; -1 if not known.
    pub parent: i32,
    comm: Comm,
}

/// All threads, and the `timehist` figures of each.
pub struct ThreadTable {
    /// Computes the figures of `timehist` by the chosen version's rule, and holds their sums.
    pub hist: Timehist,
    present: HashMap<i32, KnownThread>,
    /// Previous threads whose id was reused, in order.
    past: HashMap<i32, Vec<KnownThread>>,
}

impl ThreadTable {
    /// Creates the table with thread 0, which perf calls `swapper` until a record gives another name (`perf_session__register_idle_thread`).
    pub fn new(hist: Timehist) -> ThreadTable {
        let mut name = Comm::default();
        name[..7].copy_from_slice(b"swapper");
        let zero = KnownThread { pid: 0, is_told: false, is_named: true, parent: -1, comm: name };
        ThreadTable { hist, present: HashMap::from([(0, zero)]), past: HashMap::new() }
    }

    /// Processes an event. If it is a context switch, returns the line that `timehist` prints for it.
    pub fn take(&mut self, event: &Event) -> Option<Line> {
        match event.kind {
            Kind::Comm { pid, tid, comm, .. } => {
                let thread = self.meet(pid.cast_signed(), tid.cast_signed());
                (thread.comm, thread.is_named) = (comm, true);
            }
            Kind::Fork { pid, parent_pid, tid, parent } => {
                let comm = self.meet(parent_pid.cast_signed(), parent.cast_signed()).comm;
                let parent = parent.cast_signed();
                self.born(
                    tid.cast_signed(),
                    KnownThread { pid: pid.cast_signed(), is_told: true, is_named: true, parent, comm },
                );
            }
            Kind::Forked { parent, child, comm } => {
                let (child, parent) = (child.cast_signed(), parent.cast_signed());
                // If a perf record and the tracepoint both report the creation, the record comes first, and perf uses the record.
                let known = self.present.get_mut(&child).filter(|thread| thread.is_told);
                match known {
                    Some(thread) => thread.is_told = false,
                    None => self.born(child, KnownThread { pid: -1, is_told: false, is_named: false, parent, comm }),
                }
            }
            Kind::Waking { tid, comm, .. } => {
                let thread = self.meet(0, tid.cast_signed());
                // Text of `perf script` has no records with thread names, so the thread gets the name in the event.
                if thread.pid <= 0 && thread.comm[0] == 0 {
                    thread.comm = comm;
                }
                self.hist.woken(event.t_ns, tid);
            }
            Kind::Migration { tid, .. } => self.hist.migrated(tid),
            Kind::Switch { prev, prev_comm, raw, .. } => {
                let who = if prev == 0 {
                    Who::Idle(event.cpu)
                } else {
                    let tid = if event.tid == 0 { event.pid } else { event.tid };
                    let thread = self.meet(event.pid, tid);
                    let is_text = thread.pid <= 0 && !thread.is_named;
                    if (thread.comm[0] == 0 || is_text) && tid.cast_unsigned() == prev {
                        thread.comm = prev_comm;
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

    /// Adds a new thread with this id. The previous thread with the same id is kept if an output line names it.
    fn born(&mut self, tid: i32, thread: KnownThread) {
        let had_a_line = self.hist.born(tid.cast_unsigned());
        let before = self.present.insert(tid, thread);
        if let Some(before) = before.filter(|_| had_a_line) {
            self.past.entry(tid).or_default().push(before);
        }
    }

    fn meet(&mut self, pid: i32, tid: i32) -> &mut KnownThread {
        let new = KnownThread { pid, is_told: false, is_named: false, parent: -1, comm: Comm::default() };
        let thread = self.present.entry(tid).or_insert(new);
        if thread.pid == -1 {
            thread.pid = pid;
        }
        thread
    }

    /// Returns the n-th thread, from 0, that had this id. Only threads for which `timehist` prints a line are counted.
    pub fn thread(&self, tid: i32, nth: usize) -> Option<&KnownThread> {
        self.past.get(&tid).and_then(|past| past.get(nth)).or_else(|| self.present.get(&tid))
    }

    /// Returns `name[tid/pid]`. If the PID namespace of the recording does not show the thread, its ids are 0 and the result is the name alone, as in
    /// perf.
    pub fn name(&self, who: Who, nth: usize) -> String {
        let Who::Thread(tid) = who else { return "<idle>".to_owned() };
        let thread = self.thread(tid, nth);
        let comm = match thread {
            Some(KnownThread { comm, .. }) if comm[0] != 0 => comm_text(comm),
            _ => format!(":{tid}"),
        };
        let mut name = match thread.map_or(-1, |thread| thread.pid) {
            0 => comm,
            pid if pid < 0 || pid == tid => format!("{comm}[{tid}]"),
            pid => format!("{comm}[{tid}/{pid}]"),
        };
        let end = name.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST).last().unwrap_or(0);
        if name.len() > LONGEST {
            name.truncate(end);
        }
        name
    }

    /// Returns the name of the thread that has the id now.
    pub fn name_now(&self, who: Who) -> String {
        self.name(who, usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use ledger::timehist::Rule;
    use wire::Left as How;

    use super::*;

    fn comm(name: &str) -> Comm {
        let mut comm = Comm::default();
        comm[..name.len()].copy_from_slice(name.as_bytes());
        comm
    }

    fn switch(t_ns: u64, tid: i32, name: &str) -> Event {
        let (prev, prev_comm) = (tid.cast_unsigned(), comm(name));
        let kind =
            Kind::Switch { prev, prev_comm, left: How::Dead, raw: Raw::Other, next: 0, next_comm: comm("swapper") };
        Event { t_ns, cpu: 0, pid: -1, tid, kind }
    }

    fn names(events: &[Event]) -> Vec<String> {
        let mut thread_table = ThreadTable::new(Timehist::new(Rule::Perf61));
        for event in events {
            let _line = thread_table.take(event);
        }
        let mut met = HashMap::<Who, usize>::new();
        let mut nth = |who| {
            let nth = met.entry(who).or_default();
            *nth += 1;
            *nth - 1
        };
        thread_table.hist.sums().iter().map(|(who, _)| thread_table.name(*who, nth(*who))).collect()
    }

    #[test]
    fn an_id_that_is_used_again_has_the_name_of_the_later_thread() {
        let forked = |t_ns| {
            let kind = Kind::Forked { parent: 5, child: 7, comm: comm("parent") };
            Event { t_ns, cpu: 0, pid: -1, tid: 5, kind }
        };
        // As text tells it.
        let text = [switch(10, 7, "early"), forked(20), switch(30, 7, "late")];
        assert_eq!(names(&text), ["early[7]", "late[7]"]);
        // As perf's own records do, too: once is enough.
        let fork = |t_ns| {
            let kind = Kind::Fork { pid: 6, parent_pid: 5, tid: 7, parent: 5 };
            Event { t_ns, cpu: 0, pid: -1, tid: 5, kind }
        };
        let named = |t_ns, name| {
            let kind = Kind::Comm { pid: 6, tid: 7, comm: comm(name), exec: true };
            Event { t_ns, cpu: 0, pid: 6, tid: 7, kind }
        };
        let first = [fork(1), forked(2), named(3, "early"), switch(10, 7, "early")];
        let again = [fork(20), forked(21), named(22, "late"), switch(30, 7, "late"), switch(40, 7, "late")];
        assert_eq!(names(&[&first[..], &again].concat()), ["early[7/6]", "late[7/6]"]);
        // A thread of a later life whose record was lost.
        assert_eq!(names(&[&first[..], &[forked(21), switch(30, 7, "late")]].concat()), ["early[7/6]", "late[7]"]);
    }

    #[test]
    fn who_is_outside_of_the_recordings_namespace_has_no_number() {
        let kind = Kind::Comm { pid: 0, tid: 0, comm: comm("cc"), exec: true };
        let named = Event { t_ns: 1, cpu: 0, pid: 0, tid: 0, kind };
        let outside = Event { pid: 0, tid: 0, ..switch(10, 999, "cc") };
        assert_eq!(names(&[named, outside]), ["cc"]);
        assert_eq!(names(&[outside]), ["swapper"], "as perf has it without such a record");
    }
}
