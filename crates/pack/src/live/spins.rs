//! Which code of the program waits for other threads in a loop.
//!
//! Tickers must not read binaries: they look addresses up here, and note those that nobody has judged yet.
//! The manager has them judged. Until then code counts as work, which costs a turn at most.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use machine::Root;
use symbols::Symboliser;
use wire::{Sample, Stand};

/// Addresses kept; a program has some thousands of hot ones. Beyond them code counts as work.
const MAX_KNOWN: usize = 1 << 16;
/// Addresses judged at a time: reading symbols takes time, and the first are the hottest.
const MAX_BATCH: usize = 512;

/// What is known. All methods take a short lock.
#[derive(Default)]
pub struct Spins {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By process and user address; a yielding thread's address is that of sched_yield(2)'s return.
    known: HashMap<(u32, u64), bool>,
    asked: HashSet<(u32, u64)>,
}

impl Spins {
    /// Whether a thread was waiting in a loop when it was switched out.
    pub fn is_waiting(&self, stand: &Stand) -> bool {
        if stand.call >= 0 {
            return stand.call as u32 == arch::SYS_SCHED_YIELD;
        }
        if stand.ip == 0 {
            return false;
        }
        let Ok(mut inner) = self.inner.lock() else { return false };
        let place = (stand.tgid, stand.ip);
        match inner.known.get(&place) {
            Some(waits) => *waits,
            None => {
                if inner.known.len() + inner.asked.len() < MAX_KNOWN {
                    inner.asked.insert(place);
                }
                false
            }
        }
    }

    /// Judges what was asked for. Reads /proc and binaries.
    pub fn judge(&self, root: &Root) {
        let asked: Vec<(u32, u64)> = match self.inner.lock() {
            Ok(inner) => inner.asked.iter().copied().take(MAX_BATCH).collect(),
            Err(_) => return,
        };
        if asked.is_empty() {
            return;
        }
        // One sample each, its place in the list as its thread: the answer names it.
        let samples: Vec<Sample> = asked
            .iter()
            .zip(0..)
            .map(|(&(tgid, ip), tid)| Sample { ip, tid, tgid, ..Sample::default() })
            .collect();
        let mut symboliser = Symboliser::new(root.clone());
        symboliser.observe(&samples);
        let waiting: HashSet<u32> =
            symboliser.spots().into_iter().filter(|spot| spot.waiting.is_some()).map(|spot| spot.tid).collect();
        let Ok(mut inner) = self.inner.lock() else { return };
        for (place, tid) in asked.into_iter().zip(0..) {
            inner.asked.remove(&place);
            inner.known.insert(place, waiting.contains(&tid));
        }
    }
}
