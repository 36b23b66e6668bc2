//! Preemptors: the threads that held the CPUs that tracked threads waited for.
//!
//! The times are thread time: if two tracked threads wait one second behind the same thread, that is two seconds. Each nanosecond of waiting is
//! booked once, for the holder of the CPU on which the thread was queued: another tracked thread (sibling), a thread of cox itself (cox), any other
//! thread (other), or no thread (idle: the CPU was leaving its idle state, or a quota held the thread back).
//!
//! The BPF programs book the waiting when the holder leaves the CPU. For a thread that still holds a CPU at the end of the window, this module books
//! the waiting since its switch-in: the increase of the CPU's thread-time cell (`wire/include/cox/cells.h`). If that thread is untracked, its name is
//! not known, and the waiting is counted as lost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wire::layout::comm_text;
use wire::{CpuKind, Record, cells};

use super::cpus::open_ns;
use super::life::Life;
use super::thread::inside_or_host;
use crate::account::{Preemptor, PreemptorKind};

/// Name of the idle CPU in the report.
const IDLE: &str = "idle";

/// Preemptors of one kind with the same name.
#[derive(Default)]
struct Name {
    threads: u64,
    wait_ns: u64,
    /// The thread of this name for which tracked threads waited longest: the time waited, and the thread's id.
    most: (u64, u32),
}

/// Preemptors by name.
#[derive(Default)]
struct Names(BTreeMap<String, Name>);

impl Names {
    fn add(&mut self, comm: String, tid: u32, wait_ns: u64) {
        if wait_ns == 0 {
            return;
        }
        let name = self.0.entry(comm).or_default();
        name.threads += 1;
        name.wait_ns = name.wait_ns.saturating_add(wait_ns);
        if wait_ns > name.most.0 {
            name.most = (wait_ns, tid);
        }
    }

    fn listed(self, kind: PreemptorKind) -> impl Iterator<Item = Preemptor> {
        let took = move |(comm, name): (String, Name)| {
            let (tid, host_tid) = inside_or_host(name.most.1);
            Preemptor { comm, tid, host_tid, threads: name.threads, kind, wait_ns: name.wait_ns }
        };
        self.0.into_iter().map(took)
    }
}

/// Time for which threads have waited, at the end of the window, for a CPU that is idle or held by an untracked thread. (Waiting for a CPU that a
/// tracked thread holds is added to that thread's clock.)
#[derive(Default)]
pub(super) struct Open {
    idle_ns: u64,
    /// Time waited for CPUs that untracked threads hold, whose names are not known.
    pub(super) nameless_ns: u64,
}

/// Adds the time for which threads have waited, at the end of the window, for a CPU that is still held: to the holder's clock if a tracked thread
/// holds the CPU, otherwise to [`Open`].
pub(super) fn close(record: &Record, lives: &mut [Life<'_>]) -> Open {
    let mut open = Open::default();
    for (number, cpu) in record.cpus.iter().enumerate() {
        let Some((kind, span_ns)) = open_ns(cpu, record.end_ns) else { continue };
        let now_ns = cells::thread_time_ns(cpu.waiting, record.end_ns);
        // Upper limit: all tracked threads waited for this CPU during the whole of its present state. A larger value must be wrong.
        let took_ns = cells::since_ns(now_ns, cpu.wait_mark).min(span_ns.saturating_mul(lives.len() as u64));
        let holder = lives.iter_mut().find(|life| life.on_cpu.map(usize::from) == Some(number));
        match (kind, holder) {
            (CpuKind::Idle, _) => open.idle_ns += took_ns,
            (CpuKind::Ours, Some(holder)) => holder.clock.to_mut().took_ns += took_ns,
            _ => open.nameless_ns += took_ns,
        }
    }
    open
}

/// Returns the preemptors; those for which tracked threads waited longest come first.
pub(super) fn of(record: &Record, lives: &[Life<'_>], open: &Open) -> Vec<Preemptor> {
    let mut siblings = Names::default();
    for Life { clock, .. } in lives {
        siblings.add(clock.comm(), clock.tid, clock.took_ns);
    }
    let (mut cox, mut others) = (Names::default(), Names::default());
    for (tid, preemptor) in &record.preemptors {
        let names = if record.own_processes.contains(&preemptor.tgid) { &mut cox } else { &mut others };
        names.add(comm_text(&preemptor.comm), *tid, preemptor.wait_ns);
    }
    let idle_ns = record.cpus.iter().fold(open.idle_ns, |sum, cpu| sum.saturating_add(cpu.took_idle_ns));
    let idle = Preemptor { comm: IDLE.to_owned(), kind: PreemptorKind::Idle, wait_ns: idle_ns, ..Preemptor::default() };

    let untracked = cox.listed(PreemptorKind::Cox).chain(others.listed(PreemptorKind::Other));
    let mut took: Vec<Preemptor> = siblings.listed(PreemptorKind::Sibling).chain(untracked).chain([idle]).collect();
    took.retain(|preemptor| preemptor.wait_ns > 0);
    took.sort_by(|a, b| (Reverse(a.wait_ns), &a.comm, a.tid).cmp(&(Reverse(b.wait_ns), &b.comm, b.tid)));
    took
}
