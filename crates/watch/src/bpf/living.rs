//! Clocks of threads that live, read by a walk over all tasks.

use bytemuck::{Pod, Zeroable};
use wire::{Clock, Living};

use super::program::{Program, Walk};
use crate::observer::WatchError;

/// What a clock does not hold until it is final; `struct cox_living` of the BPF side.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Ahead {
    t_ns: u64,
    kernel_cpu_ns: u64,
    kernel_delay_ns: u64,
    cause: u64,
    comm: [u8; 16],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    ahead: Ahead,
    clock: Clock,
}

/// How often a walk is repeated when it met a clock that was just being changed.
const RETRIES: usize = 4;

/// All living members. A clock that its CPU was changing while it was copied breaks the invariant
/// [`Clock::is_whole`]; the walk is then repeated, and after the last one such a clock is left out
/// of the whole ones only by what the ledger finds unknown.
pub(super) fn read(program: &Program) -> Result<Vec<Living>, WatchError> {
    let mut living = Vec::new();
    for _ in 0..RETRIES {
        let mut bytes = Vec::new();
        program.walk(Walk::Dump, &mut bytes)?;
        living = bytes.chunks_exact(size_of::<Entry>()).map(bytemuck::pod_read_unaligned).map(finished).collect();
        if living.iter().all(|l: &Living| l.clock.is_whole()) {
            break;
        }
    }
    Ok(living)
}

fn finished(entry: Entry) -> Living {
    let mut clock = entry.clock;
    clock.kernel_cpu_ns = entry.ahead.kernel_cpu_ns;
    clock.kernel_delay_ns = entry.ahead.kernel_delay_ns;
    clock.cause = entry.ahead.cause as u8;
    clock.comm = entry.ahead.comm;
    Living { clock, until_ns: entry.ahead.t_ns.max(clock.since_ns) }
}
