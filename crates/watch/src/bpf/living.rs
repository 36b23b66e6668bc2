//! Reads the clocks (accounts of time) of living threads, by a walk over all tasks.

use wire::Living;
use wire::layout::LivingEntry;

use super::programs::Programs;
use crate::observer::WatchError;

/// Maximum number of walks over all tasks, each of which copies the clocks (accounts of time) of the tracked threads. A walk is repeated if a CPU was
/// changing a clock while it was copied.
pub(super) const RETRIES: usize = 4;

/// Reads the clocks (accounts of time) of all living tracked threads by a walk over all tasks. If a CPU was changing a clock while it was copied, the
/// copy violates the invariant [`Clock::is_whole`], and the walk is repeated. After the last walk, even such copies are returned.
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
