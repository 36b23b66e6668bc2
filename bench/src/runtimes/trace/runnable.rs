//! Computes oversubscription from scheduler events: how long more than one thread was runnable on a CPU.

use std::collections::HashMap;
use std::ops::Range;

use serde::Serialize;

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The thread became runnable, and is queued on a CPU.
    Woken,
    /// The thread runs.
    SwitchedIn,
    /// The thread left the CPU but is still runnable, on the same CPU's run queue.
    Preempted,
    /// The thread is no longer runnable.
    Blocked,
    /// The thread was migrated to another CPU, runnable or not.
    Moved,
}

/// One scheduler event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Time of the event, ns on the monotonic clock.
    pub ns: u64,
    /// The thread that the event is about.
    pub thread: u32,
    /// The thread's CPU after the event.
    pub cpu: u16,
    /// The kind of event.
    pub kind: Kind,
    /// True if the thread is in the idle class: it then takes no CPU time from other threads.
    pub idle_class: bool,
}

/// How a program used the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Length of the time window for which the usage was computed.
    pub elapsed_ns: u64,
    /// Time in which two or more threads were runnable on a CPU (running or queued), summed over the CPUs.
    pub oversubscribed_ns: u64,
    /// Number of times that a thread left a CPU.
    pub switches: u64,
    /// Number of times that a thread left a CPU because it blocked.
    pub blocks: u64,
}

impl Usage {
    /// Returns the oversubscription: the mean share of time in which more than one thread of the program was runnable on a CPU, over all `cpus` CPUs.
    pub fn oversubscribed(&self, cpus: u32) -> f64 {
        self.oversubscribed_ns as f64 / (self.elapsed_ns as f64 * f64::from(cpus)).max(1.0)
    }
}

/// The number of runnable threads of a CPU, and since when there have been at least two.
#[derive(Clone, Copy, Default)]
struct Cpu {
    runnable: u32,
    since_ns: u64,
}

/// Computes the usage within `window` from events, which may be slightly out of order. A switch-in corrects the state if earlier events of the thread
/// were missed.
pub fn usage(events: &mut [Event], window: &Range<u64>) -> Usage {
    events.sort_by_key(|event| event.ns);
    let mut usage = Usage { elapsed_ns: window.end.saturating_sub(window.start), ..Usage::default() };
    let within = |since_ns: u64, until_ns: u64| until_ns.min(window.end).saturating_sub(since_ns.max(window.start));
    // The CPU of each runnable thread.
    let mut places: HashMap<u32, u16> = HashMap::new();
    let mut cpus: HashMap<u16, Cpu> = HashMap::new();
    for event in events.iter() {
        if window.contains(&event.ns) {
            usage.switches += u64::from(matches!(event.kind, Kind::Preempted | Kind::Blocked));
            usage.blocks += u64::from(event.kind == Kind::Blocked && !event.idle_class);
        }
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
                usage.oversubscribed_ns += within(cpu.since_ns, event.ns);
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
    let open = cpus.values().filter(|cpu| cpu.runnable >= 2).map(|cpu| within(cpu.since_ns, window.end));
    usage.oversubscribed_ns += open.sum::<u64>();
    usage
}

#[cfg(test)]
mod tests {
    use super::Kind::{Blocked, Moved, Preempted, SwitchedIn, Woken};
    use super::*;

    type Short = (u64, u32, u16, Kind);

    fn events(list: &[Short]) -> Vec<Event> {
        let event = |(ns, thread, cpu, kind): &Short| Event {
            ns: *ns,
            thread: *thread,
            cpu: *cpu,
            kind: *kind,
            idle_class: false,
        };
        list.iter().map(event).collect()
    }

    /// From the first event to the last.
    fn of(list: &[Short]) -> Usage {
        usage(&mut events(list), &(list[0].0..list[list.len() - 1].0 + 1))
    }

    #[test]
    fn a_cpu_is_oversubscribed_while_two_of_its_threads_are_runnable() {
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
        assert_eq!(found, Usage { elapsed_ns: 101, oversubscribed_ns: 40, switches: 4, blocks: 2 });
        assert_eq!(Usage { elapsed_ns: 100, ..found }.oversubscribed(2), 0.2);
    }

    #[test]
    fn three_crowd_a_cpu_no_more_than_two_and_each_cpu_counts() {
        let found = of(&[
            (0, 1, 0, SwitchedIn),
            (10, 2, 0, Woken),
            (20, 3, 0, Woken),
            (20, 4, 1, SwitchedIn),
            // Two each: oversubscribed on both from here on.
            (30, 5, 0, Woken),
            (40, 5, 1, Moved),
            (50, 5, 1, Moved),
            (60, 2, 0, Moved),
            (100, 4, 1, Blocked),
            (101, 9, 0, Moved),
        ]);
        assert_eq!(found.oversubscribed_ns, 92 + 60);
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
        assert_eq!(missed.oversubscribed_ns, 20, "a thread that sleeps may be moved");
        let idle = |idle_class| {
            let of = |ns, thread, kind| Event { ns, thread, cpu: 0, kind, idle_class: idle_class && thread == 1 };
            usage(&mut [of(0, 1, SwitchedIn), of(10, 2, Woken), of(10, 1, Preempted), of(20, 2, Blocked)], &(0..30))
        };
        assert_eq!((idle(false).oversubscribed_ns, idle(true).oversubscribed_ns), (10, 0));
        assert_eq!(usage(&mut [], &(0..0)), Usage::default());
    }

    #[test]
    fn only_the_window_counts_but_what_was_before_is_known() {
        let list =
            [(0, 1, 0, SwitchedIn), (10, 2, 0, Woken), (20, 1, 0, Blocked), (30, 1, 0, Woken), (90, 2, 0, Blocked)];
        let found = usage(&mut events(&list), &(15..50));
        assert_eq!(found, Usage { elapsed_ns: 35, oversubscribed_ns: 5 + 20, switches: 1, blocks: 1 });
    }
}
