//! Converts a recording of perf into an account, and into a recording in cox's own form.

use std::io::{BufRead, Seek};
use std::path::Path;

use advise::Facts;
use anyhow::Result;
use ledger::Provenance;
use ledger::accounts::ProgramInfo;
use ledger::replay::Replay;
use ledger::trace_events;
use perfdata::{Ending, Threads};
use report::Document;
use trace::sorter::Sorter;
use trace::{Recording, ThreadTable};
use wire::{Backend, Clock, Record, TraceEvent};

use super::Around;

/// Number of perf events after which their times are added to the account.
const PLAYED_AT_ONCE: u64 = 4096;

/// An account under construction.
pub struct Making {
    threads: Threads,
    replay: Replay,
    /// Keeps the trace events, if they are wanted.
    sorter: Option<Sorter<TraceEvent>>,
    /// Times of the first and last scheduler event. The observed time lies between the two: other events, which perf still records after the last
    /// scheduler event, do not extend it.
    window_ns: Option<(u64, u64)>,
    played: u64,
}

impl Making {
    /// Creates an empty account. [`Making::stretches`] returns nothing unless `replay` was created by [`Replay::with_stretches`].
    pub fn new(replay: Replay, sorter: Option<Sorter<TraceEvent>>) -> Making {
        Making { threads: Threads::default(), replay, sorter, window_ns: None, played: 0 }
    }

    /// Processes an event. Every `PLAYED_AT_ONCE` events, adds the times up to the latest scheduler event to the account, and returns `Ok(true)`:
    /// [`Making::stretches`] then has new intervals.
    pub fn take(&mut self, event: &perfdata::Event) -> std::io::Result<bool> {
        if event.kind.is_of_scheduler() {
            let (first_ns, last_ns) = self.window_ns.unwrap_or((event.t_ns, event.t_ns));
            self.window_ns = Some((first_ns.min(event.t_ns), last_ns.max(event.t_ns)));
        }
        let Making { threads, replay, sorter, .. } = self;
        let mut kept = Ok(());
        threads.take(event, |trace_event| {
            trace_events::events(&trace_event, |event| replay.push(event));
            if let Some(sorter) = sorter {
                let pushed = sorter.push(trace_event);
                kept = std::mem::replace(&mut kept, Ok(())).and(pushed);
            }
        });
        self.played += 1;
        let is_played = self.played.is_multiple_of(PLAYED_AT_ONCE);
        if is_played {
            // Times after the last scheduler event are not observed, so they are not added to the account.
            self.replay.advance(self.window_ns.map_or(0, |(_, last_ns)| last_ns));
        }
        kept.map(|()| is_played)
    }

    /// Returns what threads did since the last call: the intervals (stretches) in which a thread kept its state. Empty unless `replay` was created
    /// by [`Replay::with_stretches`].
    pub fn stretches(&mut self) -> Vec<ledger::stretch::Stretch> {
        self.replay.take_stretches()
    }

    /// Returns the highest CPU number plus one.
    pub fn cpus(&self) -> u32 {
        self.threads.cpus
    }

    /// Returns the record for the account, and tells the user what the recording lacks.
    pub fn record(&mut self, ending: &Ending, around: &Around<'_>) -> Record {
        super::say_what_lacks(ending, around);
        let recovered = self.threads.recovered;
        if recovered > 0 {
            (around.say)(&format!(
                "the recording lacks {recovered} switches; cox computed their times from the CPU time charged to the threads"
            ));
        }
        let (start_ns, end_ns) = self.window_ns.unwrap_or_default();
        let mut record = Record::new(Backend::PerfData, start_ns, end_ns);
        let name = |clock: Clock| Clock { comm: self.threads.comm(clock.tid, clock.born_ns), ..clock };
        record.clocks = self.replay.finish(end_ns).into_iter().map(name).collect();
        record.levels = self.replay.levels().clone();
        record.pairs = self.replay.pairs();
        record.events = ending.events;
        record.losses.events = ending.lost;
        record.lacks_wakings = ending.wakings == 0;
        record
    }
}

/// Reads the whole recording. Keeps trace events in `folder`, if one is given. If `latency` is set, keeps histograms of interval lengths
/// for each thread.
///
/// # Errors
/// See [`perfdata::Error`]; also if there is no space for trace events.
pub fn read(
    mut file: impl BufRead + Seek + Send,
    path: &Path,
    folder: Option<&Path>,
    latency: bool,
    around: &Around<'_>,
) -> Result<(Option<Recording>, Document)> {
    let sorter = folder.map(Sorter::new).transpose()?;
    let mut making = Making::new(Replay::new().with_latencies(latency), sorter);
    let ending = perfdata::read(&mut file, &(around.known)(), |event| making.take(event).map(|_| ()))?;
    let mut record = making.record(&ending, around);
    record.latencies = making.replay.latencies();
    (record.latencies_of_programs, record.latencies_of_threads) = (1, latency);
    let about = ending.about;
    let command = if about.command.is_empty() { vec![path.display().to_string()] } else { about.command };
    let program = ProgramInfo { command: command.clone(), start_ns: record.start_ns, ..ProgramInfo::default() };
    let mut account = ledger::accounts::build(&record, &[program], 0);
    account.provenance = Some(Provenance {
        host: about.host,
        kernel: about.kernel,
        cpu_model: about.cpu_model,
        cpus: about.cpus,
        command: command.clone(),
        recorded_by: about.perf.map(|version| format!("perf {version}")),
        ..Provenance::default()
    });
    let facts = Facts { online_cpus: (0..making.cpus()).collect(), command, ..Facts::default() };
    let recording = making.sorter.take().map(|sorter| -> Result<Recording> {
        Ok(Recording {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            // perf's clock gives neither the boot time nor the wall-clock time.
            boot_ns: 0,
            epoch_ns: 0,
            cpus: making.cpus(),
            thread_table: ThreadTable::of(&account, Default::default()),
            waits: Vec::new(),
            trace_events: sorter.sorted()?,
        })
    });
    Ok((recording.transpose()?, Document::new(env!("CARGO_PKG_VERSION"), account, facts)))
}
