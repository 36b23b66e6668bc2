//! Which code of the program waits for other threads in a loop.
//!
//! Tickers must not read binaries: they look addresses up here, and note those that nobody has judged yet.
//! The manager has them judged. Until then code counts as work, which costs a period at most.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use symbols::Judge;
use wire::{Sample, Stand, Waiting};

/// Addresses kept; a program has some thousands of hot ones. Beyond them code counts as work.
const MAX_KNOWN: usize = 1 << 16;
/// Addresses judged at a time: reading symbols takes time.
const MAX_BATCH: usize = 512;

/// What is known. All methods take a short lock.
#[derive(Default)]
pub struct Spins {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By process and user address; a yielding thread's address is that of sched_yield(2)'s return.
    known: HashMap<(u32, u64), Option<Waiting>>,
    asked: HashSet<(u32, u64)>,
}

impl Spins {
    /// Whether a thread was waiting in a loop when it was switched out.
    pub fn is_waiting(&self, stand: &Stand) -> bool {
        let call = u32::try_from(stand.call).ok();
        self.waits_at(stand.tgid, stand.ip, call).is_some()
    }

    /// Whether a thread gave its CPU away when it was switched out.
    pub fn is_yielding(stand: &Stand) -> bool {
        u32::try_from(stand.call) == Ok(arch::SYS_SCHED_YIELD)
    }

    /// In what loop a running thread was waiting when it was sampled.
    pub fn waited_in(&self, sample: &Sample) -> Option<Waiting> {
        self.waits_at(sample.tgid, sample.ip, sample.in_kernel.checked_sub(1))
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

    /// Judges what was asked for. Reads /proc and binaries.
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
                // Libraries are still being loaded: whoever comes by again asks again.
                if let Some(waits) = waits {
                    inner.known.insert((tgid, ip), waits);
                }
            }
        }
    }
}
