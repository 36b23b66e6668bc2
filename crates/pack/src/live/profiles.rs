//! Profiles of a program that is not packed: where its threads run, sampled without BPF.

use std::collections::HashMap;

use symbols::Judge;
use watch::perf::Profile;
use wire::{Sample, Waiting};

use super::spins::Spins;
use crate::policy::profile::Profiled;

/// Lengths of the profiles, ns. The first one is short, because threads that spin may be ten times slower without packing.
/// The others follow one another without a pause, and longer ones cost less: to end a profile and to begin the next one,
/// cox wakes up, which can move a thread of the program to another CPU.
const LENGTHS_NS: [u64; 5] = [10_000_000, 30_000_000, 60_000_000, 120_000_000, 200_000_000];

/// Number of samples of each CPU in a profile. On a virtual machine a sample takes up to 26 us.
const SAMPLES: u64 = 25;

/// Maximum number of threads that a profile samples: to begin takes some 20 us for each of them.
const MAX_THREADS: usize = 16;

/// Code is judged if at least this part of a profile's samples hit its line. A waiting loop that matters is short, and a
/// program that computes is sampled in many places, all of which would cost more to judge than the profile itself.
const JUDGED_PART: f64 = 0.05;

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
    /// Number of CPUs in the pack.
    pub slots: usize,
}

/// The profiles of one program.
#[derive(Default)]
pub struct Profiles {
    under_way: Option<UnderWay>,
    /// Number of profiles that have ended.
    count: u64,
    /// Length of all profiles that were not discarded, and the CPU time of all threads in them, ns.
    crowded_ns: u64,
    ran_ns: u64,
}

/// A profile that is under way.
struct UnderWay {
    profile: Profile,
    begun: Looked,
    ends_ns: u64,
    /// CPU time between two samples of a thread, ns.
    period_ns: u64,
}

impl Profiles {
    /// Called after a look that found that these threads run, given as process and thread, and that they are more than
    /// the CPUs. Returns whether the program is worth measuring. Without the right to sample, it always is.
    pub fn is_promising(&mut self, running: &[(u32, u32)], looked: Looked, code: &mut Code<'_>) -> bool {
        if let Some(ended) = self.under_way.take_if(|under_way| looked.now_ns >= under_way.ends_ns) {
            self.count += 1;
            let length_ns = looked.now_ns - ended.begun.now_ns;
            self.crowded_ns += length_ns;
            self.ran_ns += looked.run_ns.saturating_sub(ended.begun.run_ns);
            let spinning_ns = spinning(ended.profile, code) * ended.period_ns;
            let of_cpus = |ns: u64, all_ns: u64| ns as f64 / (all_ns * looked.slots as u64) as f64;
            let profiled = Profiled {
                spinning: of_cpus(spinning_ns, length_ns),
                busy: of_cpus(self.ran_ns, self.crowded_ns),
                crowded_ns: self.crowded_ns,
            };
            if profiled.is_promising() {
                return true;
            }
        }
        if self.under_way.is_some() {
            return false;
        }
        let length_ns = LENGTHS_NS[LENGTHS_NS.len().min(self.count as usize + 1) - 1];
        let period_ns = length_ns / SAMPLES;
        let profile = Profile::at(running.iter().copied().take(MAX_THREADS), period_ns);
        if profile.threads() == 0 {
            return true;
        }
        self.under_way = Some(UnderWay { profile, begun: looked, ends_ns: looked.now_ns + length_ns, period_ns });
        false
    }

    /// Called after a look that found no more running threads than CPUs: packing cannot help now. A profile that has ended
    /// by then is discarded.
    pub fn discard(&mut self, now_ns: u64) {
        self.under_way.take_if(|under_way| now_ns >= under_way.ends_ns);
    }

    /// Returns the number of profiles that have ended.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns when the profile ends that is under way, ns.
    pub fn ends_ns(&self) -> Option<u64> {
        self.under_way.as_ref().map(|under_way| under_way.ends_ns)
    }
}

/// Ends a profile. Returns the number of samples of threads that spun without yielding.
fn spinning(profile: Profile, code: &mut Code<'_>) -> u64 {
    let samples = profile.end();
    let line = |sample: &Sample| (sample.tgid, Spins::line(sample.ip));
    let mut in_line: HashMap<(u32, u64), usize> = HashMap::new();
    for sample in &samples {
        *in_line.entry(line(sample)).or_default() += 1;
    }
    let least = (JUDGED_PART * samples.len() as f64).max(2.0);
    samples.iter().filter(|sample| in_line[&line(sample)] as f64 >= least).for_each(|sample| code.spins.ask(sample));
    code.spins.settle(code.judge);
    let spins = |waits: Option<Waiting>| waits.is_some_and(|waits| waits != Waiting::Yield);
    samples.iter().filter(|sample| spins(code.spins.waited_in(sample))).count() as u64
}
