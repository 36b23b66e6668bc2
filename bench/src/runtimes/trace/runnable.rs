//! From what the scheduler did to threads to how often more than one of them wanted a CPU.

use std::collections::HashMap;

use serde::Serialize;

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is runnable, queued at a CPU.
    Woken,
    /// It runs.
    SwitchedIn,
    /// It stays runnable, on the same CPU's queue.
    Preempted,
    /// It is not runnable.
    Blocked,
    /// It is to be on another CPU, runnable or not.
    Moved,
}

/// One thing that the scheduler did.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub ns: u64,
    /// To which thread.
    pub thread: u32,
    /// Where it is from then on.
    pub cpu: u16,
    /// What.
    pub kind: Kind,
    /// The thread gives way to everybody else, so it takes no CPU from anybody.
    pub idle_class: bool,
}

/// How a program used CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// From the first event to the last.
    pub elapsed_ns: u64,
    /// Time in which two threads and more were runnable on a CPU, running or queued, added up over the CPUs.
    pub crowded_ns: u64,
    /// Times that a thread left a CPU.
    pub switches: u64,
    /// … of these, because it blocked.
    pub blocks: u64,
}

impl Usage {
    /// Oversubscription: the share of the CPUs' time in which more than one thread wanted them.
    pub fn oversubscribed(&self, cpus: u32) -> f64 {
        self.crowded_ns as f64 / (self.elapsed_ns as f64 * f64::from(cpus)).max(1.0)
    }
}

/// Threads that are runnable on a CPU, and since when there have been two.
#[derive(Clone, Copy, Default)]
struct Cpu {
    runnable: u32,
    since_ns: u64,
}

/// Goes through events, which may come a little out of order. Switching in says what is true whatever was missed before.
pub fn usage(events: &mut [Event]) -> Usage {
    events.sort_by_key(|event| event.ns);
    let Some((first, last)) = events.first().zip(events.last()) else { return Usage::default() };
    let mut usage = Usage { elapsed_ns: last.ns - first.ns, ..Usage::default() };
    // Where each runnable thread is.
    let mut places: HashMap<u32, u16> = HashMap::new();
    let mut cpus: HashMap<u16, Cpu> = HashMap::new();
    for event in events.iter() {
        usage.switches += u64::from(matches!(event.kind, Kind::Preempted | Kind::Blocked));
        usage.blocks += u64::from(event.kind == Kind::Blocked && !event.idle_class);
        let before = places.get(&event.thread).copied();
        let after = match event.kind {
            _ if event.idle_class => None,
            Kind::Woken | Kind::SwitchedIn | Kind::Preempted => Some(event.cpu),
            Kind::Blocked => None,
            Kind::Moved => before.map(|_| event.cpu),
        };
        if before == after {
            continue;
        }
        if let Some(cpu) = before {
            let cpu = cpus.entry(cpu).or_default();
            cpu.runnable -= 1;
            if cpu.runnable == 1 {
                usage.crowded_ns += event.ns - cpu.since_ns;
            }
        }
        match after {
            Some(number) => {
                let cpu = cpus.entry(number).or_default();
                cpu.runnable += 1;
                if cpu.runnable == 2 {
                    cpu.since_ns = event.ns;
                }
                places.insert(event.thread, number);
            }
            None => drop(places.remove(&event.thread)),
        }
    }
    let end_ns = events.last().map_or(0, |event| event.ns);
    let open = cpus.values().filter(|cpu| cpu.runnable >= 2).map(|cpu| end_ns - cpu.since_ns);
    usage.crowded_ns += open.sum::<u64>();
    usage
}

#[cfg(test)]
mod tests {
    use super::Kind::{Blocked, Moved, Preempted, SwitchedIn, Woken};
    use super::*;

    fn of(list: &[(u64, u32, u16, Kind)]) -> Usage {
        let event =
            |(ns, thread, cpu, kind): &_| Event { ns: *ns, thread: *thread, cpu: *cpu, kind: *kind, idle_class: false };
        usage(&mut list.iter().map(event).collect::<Vec<_>>())
    }

    #[test]
    fn a_cpu_is_crowded_while_two_of_its_threads_are_runnable() {
        let found = of(&[
            (100, 1, 0, SwitchedIn),
            (110, 2, 1, SwitchedIn),
            // 3 waits behind 1 for 20, then both exchange the CPU, which changes nothing, until 1 blocks.
            (120, 3, 0, Woken),
            (140, 1, 0, Preempted),
            (140, 3, 0, SwitchedIn),
            (150, 3, 0, Preempted),
            (150, 1, 0, SwitchedIn),
            (160, 1, 0, Blocked),
            (160, 3, 0, SwitchedIn),
            (200, 2, 1, Blocked),
        ]);
        assert_eq!(found, Usage { elapsed_ns: 100, crowded_ns: 40, switches: 4, blocks: 2 });
        assert_eq!(found.oversubscribed(2), 0.2);
    }

    #[test]
    fn three_crowd_a_cpu_no_more_than_two_and_each_cpu_counts() {
        let found = of(&[
            (0, 1, 0, SwitchedIn),
            (10, 2, 0, Woken),
            (20, 3, 0, Woken),
            (20, 4, 1, SwitchedIn),
            // Two each: crowded on both from here on.
            (30, 5, 0, Woken),
            (40, 5, 1, Moved),
            (50, 5, 1, Moved),
            (60, 2, 0, Moved),
            (100, 4, 1, Blocked),
        ]);
        assert_eq!(found.crowded_ns, 90 + 60);
    }

    #[test]
    fn what_was_missed_and_what_is_idle_do_not_count_twice() {
        let missed = of(&[
            (0, 1, 0, SwitchedIn),
            (10, 2, 0, Woken),
            // Nobody saw how it came there.
            (30, 2, 1, SwitchedIn),
            (40, 3, 0, Moved),
            (90, 1, 0, Blocked),
        ]);
        assert_eq!(missed.crowded_ns, 20, "a thread that sleeps may be moved");
        let idle = |idle_class| {
            let of = |ns, thread, kind| Event { ns, thread, cpu: 0, kind, idle_class: idle_class && thread == 1 };
            usage(&mut [of(0, 1, SwitchedIn), of(10, 2, Woken), of(10, 1, Preempted), of(20, 2, Blocked)])
        };
        assert_eq!((idle(false).crowded_ns, idle(true).crowded_ns), (10, 0));
        assert_eq!(usage(&mut []), Usage::default());
    }
}
