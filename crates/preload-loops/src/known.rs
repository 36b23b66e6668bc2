//! A loop that a team has executed: its record, and the rule of its next instance.
//!
//! Only the thread that opens an instance uses this (see [`crate::chain`]), so nothing here needs a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::figures::{Finish, imbalance, load_imbalance};
use loops::saved::Saved;
use loops::selection::auto::{Auto, Verdict};
use loops::selection::{self, PORTFOLIO, Select};
use loops::{Kind, Plan};
use wire::loop_records::{Clause as Written, Record};

use crate::clause::Clause;
use crate::finished::{Finished, Part};
use crate::plans::{Prepared, Rule};
use crate::sampling::Sampling;
use crate::{clock, delays, file, modules, runtime};
use loops::options::{Options, Wanted};

/// The schedules that an earlier run has found.
pub static SAVED: OnceLock<Saved> = OnceLock::new();

/// A loop of a team.
pub struct KnownLoop {
    place: usize,
    written: Written,
    threads: u32,
    /// `None` if there is no file, or no room in it.
    record: Option<&'static Record>,
    generation: u64,
    /// Instances that were opened.
    opened: u64,
    sampling: Sampling,
    trial: Option<Trial>,
    /// The schedule that an earlier run has found.
    found: Option<Found>,
}

/// A schedule from a file. Its chunk is a smallest size, like the program's.
#[derive(Clone, Copy)]
struct Found {
    kind: Kind,
    chunk: u64,
}

/// The schedules that are tried for a loop.
struct Trial {
    schedules: Vec<Kind>,
    auto: Auto,
}

/// What is measured in an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// When the first thread arrived, and when each thread finished.
    pub times: bool,
    /// The time of each request.
    pub requests: bool,
    /// How long threads wait for a CPU.
    pub delays: bool,
}

/// An instance that has ended.
pub struct Ended<'i> {
    /// Its plan.
    pub prepared: &'i Prepared,
    /// When the first thread arrived, ticks, if times were measured.
    pub began: u64,
    /// What was measured in it.
    pub measured: Measured,
    /// The value of the shared counter.
    pub counter: u64,
    /// Its number in the slot.
    pub number: u64,
    /// One for each thread.
    pub finished: &'i [Finished],
}

impl Ended<'_> {
    /// Returns what each thread did, without those that did not come to the end.
    fn parts(&self) -> impl Iterator<Item = Part> {
        self.finished.iter().filter_map(|line| line.part(self.number))
    }

    /// Returns when a thread finished, ticks since the first one arrived. Clocks of two CPUs may differ a little.
    fn finish(&self, part: &Part) -> u64 {
        (part.at.wrapping_sub(self.began) as i64).max(0) as u64
    }
}

/// The second instance is timed (the first one makes plans and touches memory), and then one in this many.
const TIMED_EVERY: u64 = 64;
/// Two readings of a delay take about 2 µs, so in loops that are shorter than this (nanoseconds), they are made in one of [`SHORT_EVERY`] instances.
const SHORT_NS: f64 = 100_000.0;
const SHORT_EVERY: u64 = 16;

impl KnownLoop {
    /// Returns a loop that has not been executed yet.
    pub fn new(options: &Options, clause: &Clause, threads: u32) -> KnownLoop {
        let found = found(clause, threads);
        let tries = matches!(options.wanted, Wanted::Auto | Wanted::From(_)) && found.is_none();
        let trial = tries.then(|| {
            let fits = |kind: &Kind| !clause.monotonic || *kind != Kind::StaticSteal;
            let schedules: Vec<Kind> = PORTFOLIO.into_iter().filter(fits).collect();
            let auto = Auto::new(schedules.len(), clause.place as u64);
            Trial { schedules, auto }
        });
        KnownLoop {
            place: clause.place,
            written: clause.written,
            threads,
            record: None,
            generation: 0,
            opened: 0,
            sampling: Sampling::default(),
            trial,
            found,
        }
    }

    /// Returns whether this is the loop of a clause in a team of this size.
    #[inline]
    pub fn is(&self, clause: &Clause, threads: u32) -> bool {
        self.place == clause.place && self.written == clause.written && self.threads == threads
    }

    /// Returns whether the times of the next instance will be measured. [`KnownLoop::open`] may decide to do so even if this returns false.
    #[inline]
    pub fn will_be_timed(&self) -> bool {
        self.trial.is_some() || self.record.is_some() && self.sampling.includes(self.opened + 1)
    }

    /// Returns the rule of the next instance, and what is to be measured.
    #[inline]
    pub fn open(&mut self, options: &Options, clause: &Clause) -> (Rule, Measured) {
        if self.generation != file::generation() {
            self.begin(clause);
        }
        self.opened += 1;
        let requests = self.record.is_some() && self.opened % TIMED_EVERY == 2;
        let delays = delays::are_wanted() && self.opened.is_multiple_of(self.delays_every());
        let is_sampled = self.record.is_some() && self.sampling.includes(self.opened);
        let times = self.trial.is_some() || is_sampled || requests || delays;
        let rule = match (&options.wanted, &mut self.trial) {
            (Wanted::Auto | Wanted::From(_), Some(trial)) => Rule::Of(trial.schedules[trial.auto.select()], 0),
            (Wanted::From(_), None) => self.found.map_or(Rule::Asked, |found| Rule::Of(found.kind, found.chunk)),
            (Wanted::AsWritten, _) => as_written(clause),
            _ => Rule::Asked,
        };
        (rule, Measured { times, requests, delays })
    }

    #[cold]
    fn begin(&mut self, clause: &Clause) {
        self.generation = file::generation();
        self.record = if clause.place == 0 { None } else { file::begin(clause.place) };
        if let Some(record) = self.record {
            Record::add(&record.threads, self.threads.into());
            Record::add(&record.clause, clause.written.number());
            Record::add(&record.clause_chunk, clause.chunk);
            Record::add(&record.is_monotonic, clause.monotonic.into());
            Record::add(&record.is_saved, self.found.is_some().into());
        }
    }

    /// Adds an instance that has ended.
    pub fn close(&mut self, ended: &Ended<'_>) {
        let Ended { prepared, measured, .. } = ended;
        let key = &prepared.key;
        if let Some(record) = self.record {
            Record::add(&record.instances, 1);
            Record::add(&record.trips, key.trips);
            Record::add(&record.chunks, chunks(ended));
            set_extremes(record, key.trips);
            if prepared.is_substitute {
                Record::add(&record.substitutes, 1);
            }
            set(&record.schedule, prepared.kind as u64);
        }
        if ended.parts().count() < ended.finished.len() {
            self.record.into_iter().for_each(|record| Record::add(&record.incomplete, 1));
            return;
        }
        if measured.times {
            self.add_times(ended);
        }
    }

    /// Adds the times of an instance, which have been measured.
    fn add_times(&mut self, ended: &Ended<'_>) {
        let (mut wall, mut finish, mut request, mut requests) = (0, 0, 0, 0);
        for part in ended.parts() {
            let at = ended.finish(&part);
            (wall, finish) = (wall.max(at), finish + at);
            (request, requests) = (request + part.request, requests + part.requests);
        }
        if let Some(record) = self.record {
            Record::add(&record.clocked, 1);
            Record::add(&record.wall, wall);
            Record::add(&record.finish, finish);
            Record::add(&record.request, request);
            Record::add(&record.requests, requests);
            self.sampling.note_mean(mean_ns(record));
            if let Some(os_caused) = os_caused(ended) {
                Record::add(&record.delays_known, 1);
                Record::add(&record.os_caused, os_caused);
            }
        }
        // An instance whose requests were timed takes longer.
        if !ended.measured.requests {
            self.learn(ended, wall);
        }
    }

    /// Returns in one of how many instances delays are measured: in all, if that takes little of the loop's time.
    #[inline]
    fn delays_every(&self) -> u64 {
        let Some(record) = self.record else { return 1 };
        if record.clocked.load(Ordering::Relaxed) <= 1 || mean_ns(record) > SHORT_NS { 1 } else { SHORT_EVERY }
    }

    /// Tells the trial what the instance took.
    fn learn(&mut self, ended: &Ended<'_>, wall: u64) {
        let Some(Trial { schedules, auto }) = &mut self.trial else { return };
        // A result may come after the next instance has begun. Then that has the same schedule, and only the first one counts.
        if schedules[auto.select()] != ended.prepared.kind && !ended.prepared.is_substitute {
            return;
        }
        let ns = clock::ns_per_tick();
        let threads = ended.finished.len();
        let mean = ended.parts().map(|part| ended.finish(&part)).sum::<u64>() as f64 / threads as f64;
        let lib = load_imbalance(mean, wall as f64, threads as f64);
        let dispatch =
            self.record.map_or(0.0, |record| dispatch(record, chunks(ended) + threads as u64, wall, threads));
        auto.record(&selection::Record { trips: ended.prepared.key.trips, time_ns: wall as f64 * ns, lib, dispatch });
        if let (Some(record), Some(verdict)) = (self.record, auto.verdict()) {
            tell(record, schedules, auto.selections(), &verdict);
        } else if let Some(record) = self.record {
            record.reason.store(0, Ordering::Relaxed);
        }
    }
}

/// Returns the time by which an instance would have been shorter if no thread had waited for a CPU, ticks; `None` if the delays were not measured.
fn os_caused(ended: &Ended<'_>) -> Option<u64> {
    if !ended.measured.delays {
        return None;
    }
    let ns = clock::ns_per_tick();
    let finish = |part: Part| {
        let at_ns = ended.finish(&part) as f64 * ns;
        Some(Finish { at_ns, wake_ns: part.waited_ns? as f64, preempt_ns: 0.0 })
    };
    let team: Vec<Finish> = ended.parts().map(finish).collect::<Option<_>>()?;
    imbalance(&team).map(|imbalance| (imbalance.os_caused_ns / ns) as u64)
}

/// Returns the part of the threads' time that requests took, from the mean of those that were timed.
fn dispatch(record: &Record, requests: u64, wall: u64, threads: usize) -> f64 {
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed) as f64;
    let timed = read(&record.requests);
    if timed == 0.0 || wall == 0 {
        return 0.0;
    }
    (read(&record.request) / timed * requests as f64 / (wall as f64 * threads as f64)).min(1.0)
}

/// Stores what was selected, and why.
fn tell(record: &Record, schedules: &[Kind], selections: u64, verdict: &Verdict) {
    let kind = |schedule: usize| schedules.get(schedule).map_or(0, |kind| *kind as u64 + 1);
    let (second, factor) = verdict.second.map_or((0, 0.0), |(second, factor)| (kind(second), factor));
    for (word, value) in [
        (&record.selections, selections),
        (&record.reason, verdict.reason as u64 + 1),
        (&record.rounds, verdict.rounds as u64),
        (&record.second, second),
        (&record.second_factor, f64::to_bits(factor)),
    ] {
        word.store(value, Ordering::Relaxed);
    }
}

/// Returns the schedule that an earlier run has found.
fn found(clause: &Clause, threads: u32) -> Option<Found> {
    let saved = SAVED.get()?;
    let (path, address) = modules::locate(clause.place)?;
    let schedule = saved.of(&String::from_utf8_lossy(&path), address, clause.written.name(), threads)?;
    Some(Found { kind: schedule.kind, chunk: schedule.chunk.map_or(0, std::num::NonZeroU64::get) })
}

fn set_extremes(record: &Record, trips: u64) {
    record.least_trips.store(record.least_trips.load(Ordering::Relaxed).min(trips), Ordering::Relaxed);
    record.most_trips.store(record.most_trips.load(Ordering::Relaxed).max(trips), Ordering::Relaxed);
}

/// Stores a value in a word of a line that is rarely changed, so that the line may stay in the caches of several processors.
fn set(word: &AtomicU64, value: u64) {
    if word.load(Ordering::Relaxed) != value {
        word.store(value, Ordering::Relaxed);
    }
}

/// Returns the mean time of the instances whose times were measured, nanoseconds.
fn mean_ns(record: &Record) -> f64 {
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed) as f64;
    read(&record.wall) * clock::ns_per_tick() / read(&record.clocked).max(1.0)
}

/// Returns how many chunks the threads had.
fn chunks(ended: &Ended<'_>) -> u64 {
    match &ended.prepared.plan {
        Plan::Fixed(fixed) => ended.counter.min(fixed.len()),
        Plan::Table(table) => ended.counter.min(table.len()),
        Plan::Hybrid(hybrid) => {
            let has_block = |(thread, line): (usize, &Finished)| {
                line.part(ended.number).is_some() && !hybrid.block(thread).is_empty()
            };
            let blocks = ended.finished.iter().enumerate().filter(|one| has_block(*one)).count() as u64;
            blocks + ended.counter.min(hybrid.rest().len())
        }
        _ => ended.parts().map(|part| part.chunks).sum(),
    }
}

/// Returns the rule that the program's runtime would apply.
fn as_written(clause: &Clause) -> Rule {
    let (guided, auto) = if clause.is_libomp { (Kind::GssLlvm, Kind::GssLlvm) } else { (Kind::Gss, Kind::Static) };
    match clause.written {
        Written::Dynamic => Rule::Of(Kind::Ss, 0),
        Written::Guided => Rule::Of(guided, 0),
        Written::Auto => Rule::Of(auto, 0),
        Written::Runtime => match runtime::schedule() {
            Some((runtime::DYNAMIC, chunk)) => Rule::Of(Kind::Ss, chunk),
            Some((runtime::GUIDED, chunk)) => Rule::Of(guided, chunk),
            Some((runtime::AUTO, _)) => Rule::Of(auto, 0),
            Some((_, chunk)) => Rule::Of(Kind::Static, chunk),
            None => Rule::Of(Kind::Static, 0),
        },
    }
}
