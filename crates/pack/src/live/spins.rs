//! Finds out which code of the program spins, that is, waits for other threads in a loop.
//!
//! Tickers (the threads that end scheduling periods) must not read binaries. They look addresses up in a table, and
//! queue those that are not in it. The manager *judges* the queued addresses: it finds out from the binaries whether
//! the code there waits. Until then the code counts as work, which costs one scheduling period at most.
//!
//! Samples only queue code that was sampled twice. To judge a function, cox reads its binary and searches all loops of
//! the function, which takes up to some milliseconds. A program that computes is sampled in hundreds of functions, and
//! judging all of them took 0.15 s of CPU time for ffmpeg, 0.35 s for a parallel make. A waiting loop that matters is
//! short, so it is sampled again at the same place within some milliseconds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use symbols::Judge;
use wire::{Sample, ThreadSnapshot, Waiting};

/// Maximum number of addresses that are kept; a program has some thousands of hot addresses. Code beyond this number
/// counts as work.
const MAX_KNOWN: usize = 1 << 16;
/// Maximum number of addresses judged in one pass, because reading symbols takes time.
const MAX_BATCH: usize = 512;
/// Code is counted by lines of `1 << LINE_BITS` bytes, because a waiting loop has several instructions.
const LINE_BITS: u32 = 6;
/// Code is judged from this sample in its line on.
const SAMPLES: u32 = 2;

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
    /// How many samples were taken in each line of code that is not judged yet, by process and line.
    sampled: HashMap<(u32, u64), u32>,
}

impl Spins {
    /// Returns whether a thread was spinning when it was switched out. Queues its code if that is not known yet.
    pub fn is_waiting(&self, snapshot: &ThreadSnapshot) -> bool {
        let call = u32::try_from(snapshot.call).ok();
        self.waits_at(snapshot.tgid, snapshot.ip, call, Inner::ask).is_some()
    }

    /// Returns whether a thread was switched out in sched_yield(2).
    pub fn is_yielding(snapshot: &ThreadSnapshot) -> bool {
        u32::try_from(snapshot.call) == Ok(arch::SYS_SCHED_YIELD)
    }

    /// Returns the kind of loop in which a running thread was spinning when it was sampled.
    pub fn waited_in(&self, sample: &Sample) -> Option<Waiting> {
        self.waits_at(sample.tgid, sample.ip, sample.call(), |_, _| ())
    }

    /// Returns the number of the line that contains an address.
    pub fn line(ip: u64) -> u64 {
        ip >> LINE_BITS
    }

    /// Queues the code of a sample, if it is not known yet.
    pub fn ask(&self, sample: &Sample) {
        self.waits_at(sample.tgid, sample.ip, sample.call(), Inner::ask);
    }

    /// Counts a sample. Queues its code if it has been sampled before, and is not known yet.
    pub fn count(&self, sample: &Sample) {
        self.waits_at(sample.tgid, sample.ip, sample.call(), Inner::count);
    }

    /// Returns the kind of waiting loop at an address; calls `unknown` if that is not known yet.
    fn waits_at(
        &self,
        tgid: u32,
        ip: u64,
        call: Option<u32>,
        unknown: impl FnOnce(&mut Inner, (u32, u64)),
    ) -> Option<Waiting> {
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
                unknown(&mut inner, place);
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

impl Inner {
    /// Queues an address.
    fn ask(&mut self, place: (u32, u64)) {
        if self.known.len() + self.asked.len() < MAX_KNOWN {
            self.asked.insert(place);
        }
    }

    /// Counts a sample in the line of an address. Queues the address if enough samples were taken in the line.
    fn count(&mut self, place: (u32, u64)) {
        if self.sampled.len() >= MAX_KNOWN {
            // Most of these lines belong to processes that have ended. The others are counted again.
            self.sampled.clear();
        }
        let count = self.sampled.entry((place.0, Spins::line(place.1))).or_default();
        *count = count.saturating_add(1);
        if *count >= SAMPLES {
            self.ask(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tid: u32, ip: u64) -> Sample {
        Sample { tgid: 7, tid, ip, ..Sample::default() }
    }

    fn asked(spins: &Spins) -> Vec<u64> {
        let mut ips: Vec<u64> = spins.inner.lock().unwrap().asked.iter().map(|(_, ip)| *ip).collect();
        ips.sort_unstable();
        ips
    }

    #[test]
    fn code_is_judged_once_it_was_sampled_twice() {
        let spins = Spins::default();
        spins.count(&sample(1, 0x1000));
        spins.count(&sample(1, 0x2000));
        assert_eq!(asked(&spins), [0u64; 0], "one sample each");
        // Another instruction of the same loop, sampled in another thread.
        spins.count(&sample(2, 0x1010));
        assert_eq!(asked(&spins), [0x1010]);
        spins.count(&sample(1, 0x1000));
        assert_eq!(asked(&spins), [0x1000, 0x1010]);
        // A look-up counts nothing.
        spins.waited_in(&sample(1, 0x2000));
        assert_eq!(asked(&spins), [0x1000, 0x1010]);
    }

    #[test]
    fn what_is_known_is_not_counted() {
        let spins = Spins::default();
        spins.inner.lock().unwrap().known.insert((7, 0x1000), Some(Waiting::TightLoop));
        for _ in 0..5 {
            spins.count(&sample(1, 0x1000));
        }
        assert_eq!((asked(&spins), spins.waited_in(&sample(1, 0x1000))), (Vec::new(), Some(Waiting::TightLoop)));
        assert!(spins.inner.lock().unwrap().sampled.is_empty());
    }
}
