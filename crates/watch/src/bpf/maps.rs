//! Reads the maps at the end of an observation.

use libbpf_rs::{MapCore, MapFlags};
use wire::{Clock, LatencyCount, Losses, Pair, PairSum, Preemptor, TrackedThreads};

use super::libbpf::system;
use super::programs::Programs;
use crate::observer::WatchError;

/// Reads the untracked threads that held CPUs for which tracked threads waited.
pub(super) fn preemptors(programs: &Programs) -> Result<Vec<(u32, Preemptor)>, WatchError> {
    entries(&programs.map("preemptors")?)
}

/// Reads the map of pairs of a waking and a woken thread. The last wake-ups of each thread are not in the map yet: they are in the clock (account of
/// time) of the thread.
pub(super) fn pairs(programs: &Programs) -> Result<Vec<(Pair, PairSum)>, WatchError> {
    entries(&programs.map("wakeups")?)
}

/// Returns the sum of the clocks (accounts of time) of all threads that ended while the ring buffer for the clocks of ended threads was full.
pub(super) fn unlisted(programs: &Programs) -> Result<Clock, WatchError> {
    let per_cpu = programs.map("unlisted")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?;
    let mut sum = Clock::default();
    for bytes in per_cpu.unwrap_or_default() {
        if let Some(bytes) = bytes.get(..size_of::<Clock>()) {
            add(&mut sum, &bytemuck::pod_read_unaligned(bytes));
        }
    }
    Ok(sum)
}

/// Adds the clock (account of time) `c` to `sum`, field by field, by the same rules as `cox_clock_add` in C.
fn add(sum: &mut Clock, c: &Clock) {
    sum.since_ns += c.since_ns;
    sum.run_ns += c.run_ns;
    sum.steal_ns += c.steal_ns;
    sum.irq_ns += c.irq_ns;
    sum.wake_delay_ns += c.wake_delay_ns;
    sum.preempt_wait_ns += c.preempt_wait_ns;
    sum.yield_wait_ns += c.yield_wait_ns;
    sum.unknown_ns += c.unknown_ns;
    for (to, from) in sum.blocked_ns.iter_mut().zip(c.blocked_ns) {
        *to += from;
    }
    sum.switches_voluntary += c.switches_voluntary;
    sum.switches_involuntary += c.switches_involuntary;
    sum.wakeups += c.wakeups;
    sum.took_ns += c.took_ns;
    sum.elsewhere_run_ns += c.elsewhere_run_ns;
    for (to, from) in sum.migrations.iter_mut().zip(c.migrations) {
        *to += from;
    }
    sum.impossible += c.impossible;
    sum.kernel_cpu_ns += c.kernel_cpu_ns;
    sum.kernel_delay_ns += c.kernel_delay_ns;
}

/// Reads the histograms of interval lengths: first those of programs, by CPU, then those of threads.
pub(super) fn latencies(programs: &Programs) -> Result<Vec<LatencyCount>, WatchError> {
    let (map, settings) = (programs.map("latencies")?, programs.settings()?);
    let shared = settings.latencies.shared(settings.cpu_limit);
    let places = u64::from(settings.latencies.places()).min(programs.tracked().members) as u32;
    let mut all = Vec::new();
    for at in 0..shared + places {
        let of = match at.checked_sub(shared) {
            None => at / settings.cpu_limit,
            Some(place) => LatencyCount::of_place(place as u16 + 1),
        };
        let bytes = map.lookup(&at.to_ne_bytes(), MapFlags::ANY).map_err(unreadable)?.unwrap_or_default();
        let words = bytes.chunks_exact(size_of::<u64>()).map(bytemuck::pod_read_unaligned);
        all.extend(LatencyCount::all(of, words));
    }
    Ok(all)
}

/// Returns how many events and records were lost, as counted by the BPF programs. `missed_events` are the events for which the kernel did not call a
/// program.
pub(super) fn losses(tracked: &TrackedThreads, missed_events: u64) -> Losses {
    Losses {
        events: missed_events + tracked.lost_cpus,
        members: tracked.lost_members,
        finals: tracked.lost_exited,
        samples: tracked.lost_samples,
        pairs: tracked.lost_wakeups,
        preemptors_ns: tracked.lost_preemptors_ns,
        idle_split: tracked.lost_cells + tracked.lost_classes,
        trace_events: tracked.lost_trace_events,
    }
}

fn entries<K: bytemuck::AnyBitPattern, V: bytemuck::AnyBitPattern>(
    map: &dyn MapCore,
) -> Result<Vec<(K, V)>, WatchError> {
    let mut all = Vec::new();
    // The map is not read in batches, because libbpf-rs (0.27) assumes that a batch which is not full is the last one. This is not always so.
    for key in map.keys() {
        // A key that is deleted between the listing of the keys and this look-up is skipped. At present, no code deletes keys.
        let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(unreadable)? else { continue };
        if let (Some(k), Some(v)) = (key.get(..size_of::<K>()), value.get(..size_of::<V>())) {
            all.push((bytemuck::pod_read_unaligned(k), bytemuck::pod_read_unaligned(v)));
        }
    }
    Ok(all)
}

fn unreadable(error: libbpf_rs::Error) -> WatchError {
    system("reading a BPF map", error)
}

#[cfg(test)]
mod tests {
    use testkit::native;

    use super::*;

    /// A clock with another number in each field.
    fn numbered(from: u8) -> Clock {
        let mut bytes = [0; size_of::<Clock>()];
        // Two bytes of each eight, so that no sum runs over into the next field.
        for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
            word[0] = from.wrapping_add(i as u8);
            word[4] = from ^ i as u8;
        }
        Clock { born_ns: 0, ..bytemuck::pod_read_unaligned(&bytes) }
    }

    #[test]
    fn sums_of_cpus_add_up_to_the_sum_over_all() {
        let (one, two) = (numbered(1), numbered(77));
        let mut all = Clock::default();
        native::add(&mut all, &one);
        let mut other_cpu = Clock::default();
        native::add(&mut other_cpu, &two);
        let mut both = all;
        add(&mut both, &other_cpu);
        native::add(&mut all, &two);
        assert_eq!(both, all);
        // A state that neither adds would be missing from the sum of the lifetimes.
        let states = |c: &Clock| {
            let waits = c.wake_delay_ns + c.preempt_wait_ns + c.unknown_ns;
            c.run_ns + waits + c.blocked_ns.iter().sum::<u64>()
        };
        assert_eq!(states(&all), states(&one) + states(&two));
    }
}
