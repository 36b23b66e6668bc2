//! The treatments of ping-pong: the observers that are active during a slice (a short section of the run). Each treatment checks at its end that it
//! was really active.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use machine::{Root, topology::Topology};
use trace::sorter::Sorter;
use watch::{BpfObserver, Intake, Observer, Settings};
use wire::TraceEvent;

use super::case::{Bench, CONTROL, COX, PERF, TRACE};
use super::floor::Floor;
use super::hold::Holder;
use super::perf::Recording;

/// Interval at which a session of cox empties its buffers.
const TICK: Duration = Duration::from_millis(100);

/// Size of the ring buffer of a trace: the default of `cox run`.
const TRACE_BYTES: u32 = 32 << 20;

/// The observer that is active during a slice (a short section of the ping-pong run).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing: the control.
    Control,
    /// The observer as `cox run` uses it, or a part of it.
    Cox(Part),
    /// `perf sched record`.
    Perf,
    /// A minimal BPF observer, whose programs only count their calls and optionally read the clock.
    Floor {
        /// True if the BPF programs read the clock.
        reads_clock: bool,
    },
}

/// How much of cox's observer is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole observer.
    Whole,
    /// Only the BPF programs for scheduler events, without the sampling of instruction pointers.
    Programs,
    /// Only the sampling of instruction pointers, without the BPF programs for scheduler events.
    Sampling,
    /// The whole observer, but it tracks neither of the two ping-pong processes. This shows what cox costs programs that it does not observe.
    Strangers,
    /// The whole observer, which also keeps trace events, as with `--trace`.
    Trace,
}

impl Treatment {
    /// Returns the name of the treatment, as printed.
    pub fn name(self) -> &'static str {
        match self {
            Treatment::Control => CONTROL,
            Treatment::Cox(Part::Whole) => COX,
            Treatment::Cox(Part::Programs) => "cox, no sampling",
            Treatment::Cox(Part::Sampling) => "cox, sampling only",
            Treatment::Cox(Part::Strangers) => "cox, none tracked",
            Treatment::Cox(Part::Trace) => TRACE,
            Treatment::Perf => PERF,
            Treatment::Floor { reads_clock: false } => "empty programs",
            Treatment::Floor { reads_clock: true } => "empty programs + clock",
        }
    }

    /// Activates the treatment. `players` are the two ping-pong processes, which it observes.
    pub fn begin(self, bench: &Bench<'_>, players: &[u32]) -> Result<Active> {
        match self {
            Treatment::Control => Ok(Active::Nothing),
            Treatment::Cox(part) => Ok(Active::Cox(Box::new(Observation::begin(part, players, bench.scratch.path())?))),
            Treatment::Perf => {
                let perf = bench.tools.perf.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
                Ok(Active::Perf(Recording::start(perf, bench.scratch.path())?))
            }
            Treatment::Floor { reads_clock } => Ok(Active::Floor(Box::new(Floor::begin(reads_clock)?))),
        }
    }
}

/// The active treatment.
pub enum Active {
    /// Nothing.
    Nothing,
    /// An observer of cox.
    Cox(Box<Observation>),
    /// A recording of perf.
    Perf(Recording),
    /// BPF programs that do almost nothing.
    Floor(Box<Floor>),
    /// Parts of cox's BPF programs that another process has loaded and keeps active.
    Held(Holder),
}

/// A running observer, and the records that it has delivered.
pub struct Observation {
    part: Part,
    observer: BpfObserver,
    intake: Intake,
    kept: Option<Sorter<TraceEvent>>,
}

impl Observation {
    /// Loads the observer. It is loaded for each slice (section of the run) anew, so that no part of it is in the kernel during plain slices, which
    /// have no observer.
    fn begin(part: Part, players: &[u32], scratch: &Path) -> Result<Observation> {
        let topology = Topology::read(&Root::live())?;
        let limit = topology.possible.last().map_or(1, |last| last + 1);
        let usual = Settings::new(topology.online.len() as u32, limit);
        let sample_period_ns = if part == Part::Programs { 0 } else { usual.sample_period_ns };
        let kept = (part == Part::Trace).then(|| Sorter::new(scratch)).transpose()?;
        let trace_bytes = kept.is_some().then_some(TRACE_BYTES);
        let mut observer = BpfObserver::new(&Settings { sample_period_ns, trace_bytes, ..usual }, None)?;
        if part != Part::Strangers {
            for &pid in players {
                observer.enrol(pid)?;
            }
        }
        if part == Part::Sampling {
            observer.set_attached(false)?;
        }
        Ok(Observation { part, observer, intake: Intake::default(), kept })
    }

    /// Takes the records that the observer has delivered and, if a trace is wanted, stores the trace events, as a session of cox does.
    fn tick(&mut self) -> Result<()> {
        self.observer.tick(&mut self.intake)?;
        self.keep()
    }

    fn keep(&mut self) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        for trace_event in self.intake.trace_events.drain(..) {
            kept.push(trace_event)?;
        }
        Ok(())
    }

    /// Ends the observation. Fails unless the record contains what this part of the observer must record, because an observer that sees nothing would
    /// look cheap.
    fn end(mut self, players: &[u32], round_trips: u64) -> Result<()> {
        let record = self.observer.finish(&mut self.intake)?;
        self.keep()?;
        let switches = |pid: &u32| {
            record.living.iter().filter(|l| l.clock.tgid == *pid).map(|l| l.clock.switches_voluntary).sum::<u64>()
        };
        let seen = players.iter().all(|pid| switches(pid) > 0);
        let sampled = !self.intake.samples.is_empty();
        let expected = match self.part {
            Part::Whole => seen && sampled,
            // A round trip has two switches, and most switches have a wake-up event: expect at least three trace events per round trip.
            Part::Trace => {
                let mut kept = 0;
                if let Some(sorter) = self.kept.take() {
                    sorter.sorted()?.each(|_| {
                        kept += 1;
                        anyhow::Ok(())
                    })?;
                }
                seen && sampled && record.losses.trace_events == 0 && kept >= 3 * round_trips
            }
            Part::Programs => seen && !sampled,
            Part::Sampling => sampled,
            Part::Strangers => record.living.is_empty() && !sampled,
        };
        if !expected {
            bail!("the observer did not record exactly what it should ({:?})", self.part);
        }
        Ok(())
    }
}

impl Active {
    /// Waits for `length`. If cox's observer is active, this function empties the observer's buffers every [`TICK`] meanwhile, as `cox run` does.
    pub fn hold(&mut self, length: Duration) -> Result<()> {
        let end_ns = arch::monotonic_ns() + length.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(arch::monotonic_ns()));
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
            if let Active::Cox(observation) = self {
                observation.tick()?;
            }
        }
    }

    /// Ends the treatment, and checks that it was active during the slice, in which ping-pong made `round_trips` round trips.
    pub fn end(self, players: &[u32], round_trips: u64) -> Result<()> {
        match self {
            Active::Nothing => Ok(()),
            Active::Cox(observation) => observation.end(players, round_trips),
            Active::Perf(recording) => {
                let bytes = recording.end()?;
                // A round trip has two context switches, which perf records in about 100 bytes each. With less than a tenth of that, perf did not
                // record.
                if bytes < round_trips * 20 {
                    bail!("perf recorded only {bytes} bytes in {round_trips} round trips");
                }
                Ok(())
            }
            Active::Floor(floor) => floor.end(round_trips),
            Active::Held(holder) => holder.end(),
        }
    }
}
