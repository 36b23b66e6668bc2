//! Noise events whose eBPF programs were loaded by the helper process.

use std::collections::HashMap;
use std::path::Path;

use watch::WatchError;
use watch::noise::{Counts, Faults, Interruption, NoiseEvents, Settings};
use wire::MAX_CPUS;
use wire::noise::count;

use super::{Answer, Helper, malformed};
use crate::protocol::{
    CountRow, FunctionRow, MAX_THREADS, NoiseRow, NoiseState, Request, WantedNoise, bits_of, tracepoints_of,
};

/// Maximum size of the ring of a session that the helper serves, bytes. A larger one that is asked for is made this large.
pub const MAX_RING_BYTES: u32 = 128 << 20;

/// The noise events of a session. The helper process takes them out of the ring, and replaces addresses.
pub struct RemoteNoise {
    helper: Helper,
    /// Names of the kernel's functions, by their numbers in the events.
    functions: HashMap<u64, String>,
    state: NoiseState,
}

impl RemoteNoise {
    /// Starts the helper, which loads and attaches its eBPF programs. No thread is followed yet. On every CPU, the helper measures fewer page faults
    /// than one in [`crate::helper::LEAST_FAULT_PERIOD`].
    ///
    /// # Errors
    /// `Unavailable`, with the reason, when the helper cannot be started or refuses.
    pub fn new(program: &Path, settings: &Settings, faults: Faults) -> Result<RemoteNoise, WatchError> {
        let mut helper = Helper::start(program)?;
        let wanted = WantedNoise {
            children: settings.children,
            ring_bytes: settings.ring_bytes.min(MAX_RING_BYTES),
            fault_period: match faults {
                Faults::OneIn(period) => Some(u32::try_from(period).unwrap_or(u32::MAX)),
                Faults::OfNamedThreads => None,
            },
            without: bits_of(&settings.without),
        };
        let state = helper.ask(&Request::Noise(wanted), None)?.noise.state.ok_or_else(malformed)?;
        Ok(RemoteNoise { helper, functions: HashMap::new(), state })
    }

    fn ask(&mut self, request: &Request, pid: Option<u32>) -> Result<Answer, WatchError> {
        self.helper.ask(request, pid)
    }
}

impl NoiseEvents for RemoteNoise {
    fn follow(&mut self, pid: u32) -> Result<(), WatchError> {
        self.ask(&Request::Process(pid), Some(pid)).map(drop)
    }

    fn follow_threads(&mut self, tids: &[u32]) -> Result<(), WatchError> {
        let mut chunks = tids.chunks(MAX_THREADS);
        chunks.try_for_each(|tids| self.ask(&Request::Threads(tids.to_vec()), tids.first().copied()).map(drop))
    }

    fn drain(&mut self) -> Result<Vec<Interruption>, WatchError> {
        let answer = self.ask(&Request::Tick, None)?.noise;
        self.state = answer.state.ok_or_else(malformed)?;
        self.functions.extend(answer.names());
        Ok(answer.events)
    }

    fn lost(&self) -> u64 {
        self.state.lost
    }

    fn without(&self) -> Vec<&'static str> {
        tracepoints_of(self.state.without)
    }

    fn counts(&mut self) -> Result<Counts, WatchError> {
        let rows = self.ask(&Request::Counts, None)?.noise.counts;
        let mut counts: Counts = Vec::new();
        for CountRow { cpu, index, count: number } in rows {
            let (cpu, index) = (cpu as usize, index as usize);
            if cpu >= MAX_CPUS || index >= count::ALL {
                return Err(malformed());
            }
            if counts.len() <= cpu {
                counts.resize_with(cpu + 1, || vec![0; count::ALL]);
            }
            counts[cpu][index] = number;
        }
        Ok(counts)
    }

    fn function(&mut self, number: u64) -> Option<String> {
        self.functions.get(&number).cloned()
    }

    // An error is ignored: if the helper has ended, its programs are detached.
    fn end(&mut self) {
        let _ = self.ask(&Request::Finish, None);
    }
}

/// The parts of an answer that concern noise events.
#[derive(Default)]
pub(super) struct Noise {
    events: Vec<Interruption>,
    functions: Vec<FunctionRow>,
    counts: Vec<CountRow>,
    state: Option<NoiseState>,
}

impl Noise {
    pub(super) fn take_events(&mut self, rows: impl Iterator<Item = NoiseRow>) {
        self.events.extend(rows.map(|row| (row.event, row.event.is_named().then_some(row.named))));
    }

    pub(super) fn take_functions(&mut self, rows: impl Iterator<Item = FunctionRow>) {
        self.functions.extend(rows);
    }

    /// Returns the functions that have got numbers, with their names.
    pub(super) fn names(&self) -> impl Iterator<Item = (u64, String)> {
        self.functions.iter().map(|row| {
            let end = row.name.iter().position(|byte| *byte == 0).unwrap_or(row.name.len());
            (row.number, String::from_utf8_lossy(&row.name[..end]).into_owned())
        })
    }

    #[cfg(test)]
    pub(super) fn events(&self) -> &[Interruption] {
        &self.events
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> &[CountRow] {
        &self.counts
    }

    pub(super) fn take_counts(&mut self, rows: impl Iterator<Item = CountRow>) {
        self.counts.extend(rows);
    }

    pub(super) fn take_state(&mut self, state: Option<NoiseState>) {
        self.state = state;
    }
}
