//! Reads the clocks (accounts of time) of living threads, by a walk over all tasks.

use wire::Living;
use wire::layout::LivingEntry;

use super::programs::Programs;
use crate::observer::WatchError;

/// Maximum number of walks over the tasks. A walk is repeated if it copied the clock of a thread while the thread's CPU was changing it.
pub(super) const RETRIES: usize = 4;

/// Reads the clocks of all living tracked threads. If a CPU was changing a thread's clock during the copy, the copy violates the invariant
/// [`Clock::is_whole`], and the walk is repeated. After the last walk, even such copies are returned.
pub(super) fn read(programs: &Programs) -> Result<Vec<Living>, WatchError> {
    let mut living = Vec::new();
    for _ in 0..RETRIES {
        let bytes = programs.walk("dump_clocks", 1)?;
        living = bytes.chunks_exact(size_of::<LivingEntry>()).map(bytemuck::pod_read_unaligned).map(finished).collect();
        if living.iter().all(|l: &Living| l.clock.is_whole()) {
            break;
        }
    }
    Ok(living)
}

fn finished(entry: LivingEntry) -> Living {
    let mut clock = entry.clock;
    clock.kernel_cpu_ns = entry.kernel_cpu_ns;
    clock.kernel_delay_ns = entry.kernel_delay_ns;
    clock.cause = entry.cause as u8;
    clock.comm = entry.comm;
    Living { clock, until_ns: entry.t_ns.max(clock.since_ns) }
}
