//! Finds out which code of the program spins, that is, waits for other threads in a loop.
//!
//! Tickers (the threads that end scheduling periods) must not read binaries. They look addresses up in a table, and
//! queue those that are not in it. The manager *judges* the queued addresses: it finds out from the binaries whether
//! the code there waits. Until then the code counts as work, which costs one scheduling period at most.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use symbols::Judge;
use wire::{Sample, ThreadSnapshot, Waiting};

/// Maximum number of addresses that are kept; a program has some thousands of hot addresses. Code beyond this number
/// counts as work.
const MAX_KNOWN: usize = 1 << 16;
/// Maximum number of addresses judged in one pass, because reading symbols takes time.
const MAX_BATCH: usize = 512;

/// The code addresses for which it is known whether the code waits in a loop. All methods take a short lock.
#[derive(Default)]
pub struct Spins {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The kind of waiting loop at each code address, by process and address; `None` if the code there does not wait.
    known: HashMap<(u32, u64), Option<Waiting>>,
    asked: HashSet<(u32, u64)>,
}

impl Spins {
    /// Returns whether a thread was spinning when it was switched out.
    pub fn is_waiting(&self, snapshot: &ThreadSnapshot) -> bool {
        let call = u32::try_from(snapshot.call).ok();
        self.waits_at(snapshot.tgid, snapshot.ip, call).is_some()
    }

    /// Returns whether a thread was switched out in sched_yield(2).
    pub fn is_yielding(snapshot: &ThreadSnapshot) -> bool {
        u32::try_from(snapshot.call) == Ok(arch::SYS_SCHED_YIELD)
    }

    /// Returns the kind of loop in which a running thread was spinning when it was sampled.
    pub fn waited_in(&self, sample: &Sample) -> Option<Waiting> {
        self.waits_at(sample.tgid, sample.ip, sample.call())
    }

    fn waits_at(&self, tgid: u32, ip: u64, call: Option<u32>) -> Option<Waiting> {
        if let Some(call) = call {
            return (call == arch::SYS_SCHED_YIELD).then_some(Waiting::Yield);
        }
        if ip == 0 {
            return None;
        }
        let mut inner = self.inner.lock().ok()?;
        let place = (tgid, ip);
        match inner.known.get(&place) {
            Some(waits) => *waits,
            None => {
                if inner.known.len() + inner.asked.len() < MAX_KNOWN {
                    inner.asked.insert(place);
                }
                None
            }
        }
    }

    /// Decides for each queued address whether it is in a loop that only waits. Reads /proc and binaries.
    pub fn settle(&self, judge: &mut Judge) {
        let asked: Vec<(u32, u64)> = match self.inner.lock() {
            Ok(inner) => inner.asked.iter().copied().take(MAX_BATCH).collect(),
            Err(_) => return,
        };
        let mut by_process: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (tgid, ip) in asked {
            by_process.entry(tgid).or_default().push(ip);
        }
        for (tgid, ips) in by_process {
            let waits = judge.waits(tgid, &ips);
            let Ok(mut inner) = self.inner.lock() else { return };
            for (ip, waits) in ips.into_iter().zip(waits) {
                inner.asked.remove(&(tgid, ip));
                // `None`: whether the code waits is not known yet, because libraries are still being loaded. The
                // address is queued again when a thread is next observed there.
                if let Some(waits) = waits {
                    inner.known.insert((tgid, ip), waits);
                }
            }
        }
    }
}
