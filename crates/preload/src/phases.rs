//! How long the program computes between two synchronisations, for `cox noise forecast`: a histogram in the shared memory.
//!
//! Only one thread of each process records: the one with the first slot (entry in the shared memory), which is the first that came to a barrier. All
//! threads of a team pass the same barriers, and a histogram that all of them write would cost each of them some cache misses at each barrier. A phase
//! begins when the thread leaves a barrier, or begins its share of a parallel region, and ends when it arrives at the next barrier: the wait does not
//! belong to it.
//!
//! In a program with collective operations of MPI, only these count: barriers of its threads do not make other ranks wait.
//!
//! Nothing is recorded, and no clock is read, unless cox asks for it at the start of the program.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::preload::{MPI, Slot, phase_bucket};

use crate::memory;

/// Environment variable by which cox asks for the lengths.
const VARIABLE: &CStr = c"COX_PHASES";
static WANTED: AtomicBool = AtomicBool::new(false);
/// Begin of the recording thread's phase on CLOCK_MONOTONIC, ns; 0 if none has begun.
static BEGIN_NS: AtomicU64 = AtomicU64::new(0);
static HAS_MPI: AtomicBool = AtomicBool::new(false);

/// Notes whether cox asks for the lengths. Called before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    WANTED.store(variable(VARIABLE).is_some(), Ordering::Relaxed);
}

/// As [`memory::arrive`]; also ends the phase.
#[inline]
pub fn arrive(slot: &Slot) {
    if WANTED.load(Ordering::Relaxed) {
        end(slot, false);
    }
    memory::arrive(slot);
}

/// As [`memory::leave`]; also begins a phase.
#[inline]
pub fn leave(slot: &Slot) {
    memory::leave(slot);
    if WANTED.load(Ordering::Relaxed) {
        begin(slot, false);
    }
}

/// As [`memory::begin_share`]; also begins a phase.
#[inline]
pub fn begin_share(slot: &Slot, phases: u64) {
    memory::begin_share(slot, phases);
    if WANTED.load(Ordering::Relaxed) {
        begin(slot, false);
    }
}

/// Runs a collective operation of MPI, which ends a phase and begins the next one.
#[inline]
pub fn collective<R>(run: impl FnOnce() -> R) -> R {
    let slot = if WANTED.load(Ordering::Relaxed) { memory::thread_slot() } else { None };
    let Some(slot) = slot else { return run() };
    if !HAS_MPI.load(Ordering::Relaxed) {
        first_collective();
    }
    end(slot, true);
    let result = run();
    begin(slot, true);
    result
}

/// Forgets the phases between barriers of threads.
#[cold]
fn first_collective() {
    HAS_MPI.store(true, Ordering::Relaxed);
    memory::note_seen(MPI);
    BEGIN_NS.store(0, Ordering::Relaxed);
    let Some(lengths) = memory::phase_lengths() else { return };
    lengths.sum_ns.store(0, Ordering::Relaxed);
    lengths.longest_ns.store(0, Ordering::Relaxed);
    lengths.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
}

fn records(slot: &Slot, is_mpi: bool) -> bool {
    is_mpi == HAS_MPI.load(Ordering::Relaxed) && memory::is_first(slot)
}

fn begin(slot: &Slot, is_mpi: bool) {
    if records(slot, is_mpi) {
        BEGIN_NS.store(now_ns(), Ordering::Relaxed);
    }
}

fn end(slot: &Slot, is_mpi: bool) {
    if !records(slot, is_mpi) {
        return;
    }
    let begin_ns = BEGIN_NS.swap(0, Ordering::Relaxed);
    let Some(lengths) = memory::phase_lengths().filter(|_| begin_ns != 0) else { return };
    let ns = now_ns().saturating_sub(begin_ns);
    // No other thread writes these words.
    let add = |word: &AtomicU64, more: u64| word.store(word.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    add(&lengths.sum_ns, ns);
    add(&lengths.counts[phase_bucket(ns)], 1);
    if ns > lengths.longest_ns.load(Ordering::Relaxed) {
        lengths.longest_ns.store(ns, Ordering::Relaxed);
    }
}

/// CLOCK_MONOTONIC in ns. The vDSO reads it without a system call.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer to the result is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Called in a forked child, which has a memory of its own.
pub fn forked() {
    BEGIN_NS.store(0, Ordering::Relaxed);
}
