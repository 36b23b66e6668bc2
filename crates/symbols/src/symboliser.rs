//! Turns samples into sample sites (`SampleSite`).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use arch::BlockedIn;
use machine::Root;
use wire::{Cause, Sample, SampleSite, Waiting};

use crate::modules::ModuleId;
use crate::processes::Processes;
use crate::reader::{Meaning, Reader};
use crate::rounds::Rounds;
use crate::serial::{Functions, Work};

/// Maximum number of distinct places (process, thread, generation of its mapped code, address, system call); they take 40 MB. A program has some
/// thousands of hot addresses per thread.
const MAX_PLACES: usize = 1 << 20;

/// Maximum number of processes. The maps of a process take about 1 KB.
const MAX_PROCESSES: usize = 1 << 16;

/// The shares of a thread whose first and last sample are less apart than this, ns, come from all of its samples. Without those in rounds, a tenth of a second here and there, its
/// phases would have wrong weights; with them, waiting counts for a little more than it takes, because CPUs that are sampled together delay one another.
const BRIEF_NS: u64 = 600_000_000;

/// Module name for code of a process that was gone before its maps could be read.
const UNKNOWN: &str = "[unknown]";

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    tgid: u32,
    tid: u32,
    generation: u32,
    in_kernel: bool,
    call: Option<u32>,
    ip: u64,
}

/// The number of samples at one place: a distinct combination of process, thread, generation of the process's mapped code, address and system call.
struct Counted {
    /// Those that count for shares.
    samples: u64,
    /// All samples, and those with no other thread.
    all: u64,
    only: u64,
    /// Number of the place, in the order in which places were first seen.
    number: u32,
}

/// Sums of samples of one thread in one function.
#[derive(Default)]
struct Sum {
    samples: u64,
    in_kernel: u64,
    serial: f64,
}

/// Counts samples while processes live, and interprets them at the end.
pub struct Symboliser {
    processes: Processes,
    counts: HashMap<Place, Counted>,
    rounds: Rounds,
    /// Times of the first and the last sample of each thread.
    lives: HashMap<u32, (u64, u64)>,
    waits: Vec<Option<Waiting>>,
    max_places: usize,
    lost: u64,
}

/// A function: its module, and the address at which it starts.
type FunctionId = (ModuleId, u64);

impl Symboliser {
    /// Makes a symboliser that reads /proc and files below `root`.
    pub fn new(root: Root) -> Symboliser {
        Symboliser {
            processes: Processes::new(root),
            counts: HashMap::new(),
            rounds: Rounds::default(),
            lives: HashMap::new(),
            waits: Vec::new(),
            max_places: MAX_PLACES,
            lost: 0,
        }
    }

    /// Counts samples. Must be called at least every 100 ms, so that the sampled processes still live. Reads their maps (once, and again after exec
    /// or for a new address) and opens the sampled files, but does not read these files.
    ///
    /// Calls `each` with every sample and the number of its place, which is the index into [`waits`](Symboliser::waits). `each` is not
    /// called for lost samples, nor for samples in rounds, which count for no share.
    pub fn observe(&mut self, samples: &[Sample], mut each: impl FnMut(&Sample, u32)) {
        let now = Instant::now();
        let mut looked = HashSet::new();
        for sample in samples {
            if looked.insert(sample.tgid)
                && (self.processes.len() < MAX_PROCESSES || self.processes.contains(sample.tgid))
            {
                self.processes.look(sample.tgid, now);
            }
            let Some((generation, _)) = self.processes.locate(sample.tgid, sample.ip, now) else {
                self.lost += 1;
                continue;
            };
            let Sample { tgid, tid, ip, .. } = *sample;
            let place = Place { tgid, tid, generation, in_kernel: sample.in_kernel != 0, call: sample.call(), ip };
            // A sample in a round shows which threads worked at the same time. The shares of functions come from the other samples, where there are enough.
            let of_shares = u64::from(!sample.is_in_round());
            let free = self.counts.len();
            let only = u64::from(sample.is_only());
            self.lives.entry(tid).or_insert((sample.t_ns, sample.t_ns)).1 = sample.t_ns;
            let number = match self.counts.get_mut(&place) {
                Some(counted) => {
                    counted.samples += of_shares;
                    counted.all += 1;
                    counted.only += only;
                    counted.number
                }
                None if free < self.max_places => {
                    let number = free as u32;
                    self.counts.insert(place, Counted { samples: of_shares, all: 1, only, number });
                    number
                }
                None => {
                    self.lost += 1;
                    continue;
                }
            };
            if sample.is_in_round() {
                // A sample that says so itself needs no others.
                if sample.is_only() {
                    continue;
                }
                self.rounds.add(sample.t_ns, tid, number, sample.is_queued());
            } else {
                each(sample, number);
            }
        }
    }

    /// Returns the file names of the executable mappings of sampled processes.
    pub fn module_names(&self) -> impl Iterator<Item = &str> {
        self.processes.modules.names()
    }

    /// Returns the number of samples that were dropped because there were too many processes or distinct places.
    pub fn lost_samples(&self) -> u64 {
        self.lost
    }

    /// Returns, by number of the place, why a thread sampled there waited; `None`: it worked. Filled by [`sample_sites`](Symboliser::sample_sites).
    pub fn waits(&self) -> &[Option<Waiting>] {
        &self.waits
    }

    /// Returns everything observed so far, by thread, module, function and reason to wait. Sorted by thread, and within a thread by number of
    /// samples, the largest first. Reads the ELF files, even of processes that are gone.
    pub fn sample_sites(&mut self) -> Vec<SampleSite> {
        let meanings = self.meanings();
        let meaning_of = |place: &Place| {
            let range = self.processes.range(place.tgid, place.generation, place.ip)?;
            let meaning = meanings.get(&(range.module, range.file_offset(place.ip)));
            Some((range.module, meaning))
        };
        let mut waits = vec![None; self.counts.len()];
        for (place, counted) in &self.counts {
            let meaning = meaning_of(place).and_then(|(_, meaning)| meaning);
            waits[counted.number as usize] = match place.call {
                None => meaning.and_then(|meaning| meaning.waiting),
                Some(call) => waiting_in(call),
            };
        }
        let function_of = |place: &Place| -> Option<FunctionId> {
            let (module, meaning) = meaning_of(place)?;
            Some((module, meaning?.start?))
        };
        let in_rounds = self.rounds.by_place(waits.len(), |place| waits[place as usize].is_none());
        let mut functions = Functions::new();
        for (place, counted) in &self.counts {
            let number = counted.number as usize;
            if let Some(function) = function_of(place).filter(|_| waits[number].is_none()) {
                let work = Work { samples: counted.all, only: counted.only, contested: in_rounds[number] };
                functions.add(function, place.tid, work);
            }
        }
        let is_brief = |tid| self.lives.get(&tid).is_some_and(|(first, last)| last.saturating_sub(*first) < BRIEF_NS);
        let of_shares =
            |place: &Place, counted: &Counted| if is_brief(place.tid) { counted.all } else { counted.samples };
        let mut sums: HashMap<_, Sum> = HashMap::new();
        for (place, counted) in &self.counts {
            let samples = of_shares(place, counted);
            if samples == 0 {
                continue;
            }
            let found = meaning_of(place);
            let module = found.map_or(UNKNOWN, |(module, _)| self.processes.modules.get(module).name.as_str());
            let function = found.and_then(|(_, meaning)| meaning?.function.as_deref());
            let waiting = waits[counted.number as usize];
            let serial_part = function_of(place).map_or(0.0, |function| functions.serial_part(&function, place.tid));
            let sum = sums.entry((place.tgid, place.tid, module, function, waiting)).or_default();
            sum.samples += samples;
            sum.in_kernel += if place.in_kernel { samples } else { 0 };
            sum.serial += if waiting.is_none() { serial_part * samples as f64 } else { 0.0 };
        }
        let mut sample_sites: Vec<SampleSite> = sums
            .into_iter()
            .map(|((tgid, tid, module, function, waiting), sum)| SampleSite {
                tid,
                tgid,
                samples: sum.samples,
                in_kernel: sum.in_kernel,
                serial: sum.serial.round() as u64,
                module: module.to_owned(),
                function: function.map(str::to_owned),
                waiting,
            })
            .collect();
        self.waits = waits;
        sample_sites.sort_by(|a, b| order(a).cmp(&order(b)));
        sample_sites
    }

    /// Returns, for each sampled offset of each module whose file can be opened: the function there, and what the code there waits for, if it waits.
    fn meanings(&self) -> HashMap<(ModuleId, u64), Meaning> {
        let mut offsets: HashMap<ModuleId, HashSet<u64>> = HashMap::new();
        for place in self.counts.keys() {
            if let Some(range) = self.processes.range(place.tgid, place.generation, place.ip) {
                offsets.entry(range.module).or_default().insert(range.file_offset(place.ip));
            }
        }
        let Processes { modules, root, .. } = &self.processes;
        let mut meanings = HashMap::new();
        for (module, offsets) in offsets {
            // A file that is not an ELF file has no functions: only the module is reported.
            let Some(mut reader) = Reader::open(modules, module, root) else { continue };
            for offset in offsets {
                meanings.insert((module, offset), reader.meaning(offset));
            }
        }
        meanings
    }
}

/// Returns why a thread waits for other threads in the system call `call`; `None` if it does not. In a 32-bit program, system calls have other numbers.
fn waiting_in(call: u32) -> Option<Waiting> {
    match arch::blocked_in(call) {
        _ if call == arch::SYS_SCHED_YIELD => Some(Waiting::Yield),
        BlockedIn::Cause(Cause::Futex) => Some(Waiting::Futex),
        _ => None,
    }
}

fn order(site: &SampleSite) -> impl Ord {
    (site.tgid, site.tid, Reverse(site.samples), &site.module, &site.function, site.waiting)
}

#[cfg(test)]
mod tests;
