//! Profiles of a program that is not packed: where its threads run, sampled without BPF.

use std::collections::HashMap;
use std::thread;

use machine::process::Task;
use machine::{Root, busy};
use symbols::Judge;
use watch::perf::Profile;
use wire::{Sample, Waiting};

use super::spins::Spins;
use crate::policy::profile::{CLOSE_LOOK, JUDGED_PART, Profiled, Ran, Shown, Worth, ran_through};

/// Maximum number of threads whose sleeps are counted, and that a profile samples: each takes some 20 us.
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
    /// CPU time and number of sleeps of each thread from its start to the last call, by process and thread.
    before: HashMap<(u32, u32), Ran>,
    /// Number of calls that found the threads not worth a profile.
    short_bursts: u64,
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
        let (shown, before) = (Shown::default(), HashMap::new());
        Profiles { cpus: cpus.to_vec(), under_way: None, shown, before, short_bursts: 0, idle_before_ns: None }
    }

    /// Called after a look that found that these threads run, given as process and thread, and that they are more than
    /// the CPUs. Returns whether the program is worth measuring. Without the right to sample, it is if it is worth a
    /// profile.
    pub fn is_promising(&mut self, running: &[(u32, u32)], looked: Looked, code: &mut Code<'_>) -> bool {
        let ran = self.ran(running);
        let is_worth_it = match Worth::of(&ran) {
            Worth::Nothing => false,
            Worth::CloseLook => {
                thread::sleep(CLOSE_LOOK);
                ran_through(&self.ran(running), running.len(), self.cpus.len())
            }
            Worth::Profile => true,
        };
        if !is_worth_it {
            self.under_way = None;
            self.short_bursts += 1;
            return false;
        }
        if let Some(ended) = self.under_way.take_if(|under_way| looked.now_ns >= under_way.ends_ns) {
            let length_ns = looked.now_ns - ended.begun.now_ns;
            let run_ns = looked.run_ns.saturating_sub(ended.begun.run_ns);
            let slots = self.cpus.len();
            self.shown.add(Profiled { length_ns, run_ns, ..profiled(ended.profile, code) }, slots);
            let before_ns = self.idle_before_ns;
            let idle_ns = || Some(idle_ns(&self.cpus)?.saturating_sub(before_ns?));
            if self.shown.is_promising(slots, idle_ns, &ran) {
                return true;
            }
        }
        if self.under_way.is_some() {
            return false;
        }
        let length_ns = self.shown.next_length_ns();
        let profile = Profile::at(running.iter().copied().take(MAX_THREADS), self.shown.next_interval_ns());
        if profile.threads() == 0 {
            return true;
        }
        if self.shown.count == 0 && self.idle_before_ns.is_none() {
            self.idle_before_ns = idle_ns(&self.cpus);
        }
        self.under_way = Some(UnderWay { profile, begun: looked, ends_ns: arch::monotonic_ns() + length_ns });
        false
    }

    /// Returns how much each of these threads ran and slept since the last call, or since its start.
    fn ran(&mut self, running: &[(u32, u32)]) -> Vec<Ran> {
        let root = Root::live();
        let read = |&(tgid, tid): &(u32, u32)| {
            let task = Task::thread(&root, tgid, tid);
            let (run_ns, switches) = (task.schedstat().ok()?.run_ns, task.switches().ok()?);
            let (sleeps, switches) = (switches.voluntary, switches.voluntary + switches.involuntary);
            Some(((tgid, tid), Ran { run_ns, sleeps, switches }))
        };
        // Evenly: threads that were created together may do the same.
        let some = running.iter().step_by(running.len().div_ceil(MAX_THREADS).max(1));
        let now: HashMap<(u32, u32), Ran> = some.filter_map(read).collect();
        let ran = now.iter().map(|(id, now)| now.since(self.before.get(id))).collect();
        self.before = now;
        ran
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

    /// Returns how often the threads slept or yielded too often for a profile.
    pub fn short_bursts(&self) -> u64 {
        self.short_bursts
    }

    /// Returns when the profile ends that is under way, ns.
    pub fn ends_ns(&self) -> Option<u64> {
        self.under_way.as_ref().map(|under_way| under_way.ends_ns)
    }
}

/// Returns for how long these CPUs have been idle, all together, ns.
fn idle_ns(cpus: &[u32]) -> Option<u64> {
    let times = busy::times(&Root::live()).ok()?;
    Some(cpus.iter().filter_map(|cpu| times.get(cpu)).map(|times| times.idle_ns).sum())
}

/// Ends a profile. Returns which fractions of its samples were in loops that wait.
fn profiled(profile: Profile, code: &mut Code<'_>) -> Profiled {
    let samples = profile.end();
    let line = |sample: &Sample| (sample.tgid, Spins::line(sample.ip));
    let mut in_line: HashMap<(u32, u64), usize> = HashMap::new();
    for sample in &samples {
        *in_line.entry(line(sample)).or_default() += 1;
    }
    let least = (JUDGED_PART * samples.len() as f64).max(2.0);
    samples.iter().filter(|sample| in_line[&line(sample)] as f64 >= least).for_each(|sample| code.spins.ask(sample));
    code.spins.settle(code.judge);
    let waits: Vec<Waiting> = samples.iter().filter_map(|sample| code.spins.waited_in(sample)).collect();
    let yielding = waits.iter().filter(|waits| **waits == Waiting::Yield).count();
    let part = |count: usize| count as f64 / samples.len().max(1) as f64;
    Profiled { spinning: part(waits.len() - yielding), yielding: part(yielding), ..Profiled::default() }
}
