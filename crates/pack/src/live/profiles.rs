//! Profiles of a program that is not packed: where its threads run, sampled without BPF.

use std::collections::HashMap;

use machine::process::Task;
use machine::{Root, busy};
use symbols::Judge;
use watch::perf::Profile;
use wire::{Sample, Waiting};

use super::spins::Spins;
use crate::policy::profile::{JUDGED_PART, Profiled, Shown};

/// Number of samples of each CPU in a profile. On a virtual machine a sample takes up to 26 us.
const SAMPLES: u64 = 25;

/// Maximum number of threads that a profile samples: to begin takes some 20 us for each of them.
const MAX_THREADS: usize = 16;

/// Where it is looked up which code waits.
pub struct Code<'k> {
    pub spins: &'k Spins,
    pub judge: &'k mut Judge,
}

/// A look at the program.
#[derive(Clone, Copy, Debug)]
pub struct Looked {
    /// When it was.
    pub now_ns: u64,
    /// CPU time of all threads so far, ns.
    pub run_ns: u64,
}

/// The profiles of one program.
pub struct Profiles {
    /// CPUs of the pack.
    cpus: Vec<u32>,
    under_way: Option<UnderWay>,
    shown: Shown,
    /// Run time and number of sleeps of threads when these were read last, by process and thread.
    slept: HashMap<(u32, u32), (u64, u64)>,
    /// For how long the CPUs had been idle when the first profile began; `None` before it, or if the kernel does not say.
    idle_before_ns: Option<u64>,
}

/// A profile that is under way.
struct UnderWay {
    profile: Profile,
    begun: Looked,
    ends_ns: u64,
}

impl Profiles {
    /// No profiles, of a program that is to be packed on these CPUs.
    pub fn on(cpus: &[u32]) -> Profiles {
        let slept = HashMap::new();
        Profiles { cpus: cpus.to_vec(), under_way: None, shown: Shown::default(), slept, idle_before_ns: None }
    }

    /// Called after a look that found that these threads run, given as process and thread, and that they are more than
    /// the CPUs. Returns whether the program is worth measuring. Without the right to sample, it always is.
    pub fn is_promising(&mut self, running: &[(u32, u32)], looked: Looked, code: &mut Code<'_>) -> bool {
        if let Some(ended) = self.under_way.take_if(|under_way| looked.now_ns >= under_way.ends_ns) {
            let (spinning, yielding) = waiting(ended.profile, code);
            let length_ns = looked.now_ns - ended.begun.now_ns;
            let run_ns = looked.run_ns.saturating_sub(ended.begun.run_ns);
            let slots = self.cpus.len();
            self.shown.add(Profiled { length_ns, run_ns, spinning, yielding }, slots);
            let before_ns = self.idle_before_ns;
            let idle_ns = || Some(idle_ns(&self.cpus)?.saturating_sub(before_ns?));
            let slept = &mut self.slept;
            if self.shown.count == 1 {
                burst_ns(running, slept);
            }
            if self.shown.is_promising(slots, idle_ns, || burst_ns(running, slept)) {
                return true;
            }
        }
        if self.under_way.is_some() {
            return false;
        }
        let length_ns = self.shown.next_length_ns();
        let profile = Profile::at(running.iter().copied().take(MAX_THREADS), length_ns / SAMPLES);
        if profile.threads() == 0 {
            return true;
        }
        if self.shown.count == 0 && self.idle_before_ns.is_none() {
            self.idle_before_ns = idle_ns(&self.cpus);
        }
        self.under_way = Some(UnderWay { profile, begun: looked, ends_ns: looked.now_ns + length_ns });
        false
    }

    /// Called after a look that found no more running threads than CPUs: packing cannot help now. A profile that has ended
    /// by then is discarded.
    pub fn discard(&mut self, now_ns: u64) {
        self.under_way.take_if(|under_way| now_ns >= under_way.ends_ns);
    }

    /// Returns the number of profiles that were judged.
    pub fn count(&self) -> u64 {
        self.shown.count
    }

    /// Returns when the profile ends that is under way, ns.
    pub fn ends_ns(&self) -> Option<u64> {
        self.under_way.as_ref().map(|under_way| under_way.ends_ns)
    }
}

/// Reads run time and number of sleeps of threads. Returns how long they ran between two sleeps on average since the last call, ns; `None` if they were
/// not read before.
fn burst_ns(running: &[(u32, u32)], before: &mut HashMap<(u32, u32), (u64, u64)>) -> Option<u64> {
    let root = Root::live();
    let read = |&(tgid, tid): &(u32, u32)| {
        let task = Task::thread(&root, tgid, tid);
        Some(((tgid, tid), (task.schedstat().ok()?.run_ns, task.switches().ok()?.voluntary)))
    };
    let now: HashMap<(u32, u32), (u64, u64)> = running.iter().take(MAX_THREADS).filter_map(read).collect();
    let since = now.iter().filter_map(|(id, now)| Some((now, before.get(id)?)));
    let sums: Option<(u64, u64)> = since.fold(None, |sums, (now, before)| {
        let (run_ns, sleeps) = sums.unwrap_or_default();
        Some((run_ns + now.0.saturating_sub(before.0), sleeps + now.1.saturating_sub(before.1)))
    });
    *before = now;
    sums.map(|(run_ns, sleeps)| run_ns / sleeps.max(1))
}

/// Returns for how long these CPUs have been idle, all together, ns.
fn idle_ns(cpus: &[u32]) -> Option<u64> {
    let times = busy::times(&Root::live()).ok()?;
    Some(cpus.iter().filter_map(|cpu| times.get(cpu)).map(|times| times.idle_ns).sum())
}

/// Ends a profile. Returns the fractions of its samples in loops that wait: without yielding, and with it.
fn waiting(profile: Profile, code: &mut Code<'_>) -> (f64, f64) {
    let samples = profile.end();
    let line = |sample: &Sample| (sample.tgid, Spins::line(sample.ip));
    let mut in_line: HashMap<(u32, u64), usize> = HashMap::new();
    for sample in &samples {
        *in_line.entry(line(sample)).or_default() += 1;
    }
    let least = (JUDGED_PART * samples.len() as f64).max(2.0);
    samples.iter().filter(|sample| in_line[&line(sample)] as f64 >= least).for_each(|sample| code.spins.ask(sample));
    code.spins.settle(code.judge);
    let waits: Vec<bool> = samples
        .iter()
        .filter_map(|sample| code.spins.waited_in(sample))
        .map(|waiting| waiting == Waiting::Yield)
        .collect();
    let part = |yields: bool| waits.iter().filter(|is| **is == yields).count() as f64 / samples.len().max(1) as f64;
    (part(false), part(true))
}
