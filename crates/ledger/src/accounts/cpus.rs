//! What each CPU did over the window, including the interval that is open at its end.
//!
//! The BPF programs account for each CPU until its last event. This module adds the interval from that event to the end of the window. If the CPU was
//! idle in this interval, its idle time is divided by the same rules as in the BPF programs. The division uses presence cells: a presence cell is a
//! word that sums the time in which at least one thread is in a given state (`wire/include/cox/cells.h`).
//!
//! - idle while a tracked thread that was allowed on this CPU waited for a CPU: the increase of the presence cells of waiting threads since the idle
//!   interval began. There is a cell for the threads bound to this CPU, and one for each class of affinity masks that contain this CPU. The sum of
//!   their increases is limited to the length of the interval, because several threads may wait at the same time.
//! - idle while no tracked thread waited but some were off CPU: the increase of the off-CPU presence cell, minus the time above.
//!
//! The rest of the window is unknown: what a CPU did before its first event was not seen.

use wire::{Cpu, CpuKind, MASK_CLASSES, Record, TrackedThreads, cells};

use crate::account::CpuAccount;

/// Returns one account for each CPU of the record, in the order of the CPU numbers.
pub(super) fn accounts(record: &Record) -> Vec<CpuAccount> {
    (0u32..).zip(&record.cpus).map(|(number, cpu)| account(number, cpu, record)).collect()
}

/// Returns the CPU's state at the end of the window (idle, busy with the program or with others), and how long it has lasted; `None` if the CPU had
/// no event.
pub(super) fn open_ns(cpu: &Cpu, end_ns: u64) -> Option<(CpuKind, u64)> {
    let kind = [CpuKind::Idle, CpuKind::Ours, CpuKind::Others].into_iter().find(|kind| *kind as u64 == cpu.kind)?;
    Some((kind, end_ns.saturating_sub(cpu.since_ns)))
}

/// Returns whether threads with an affinity mask of class `class` may run on the CPU. Class 0 allows all CPUs.
fn allows(tracked: &TrackedThreads, class: usize, number: u32) -> bool {
    let word = tracked.masks[class].get(number as usize / 64).copied().unwrap_or(0);
    class == 0 || word >> (number % 64) & 1 == 1
}

/// Returns the time up to `t_ns` in which tracked threads that may use this CPU waited for a CPU: the sum of their presence cells (see the module's
/// header), ns, modulo 2^44.
fn waiting_ns(number: u32, cpu: &Cpu, tracked: &TrackedThreads, t_ns: u64) -> u64 {
    let classes = (0..MASK_CLASSES).filter(|class| allows(tracked, *class, number));
    let waiting = classes.map(|class| cells::presence_ns(tracked.waiting[class].cell, t_ns));
    cells::reduced_ns(waiting.fold(cells::presence_ns(cpu.pinned, t_ns), u64::wrapping_add))
}

fn account(number: u32, cpu: &Cpu, record: &Record) -> CpuAccount {
    let end_ns = record.end_ns;
    let window_ns = end_ns.saturating_sub(record.start_ns);
    let mut time_ns = [CpuKind::Idle, CpuKind::Ours, CpuKind::Others].map(|kind| cpu.time_ns[kind as usize]);
    let [idle_ns, ours_ns, others_ns] = &mut time_ns;
    let (mut waiting_part_ns, mut blocked_part_ns) = (cpu.idle_wait_ns, cpu.idle_blocked_ns);
    match open_ns(cpu, end_ns) {
        Some((CpuKind::Idle, open_ns)) => {
            let waited_ns =
                cells::since_ns(waiting_ns(number, cpu, &record.tracked, end_ns), cpu.idle_wait_mark).min(open_ns);
            let off_ns =
                cells::since_ns(cells::presence_ns(record.tracked.off, end_ns), cpu.idle_off_mark).min(open_ns);
            *idle_ns += open_ns;
            waiting_part_ns += waited_ns;
            blocked_part_ns += off_ns.saturating_sub(waited_ns);
        }
        Some((CpuKind::Ours, open_ns)) => *ours_ns += open_ns,
        Some((CpuKind::Others, open_ns)) => *others_ns += open_ns,
        Some((CpuKind::Unseen, _)) | None => {}
    }
    fit(&mut time_ns, window_ns);
    let [idle_ns, ours_ns, others_ns] = time_ns;
    let waiting_part_ns = waiting_part_ns.min(idle_ns);
    CpuAccount {
        cpu: number,
        busy_program_ns: ours_ns,
        busy_others_ns: others_ns,
        idle_ns,
        idle_while_waiting_ns: waiting_part_ns,
        idle_while_blocked_ns: blocked_part_ns.min(idle_ns - waiting_part_ns),
        unknown_ns: window_ns - time_ns.iter().sum::<u64>(),
    }
}

/// Shortens a CPU's times to the window. Events that were handled just outside the window can make the times longer than the window. The excess is
/// subtracted from the longest time, where it matters least.
fn fit(time_ns: &mut [u64; 3], window_ns: u64) {
    loop {
        let excess_ns = time_ns.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns)).saturating_sub(window_ns);
        match time_ns.iter_mut().max() {
            Some(longest) if excess_ns > 0 => *longest = longest.saturating_sub(excess_ns),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::native;
    use wire::Backend;

    const MS: u64 = 1_000_000;
    /// Far enough from zero that sums modulo 2^44 have overflowed.
    const START: u64 = (1 << 46) + 77 * MS;
    const END: u64 = START + 100 * MS;

    fn record(cpus: Vec<Cpu>) -> Record {
        let mut record = Record::new(Backend::Bpf, START, END);
        record.cpus = cpus;
        record
    }

    fn at(ms: u64) -> u64 {
        START + ms * MS
    }

    /// Seen from 10 ms on: idle 20 ms (of which 3 and 5), ours 30, others 10; since 70 ms in `kind`.
    fn seen(kind: CpuKind) -> Cpu {
        Cpu {
            since_ns: at(70),
            kind: kind as u64,
            time_ns: [999 * MS, 20 * MS, 30 * MS, 10 * MS],
            idle_wait_ns: 3 * MS,
            idle_blocked_ns: 5 * MS,
            ..Cpu::default()
        }
    }

    fn ms(cpu: &CpuAccount) -> [u64; 6] {
        let parts = [
            cpu.busy_program_ns,
            cpu.busy_others_ns,
            cpu.idle_ns,
            cpu.idle_while_waiting_ns,
            cpu.idle_while_blocked_ns,
            cpu.unknown_ns,
        ];
        let sum = cpu.busy_program_ns + cpu.busy_others_ns + cpu.idle_ns + cpu.unknown_ns;
        assert_eq!(sum, 100 * MS, "parts of the window: {cpu:?}");
        assert!(cpu.idle_while_waiting_ns + cpu.idle_while_blocked_ns <= cpu.idle_ns, "{cpu:?}");
        parts.map(|ns| ns / MS)
    }

    #[test]
    fn the_open_interval_goes_to_what_the_cpu_is_doing() {
        let all = accounts(&record(vec![seen(CpuKind::Ours), seen(CpuKind::Others), seen(CpuKind::Idle)]));
        assert_eq!(ms(&all[0]), [60, 10, 20, 3, 5, 10]);
        assert_eq!(ms(&all[1]), [30, 40, 20, 3, 5, 10]);
        assert_eq!(ms(&all[2]), [30, 10, 50, 3, 5, 10]);
        assert_eq!(all.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_cpu_without_events_is_unknown() {
        let all = accounts(&record(vec![Cpu::default(), Cpu { time_ns: [START, 0, 0, 0], ..Cpu::default() }]));
        assert_eq!(ms(&all[0]), [0, 0, 0, 0, 0, 100]);
        assert_eq!(ms(&all[1]), [0, 0, 0, 0, 0, 100]);
    }

    /// A presence cell with one member from `from` to `to`, or still.
    fn presence(from: u64, to: Option<u64>) -> u64 {
        let cell = native::cell_step(0, 1, at(from));
        to.map_or(cell, |to| native::cell_step(cell, -1, at(to)))
    }

    /// An idle CPU 1 as the kernel side leaves it at 70 ms, with these cells at that time.
    fn idle_since_70(tracked_then: &TrackedThreads, pinned_then: u64) -> Cpu {
        let mut cpu = seen(CpuKind::Idle);
        cpu.pinned = pinned_then;
        cpu.idle_wait_mark = waiting_ns(1, &cpu, tracked_then, at(70));
        cpu.idle_off_mark = cells::presence_ns(tracked_then.off, at(70));
        cpu
    }

    fn cpu_1(mut cpu: Cpu, pinned: u64, tracked: TrackedThreads) -> [u64; 6] {
        cpu.pinned = pinned;
        let mut record = record(vec![Cpu::default(), cpu]);
        record.tracked = tracked;
        ms(&accounts(&record)[1])
    }

    #[test]
    fn idle_while_members_wait_is_what_their_cells_gained() {
        let mut tracked = TrackedThreads { off: presence(20, None), ..TrackedThreads::default() };
        tracked.waiting[0].cell = presence(30, Some(40));
        let cpu = idle_since_70(&tracked, 0);
        tracked.waiting[0].cell = native::cell_step(tracked.waiting[0].cell, 1, at(88));
        // Anywhere: 12 of the last 30 ms; off CPU all of them.
        assert_eq!(cpu_1(cpu, 0, tracked), [30, 10, 50, 3 + 12, 5 + 18, 10]);
        // Bound to this CPU, for 8 ms more before that.
        let pinned = native::cell_step(native::cell_step(0, 1, at(80)), -1, at(88));
        assert_eq!(cpu_1(cpu, pinned, tracked), [30, 10, 50, 3 + 20, 5 + 10, 10]);
        // Several at once: not longer than the interval.
        assert_eq!(cpu_1(cpu, presence(71, None), tracked), [30, 10, 50, 3 + 30, 5, 10]);
    }

    #[test]
    fn a_class_of_masks_counts_where_it_is_allowed() {
        let mut tracked = TrackedThreads::default();
        tracked.masks[3][0] = 0b10;
        tracked.masks[4][0] = 0b01;
        let cpu = idle_since_70(&tracked, 0);
        tracked.waiting[4].cell = presence(75, None);
        assert_eq!(cpu_1(cpu, 0, tracked), [30, 10, 50, 3, 5, 10]);
        tracked.waiting[3].cell = presence(95, None);
        assert_eq!(cpu_1(cpu, 0, tracked), [30, 10, 50, 3 + 5, 5, 10]);
    }

    #[test]
    fn idle_with_members_off_cpu_is_told_from_the_rest() {
        let mut tracked = TrackedThreads::default();
        let cpu = idle_since_70(&tracked, 0);
        tracked.off = presence(72, Some(82));
        assert_eq!(cpu_1(cpu, 0, tracked), [30, 10, 50, 3, 5 + 10, 10]);
    }

    #[test]
    fn no_part_of_idle_is_longer_than_idle() {
        let tracked = TrackedThreads { off: presence(20, None), ..TrackedThreads::default() };
        let mut cpu = idle_since_70(&tracked, 0);
        cpu.idle_off_mark = cells::presence_ns(tracked.off, at(50));
        assert_eq!(cpu_1(cpu, 0, tracked), [30, 10, 50, 3, 5 + 30, 10]);
        (cpu.idle_wait_ns, cpu.idle_blocked_ns) = (15 * MS, 15 * MS);
        cpu.kind = CpuKind::Ours as u64;
        assert_eq!(cpu_1(cpu, 0, tracked), [60, 10, 20, 15, 5, 10]);
    }

    #[test]
    fn a_change_after_the_end_of_the_window_is_not_a_very_long_time() {
        let mut tracked = TrackedThreads::default();
        let cpu = idle_since_70(&tracked, 0);
        tracked.waiting[0].cell = presence(101, None);
        tracked.off = presence(101, None);
        assert_eq!(cpu_1(cpu, 0, tracked), [30, 10, 50, 3, 5, 10]);
    }

    #[test]
    fn events_outside_the_window_come_off_the_longest_time() {
        let mut cpu = seen(CpuKind::Ours);
        cpu.since_ns = at(104);
        cpu.time_ns = [0, 20 * MS, 73 * MS, 11 * MS];
        assert_eq!(ms(&accounts(&record(vec![cpu]))[0]), [69, 11, 20, 3, 5, 0]);
        cpu.time_ns = [0, u64::MAX, u64::MAX, 11 * MS];
        assert_eq!(ms(&accounts(&record(vec![cpu]))[0])[5], 0);
    }
}
