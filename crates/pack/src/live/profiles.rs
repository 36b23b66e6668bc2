//! Profiles of a program that is not packed: where its threads run, sampled without BPF.

use std::collections::HashMap;

use symbols::Judge;
use watch::perf::Profile;
use wire::{Sample, Waiting};

use super::spins::Spins;
use crate::policy::profile::Profiled;

/// Length of a profile, and the CPU time between two samples of a thread in it, ns: 25 samples of each CPU. On a virtual
/// machine a sample takes up to 26 us.
const PROFILE_NS: u64 = 10_000_000;
const SAMPLE_NS: u64 = 400_009;

/// Maximum number of threads that a profile samples: to begin takes some 20 us for each of them.
const MAX_THREADS: usize = 16;

/// Time between two profiles, ns: the first and the longest pause. Each further pause is twice as long, so that profiles
/// take less than 1 % of the CPUs' time from then on.
const PAUSE_NS: (u64, u64) = (20_000_000, 200_000_000);

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
pub struct Profiles {
    /// The profile that is under way, and when it began.
    under_way: Option<(Profile, u64)>,
    /// The next profile begins no sooner.
    next_ns: u64,
    pause_ns: u64,
    count: u64,
    /// The first look that found more running threads than CPUs.
    first: Option<Looked>,
}

impl Default for Profiles {
    fn default() -> Profiles {
        Profiles { under_way: None, next_ns: 0, pause_ns: PAUSE_NS.0, count: 0, first: None }
    }
}

impl Profiles {
    /// Called after a look that found that these threads run, given as process and thread, and that they are more than
    /// the CPUs. Returns whether the program is worth measuring. Without the right to sample, it always is.
    pub fn is_promising(&mut self, running: &[(u32, u32)], looked: Looked, code: &mut Code<'_>) -> bool {
        let first = *self.first.get_or_insert(looked);
        if let Some((profile, begun_ns)) =
            self.under_way.take_if(|(_, begun_ns)| looked.now_ns >= *begun_ns + PROFILE_NS)
        {
            let spinning_ns = spinning(profile, code) * SAMPLE_NS;
            let of_cpus =
                |ns: u64, since_ns: u64| ns as f64 / ((looked.now_ns - since_ns) * looked.slots as u64) as f64;
            let profiled = Profiled {
                spinning: of_cpus(spinning_ns, begun_ns),
                busy: of_cpus(looked.run_ns.saturating_sub(first.run_ns), first.now_ns),
                crowded_ns: looked.now_ns - first.now_ns,
            };
            self.count += 1;
            self.next_ns = looked.now_ns + self.pause_ns;
            self.pause_ns = (self.pause_ns * 2).min(PAUSE_NS.1);
            return profiled.is_promising();
        }
        if self.under_way.is_some() || looked.now_ns < self.next_ns {
            return false;
        }
        let profile = Profile::at(running.iter().copied().take(MAX_THREADS), SAMPLE_NS);
        if profile.threads() == 0 {
            return true;
        }
        self.under_way = Some((profile, looked.now_ns));
        false
    }

    /// Returns the number of profiles that have ended.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the time before which no profile begins, ns.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns when the profile ends that is under way, ns.
    pub fn ends_ns(&self) -> Option<u64> {
        self.under_way.as_ref().map(|(_, begun_ns)| begun_ns + PROFILE_NS)
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
