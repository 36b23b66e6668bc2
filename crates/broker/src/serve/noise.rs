//! Noise events on the server side: what interrupts the caller's threads, without what the caller may not know.
//!
//! The events go through the socket, one by one, when cox asks for them. *Rejected:* the descriptors of the rings, from which cox would read them
//! without a copy. The events contain addresses of the kernel's functions and requests, and whoever knows one address knows where all of the kernel
//! is (KASLR). The programs in the kernel cannot replace them by names without making each interrupt longer, and this is what is being measured.
//!
//! What cox gets:
//! - Functions of the kernel have numbers, in the order of their appearance, and each number comes with the function's name. The kernel itself names them
//!   (`name_function` in `noise.bpf.h`), because without CAP_SYSLOG this process does not see their addresses in /proc/kallsyms either. All places
//!   in one function have the same number.
//! - Requests of other CPUs (csd) are only compared with each other, so their addresses are replaced by a keyed hash. Its key is random and stays here.
//! - All other numbers are times, lengths, ids, flags and counts. An event of a kind that is not known here is not sent.
//! - Threads of other users have no id, no name, no system call and no place in the kernel (`ids.bpf.h`, `noise.bpf.h`).
//! - Counts by CPU, if they are in /proc/interrupts and /proc/softirqs, which the caller can read as well, or concern followed threads only. The number of
//!   switches of a CPU is in no file that every user can read, so it is not sent.
//!
//! Device interrupts and switches come with their times, to the nanosecond, on the CPUs where a thread of the caller runs or waits. The caller could
//! find the same times by a loop that reads the clock.
//!
//! What the caller can cost: the rings are part of the session's memory. This process keeps the numbers of at most [`MAX_FUNCTIONS`] functions, and
//! one batch of events at a time; while cox reads slowly, the rings count what they lose. An answer has at most about as many events as the rings. Descriptors
//! for page faults are opened for at most [`MAX_NAMED`] threads.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;

use watch::WatchError;
use watch::noise::{Counts, Interruption, Interruptions, NoiseEvents};
use wire::MAX_CPUS;
use wire::noise::{Event, Named, count, edge, kind};

use super::{Failure, Send, World, allowed, send_all};
use crate::protocol::{CountRow, FunctionRow, NoiseRow, NoiseState, Part, bits_of};

/// Maximum number of functions that get numbers. A kernel has some hundred functions of timers, work items and interrupts.
const MAX_FUNCTIONS: usize = 4096;
/// Maximum number of threads that are named one by one: a measuring loop has one on each CPU.
const MAX_NAMED: usize = MAX_CPUS;
/// Number of events that are taken out of the rings at a time, about.
const BATCH: usize = 4096;
/// Minimum size of an event in the ring, bytes: with its header.
const LEAST_BYTES: usize = size_of::<Event>() + 8;

/// A source of noise events from which a bounded number can be taken.
pub trait Ring: NoiseEvents {
    /// See [`Interruptions::take`].
    ///
    /// # Errors
    /// If a ring cannot be read.
    fn take(&mut self, most: usize) -> Result<Vec<Interruption>, WatchError>;
}

impl Ring for Interruptions {
    fn take(&mut self, most: usize) -> Result<Vec<Interruption>, WatchError> {
        Interruptions::take(self, most)
    }
}

/// A session with noise events.
pub struct Noise {
    ring: Box<dyn Ring>,
    /// Maximum number of events in one answer.
    most: usize,
    functions: Functions,
    named: usize,
}

/// The numbers of the kernel's functions.
#[derive(Default)]
struct Functions {
    /// Number of each address that events had.
    numbers: HashMap<u64, u64>,
    /// Number of each name.
    by_name: HashMap<String, u64>,
    /// Names that cox does not have yet.
    new: Vec<FunctionRow>,
    /// The key of the hash of requests.
    key: RandomState,
}

impl Noise {
    pub(super) fn new(ring: Box<dyn Ring>, ring_bytes: u32) -> Noise {
        Noise { ring, most: (ring_bytes as usize / LEAST_BYTES).max(1), functions: Functions::default(), named: 0 }
    }

    /// Sends the state of the events: how many were lost, and which tracepoints are not attached.
    pub(super) fn send_state(&self, send: Send<'_>) -> io::Result<()> {
        let state = NoiseState { lost: self.ring.lost(), without: bits_of(&self.ring.without()) };
        send_all(Part::NoiseState, &[state], send)
    }

    pub(super) fn follow(&mut self, pid: u32, world: &dyn World) -> Result<(), Failure> {
        allowed(world, pid)?;
        Ok(self.ring.follow(pid)?)
    }

    /// Follows single threads. Each one is checked, as a process is.
    pub(super) fn follow_threads(&mut self, tids: &[u32], world: &dyn World) -> Result<(), Failure> {
        tids.iter().try_for_each(|tid| allowed(world, *tid))?;
        if self.named + tids.len() > MAX_NAMED {
            let why = format!("cox-observe follows at most {MAX_NAMED} single threads");
            return Err(WatchError::NoTarget { pid: tids.first().copied().unwrap_or(0), why }.into());
        }
        self.named += tids.len();
        Ok(self.ring.follow_threads(tids)?)
    }

    /// Sends the events that have arrived since the last call.
    pub(super) fn send_events(&mut self, send: Send<'_>) -> Result<(), Failure> {
        let mut left = self.most;
        while left > 0 {
            let taken = self.ring.take(left.min(BATCH))?;
            if taken.is_empty() {
                break;
            }
            left -= taken.len().min(left);
            let mut rows = Vec::with_capacity(taken.len());
            for (event, named) in &taken {
                rows.extend(self.functions.without_addresses(event, named.as_ref(), self.ring.as_mut()));
            }
            send_all(Part::Functions, &std::mem::take(&mut self.functions.new), send)?;
            send_all(Part::NoiseEvents, &rows, send)?;
        }
        Ok(self.send_state(send)?)
    }

    /// Sends what was counted on each CPU.
    pub(super) fn send_counts(&mut self, world: &dyn World, send: Send<'_>) -> Result<(), Failure> {
        let counts = self.ring.counts()?;
        Ok(send_all(Part::Counts, &public(&counts, world.may_read_counters()), send)?)
    }

    pub(super) fn end(&mut self) {
        self.ring.end();
    }
}

impl Functions {
    /// Returns the event as cox may get it; `None` if its kind is not known.
    fn without_addresses(&mut self, event: &Event, named: Option<&Named>, ring: &mut dyn Ring) -> Option<NoiseRow> {
        let Event { a, b, .. } = *event;
        // The end of a context does not say its function.
        let is_end = event.edge == edge::END;
        let (a, b) = match event.kind {
            kind::VECTOR | kind::IRQ | kind::SOFTIRQ => (u64::from(a as u32), 0),
            kind::HRTIMER | kind::TIMER | kind::CALL if is_end => (0, 0),
            kind::HRTIMER | kind::TIMER | kind::WORK => (self.number(a, ring), 0),
            kind::CALL => (self.number(a, ring), self.request(b)),
            kind::NMI => (self.number(a, ring), b),
            kind::FAULT => (a, b),
            kind::SWITCH => (u64::from(a as u32), u64::from(b as u32)),
            kind::SENT => (self.number(a, ring), u64::from(b != 0)),
            kind::SENT_MASK => (self.number(a, ring), b),
            kind::QUEUED => (self.number(a, ring), self.request(b)),
            kind::TICK_STOP | kind::TLB_FLUSH => (u64::from(a as u32), u64::from(b as u32)),
            kind::MOVED => (0, 0),
            _ => return None,
        };
        let named = named.copied().filter(|_| event.is_named()).unwrap_or_default();
        Some(NoiseRow { event: Event { a, b, ..*event }, named })
    }

    /// Returns the number of the function at an address; 0 if it has no name, or if there are too many functions.
    fn number(&mut self, address: u64, ring: &mut dyn Ring) -> u64 {
        if address == 0 {
            return 0;
        }
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        if self.numbers.len() == MAX_FUNCTIONS {
            return 0;
        }
        let number = ring.function(address).map_or(0, |name| self.number_of_name(name));
        self.numbers.insert(address, number);
        number
    }

    fn number_of_name(&mut self, name: String) -> u64 {
        let next = self.by_name.len() as u64 + 1;
        let mut text = [0; 64];
        text.iter_mut().zip(name.bytes().take(63)).for_each(|(to, from)| *to = from);
        let number = *self.by_name.entry(name).or_insert(next);
        if number == next {
            self.new.push(FunctionRow { number, name: text });
        }
        number
    }

    /// Returns a number for a request, which says no more than whether two requests are the same. 0 stays 0: there is no request.
    fn request(&self, address: u64) -> u64 {
        if address == 0 { 0 } else { u64::from(self.key.hash_one(address) as u32).max(1) }
    }
}

/// Returns the counts that cox may get. `counters`: whether the caller can read the kernel's counters of interrupts.
fn public(counts: &Counts, counters: bool) -> Vec<CountRow> {
    let may_know = |index: usize| match index {
        count::USER_FAULTS | count::KERNEL_FAULTS | count::SWITCHES_OUT => true,
        count::NMIS | count::OTHER_IRQS => counters,
        _ => counters && !(count::SWITCHES..count::IRQS).contains(&index),
    };
    let of_cpu = |(cpu, counts): (usize, &Vec<u64>)| {
        let told = counts.iter().enumerate().filter(|(index, count)| may_know(*index) && **count != 0);
        told.map(move |(index, count)| CountRow { cpu: cpu as u32, index: index as u32, count: *count })
            .collect::<Vec<_>>()
    };
    counts.iter().enumerate().flat_map(of_cpu).collect()
}
