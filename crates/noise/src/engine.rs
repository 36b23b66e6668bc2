//! The measurement as an engine of a session on the machine.
//!
//! probe: check the plan and the clock, load and attach eBPF. apply: start the threads, warm up, begin. undo: end the threads, read the counters,
//! detach. section: join.
//!
//! cox sleeps while the threads measure. If they use all CPUs, cox's thread would interrupt one of them by waking up, so it wakes once, after the
//! end. The counters are read before the beginning and after the end.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use machine::{CpuSet, Root};
use rustix::thread::{CpuSet as KernelCpuSet, sched_getaffinity, sched_setaffinity};
use session::{Ended, Engine, NoCommand, Subject, Target};
use watch::noise::{Faults, Interruption, Settings};

use crate::clock::{Clock, Instant};
use crate::counters::Reading;
use crate::findings::{Collected, Found, join};
use crate::loops::Window;
use crate::plan::{COARSE_NS, GAPS, Plan, SMALLEST_THRESHOLD_NS};
use crate::source::{Functions, Source};
use crate::team::Team;

/// From the moment when the measurement is announced to its first tick.
const LEAD: Duration = Duration::from_millis(5);
/// From the last tick to the moment when cox wakes up.
const MARGIN: Duration = Duration::from_millis(20);
/// Size of a CPU's ring for events for each second until cox reads it, bytes. A tick writes some 300 bytes; a storm of 20,000 interrupts a second
/// fits.
const BYTES_PER_SECOND: u64 = 4 << 20;
/// Smallest and largest size of all rings together, bytes.
const RING_BYTES: std::ops::RangeInclusive<u64> = (4 << 20)..=(512 << 20);

/// The engine.
pub struct Noise {
    plan: Plan,
    source: Source,
    running: Option<Running>,
    found: Option<Measured>,
}

/// A measurement that runs.
struct Running {
    team: Team,
    instants: [Instant; 3],
    /// The planned last tick.
    end: u64,
    threshold_ticks: u64,
    smallest_gap_ticks: u64,
    before: Reading,
    events: Vec<Interruption>,
    /// cox's affinity before it left the measured CPUs.
    mask: KernelCpuSet,
    has_free_cpu: bool,
}

/// The result of a measurement.
pub struct Measured {
    /// The plan.
    pub plan: Plan,
    /// Detours, causes, audit.
    pub found: Found,
    /// The relation of counter and time.
    pub clock: Clock,
    /// By how much the clock's rate has changed since the warm-up, ppm, if events may therefore be missed in detours.
    pub clock_changed_ppm: Option<f64>,
    /// Whether the measurement was ended before its planned end.
    pub ended_early: bool,
    /// The threshold, ns.
    pub threshold_ns: u64,
    /// The coarse threshold, ns.
    pub coarse_ns: u64,
    /// The smallest gap between two readings of the clock, ns.
    pub smallest_gap_ns: u64,
    /// Tracepoints that did not report, by name.
    pub without: Vec<String>,
    /// Why the kernel told no causes; `None` if it did.
    pub blind: Option<String>,
    /// Names of the kernel's functions in the causes.
    pub functions: Functions,
    /// Number of events, and of those that were lost.
    pub events: u64,
    /// Number of events that did not fit into the rings.
    pub lost: u64,
    /// The machine's clock source.
    pub clock_source: Option<String>,
}

impl Noise {
    /// Makes the engine.
    #[must_use]
    pub fn new(plan: Plan) -> Noise {
        Noise { plan, source: Source::none("the kernel was not asked"), running: None, found: None }
    }

    /// Returns how long a session with this plan takes, from its start to the moment when cox has to wake up.
    #[must_use]
    pub fn session_length(plan: &Plan) -> Duration {
        LEAD + plan.length + MARGIN
    }

    /// Loads the programs that tell causes. Without them, the loops still run. `reads_meanwhile`: cox empties the rings during the measurement.
    fn load(&self, reads_meanwhile: bool) -> Source {
        if !self.plan.causes {
            return Source::none("not asked for (--no-causes)");
        }
        let seconds = if reads_meanwhile { 1 } else { self.plan.length.as_secs().max(1) };
        let cpus = Topology::read_online(&Root::live()).map_or(self.plan.cpus.len(), |online| online.len()) as u64;
        let wanted = BYTES_PER_SECOND * seconds * cpus;
        let ring_bytes = wanted.clamp(*RING_BYTES.start(), *RING_BYTES.end()).next_power_of_two() as u32;
        let settings = Settings { children: false, ring_bytes, without: self.plan.without.clone() };
        Source::open(&settings, Faults::OfNamedThreads)
    }
}

impl Engine for Noise {
    const NAME: &'static str = "noise";
    type Section = Measured;
    type Command = NoCommand;

    fn probe(&mut self, _: &Target) -> Result<()> {
        self.plan.check()?;
        // If another process loads the programs, it inherits these CPUs, and so it also runs on none that is being measured.
        let (mask, has_free_cpu) = leave(&self.plan.cpus)?;
        self.source = self.load(has_free_cpu);
        sched_setaffinity(None, &mask).context("cannot return to cox's CPUs")
    }

    fn apply(&mut self, _: &Subject) -> Result<()> {
        let first = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let rate = Clock::new(first, Instant::now())?.ticks_per_ns();
        let threshold_ns = self.plan.threshold.map(|threshold| threshold.as_nanos() as u64);
        if threshold_ns.is_some_and(|ns| (ns as f64) * rate < 2.0) {
            bail!("the threshold is below two ticks of the clock ({:.1} ns)", 2.0 / rate);
        }
        let team = Team::start(&self.plan, rate)?;
        // All memory of the loops exists now. Pages that the kernel took away would fault in the middle of the measurement. Without the right to lock
        // them, faults are seen and reported as such. Later memory is not locked: a limit would then let allocations fail.
        // SAFETY: the call has no memory arguments.
        let _ = unsafe { libc::mlockall(libc::MCL_CURRENT) };
        let (mask, has_free_cpu) = leave(&self.plan.cpus)?;
        self.source.follow(|events| events.follow_threads(team.tids()))?;
        std::thread::sleep(self.plan.warm_up / 2);
        let middle = Instant::now();
        std::thread::sleep(self.plan.warm_up / 2);
        let before = Reading::now(team.tids(), || self.source.counts())?;
        let last = Instant::now();
        let instants = [first, middle, last];
        Clock::require_steady(instants)?;
        let clock = Clock::new(first, last)?;
        let begin = arch::measuring::ticks() + clock.ticks_in(LEAD.as_nanos() as u64);
        let end = begin + clock.ticks_in(self.plan.length.as_nanos() as u64);
        let smallest_gap_ticks = smallest_gap();
        let default_ticks = (GAPS * smallest_gap_ticks).max(clock.ticks_in(SMALLEST_THRESHOLD_NS));
        let threshold_ticks = threshold_ns.map_or(default_ticks, |ns| clock.ticks_in(ns));
        // Below the threshold, nothing is known.
        let coarse = clock.ticks_in(COARSE_NS).max(threshold_ticks);
        team.measure(Window { begin, end, threshold: threshold_ticks, coarse });
        let events = Vec::new();
        self.running = Some(Running {
            team,
            instants,
            end,
            threshold_ticks,
            smallest_gap_ticks,
            before,
            events,
            mask,
            has_free_cpu,
        });
        Ok(())
    }

    fn tick_every(&self) -> Duration {
        // With a CPU of its own, cox empties the rings meanwhile. Otherwise it sleeps until the end.
        let has_free_cpu = self.running.as_ref().is_some_and(|running| running.has_free_cpu);
        if has_free_cpu { Duration::from_millis(100) } else { Duration::MAX }
    }

    fn tick(&mut self) -> Result<()> {
        if let Some(running) = &mut self.running
            && (running.has_free_cpu || running.team.has_finished())
        {
            running.events.append(&mut self.source.drain()?);
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let ended_early = arch::measuring::ticks() < running.end;
        running.team.stop();
        while !running.team.has_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = Reading::now(running.team.tids(), || self.source.counts())?;
        let (cpus, tids) = (running.team.cpus().to_vec(), running.team.tids().to_vec());
        let series = running.team.finish()?;
        let [first, _, last] = running.instants;
        let clock = Clock::new(last, Instant::now())?;
        let warm_up = Clock::new(first, last)?;
        let clock_changed_ppm = clock.drifted_since(&warm_up).then(|| clock.change_ppm(&warm_up));
        self.source.end();
        running.events.append(&mut self.source.drain()?);
        let (lost, without, blind) = (self.source.lost(), self.source.without(), self.source.blind());
        let _ = sched_setaffinity(None, &running.mask);
        // SAFETY: the call has no memory arguments.
        let _ = unsafe { libc::munlockall() };
        let found = join(Collected {
            cpus: &cpus,
            tids: &tids,
            series,
            clock,
            events: &running.events,
            readings: [&running.before, &after],
            causes: blind.is_none(),
            without: &without,
        });
        self.found = Some(Measured {
            plan: self.plan.clone(),
            functions: self.source.functions(&found.causes),
            found,
            clock,
            clock_changed_ppm,
            ended_early,
            threshold_ns: clock.length_ns(running.threshold_ticks),
            coarse_ns: COARSE_NS.max(clock.length_ns(running.threshold_ticks)),
            smallest_gap_ns: clock.length_ns(running.smallest_gap_ticks),
            without,
            blind,
            events: running.events.len() as u64,
            lost,
            clock_source: machine::clock_source::current(&Root::live()).ok(),
        });
        Ok(())
    }

    fn section(&mut self, _: &Ended) -> Result<Measured> {
        self.found.take().context("nothing was measured")
    }
}

/// Returns the smallest gap between two readings of the clock on this CPU, ticks.
fn smallest_gap() -> u64 {
    let mut watched = arch::measuring::Watched::default();
    let now = arch::measuring::ticks();
    arch::measuring::until_gap(now, u64::MAX, now + 200_000, &mut watched);
    watched.smallest
}

/// Moves the calling thread off the measured CPUs, if it may use another one. Returns its mask before, and whether it could.
fn leave(measured: &CpuSet) -> Result<(KernelCpuSet, bool)> {
    let before = sched_getaffinity(None).context("cannot read cox's affinity")?;
    let others = allowed_cpus(&Root::live(), Who::Own)?.difference(measured);
    if others.is_empty() {
        return Ok((before, false));
    }
    let mut mask = KernelCpuSet::new();
    others.iter().for_each(|cpu| mask.set(cpu as usize));
    sched_setaffinity(None, &mask).context("cannot leave the measured CPUs")?;
    Ok((before, true))
}
