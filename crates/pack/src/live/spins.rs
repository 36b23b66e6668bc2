//! Which code of the program waits for other threads in a loop.
//!
//! Tickers must not read binaries: they look addresses up here, and note those that nobody has judged yet.
//! The manager has them judged that come up again: who waits in a loop comes by often, and reading a library for
//! one look at a program that is only starting takes 10 ms, for which all threads wait that meet often. Until then
//! code counts as work, which costs a turn or two.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use symbols::Judge;
use wire::{Sample, Stand, Waiting};

/// Addresses kept; a program has some thousands of hot ones. Beyond them code counts as work.
const MAX_KNOWN: usize = 1 << 16;
/// Addresses judged at a time: reading symbols takes time.
const MAX_BATCH: usize = 512;
/// As often has to be asked for an address before it is judged.
const ASKED: u32 = 2;

/// Where a thread was.
#[derive(Clone, Copy)]
struct Place {
    tgid: u32,
    /// In user space; 0: not known.
    ip: u64,
    /// The system call in which it was.
    call: Option<u32>,
}

impl Place {
    fn of(sample: &Sample) -> Place {
        Place { tgid: sample.tgid, ip: sample.ip, call: sample.in_kernel.checked_sub(1) }
    }

    fn address(self) -> (u32, u64) {
        (self.tgid, self.ip)
    }
}

/// What is known. All methods take a short lock.
#[derive(Default)]
pub struct Spins {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By process and user address; a yielding thread's address is that of sched_yield(2)'s return.
    known: HashMap<(u32, u64), Option<Waiting>>,
    /// How often was asked for whom nobody has judged.
    asked: HashMap<(u32, u64), u32>,
}

impl Spins {
    /// Whether a thread was waiting in a loop when it was switched out. Asks for it where that is not known.
    pub fn is_waiting(&self, stand: &Stand) -> bool {
        let place = Place { tgid: stand.tgid, ip: stand.ip, call: u32::try_from(stand.call).ok() };
        let waits = self.waits_at(place);
        if waits.is_none() {
            self.ask_for(place);
        }
        waits.is_some()
    }

    /// Whether a thread gave its CPU away when it was switched out.
    pub fn is_yielding(stand: &Stand) -> bool {
        u32::try_from(stand.call) == Ok(arch::SYS_SCHED_YIELD)
    }

    /// In what loop a running thread was waiting when it was sampled, as far as is known.
    pub fn waited_in(&self, sample: &Sample) -> Option<Waiting> {
        self.waits_at(Place::of(sample))
    }

    /// A sample was taken there.
    pub fn ask(&self, sample: &Sample) {
        self.ask_for(Place::of(sample));
    }

    fn waits_at(&self, place: Place) -> Option<Waiting> {
        match place.call {
            Some(call) => (call == arch::SYS_SCHED_YIELD).then_some(Waiting::Yield),
            None => self.inner.lock().ok()?.known.get(&place.address()).copied().flatten(),
        }
    }

    fn ask_for(&self, place: Place) {
        let Ok(mut inner) = self.inner.lock() else { return };
        if place.call.is_some() || place.ip == 0 || inner.known.contains_key(&place.address()) {
            return;
        }
        if inner.known.len() + inner.asked.len() >= MAX_KNOWN {
            // Most were asked for once, long ago.
            inner.asked.clear();
        }
        if inner.known.len() < MAX_KNOWN {
            *inner.asked.entry(place.address()).or_default() += 1;
        }
    }

    /// Judges what was asked for. Reads /proc and binaries.
    pub fn settle(&self, judge: &mut Judge) {
        let asked: Vec<(u32, u64)> = match self.inner.lock() {
            Ok(inner) => {
                let often = inner.asked.iter().filter(|(_, asked)| **asked >= ASKED);
                often.map(|(&place, _)| place).take(MAX_BATCH).collect()
            }
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
