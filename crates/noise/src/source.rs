//! The source of the kernel's events, and what is known instead if there is none.

use std::collections::BTreeMap;

use broker::ebpf;
use interference::Causes;
use watch::WatchError;
use watch::noise::{Counts, Faults, Interruption, NoiseEvents, Settings};

/// Names of the kernel's functions, by their numbers in causes.
pub type Functions = BTreeMap<u64, String>;

/// The events of a session, or the reason why there are none.
pub struct Source(Result<Box<dyn NoiseEvents>, String>);

impl Source {
    /// Opens the best source that works: programs of this process, else those of `cox-observe`, else none.
    #[must_use]
    pub fn open(settings: &Settings, faults: Faults) -> Source {
        Source(ebpf::noise_events(settings, faults).map_err(|error| error.to_string()))
    }

    /// Makes a source without events.
    #[must_use]
    pub fn none(why: impl Into<String>) -> Source {
        Source(Err(why.into()))
    }

    /// Returns why there are no events; `None` if there are.
    #[must_use]
    pub fn blind(&self) -> Option<String> {
        self.0.as_ref().err().cloned()
    }

    /// Follows threads. If the kernel's events of these are not for this user, there are none from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn follow(
        &mut self,
        follow: impl FnOnce(&mut dyn NoiseEvents) -> Result<(), WatchError>,
    ) -> Result<(), WatchError> {
        let Ok(events) = &mut self.0 else { return Ok(()) };
        match follow(events.as_mut()) {
            Err(error @ WatchError::NoTarget { .. }) => {
                self.0 = Err(error.to_string());
                Ok(())
            }
            followed => followed,
        }
    }

    /// Returns the events that have arrived since the last call.
    ///
    /// # Errors
    /// As [`NoiseEvents::drain`].
    pub fn drain(&mut self) -> Result<Vec<Interruption>, WatchError> {
        self.0.as_mut().map_or_else(|_| Ok(Vec::new()), |events| events.drain())
    }

    /// Returns what has happened on each CPU so far; `None` without events.
    ///
    /// # Errors
    /// As [`NoiseEvents::counts`].
    pub fn counts(&mut self) -> Result<Option<Counts>, WatchError> {
        self.0.as_mut().ok().map(|events| events.counts()).transpose()
    }

    /// Returns the number of events that did not fit into the rings.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |events| events.lost())
    }

    /// Returns the tracepoints that did not report, by name.
    #[must_use]
    pub fn without(&self) -> Vec<String> {
        let names = self.0.as_ref().map_or_else(|_| Vec::new(), |events| events.without());
        names.into_iter().map(str::to_owned).collect()
    }

    /// Returns the names of the kernel's functions in the causes.
    #[must_use]
    pub fn functions(&mut self, causes: &Causes) -> Functions {
        let Ok(events) = &mut self.0 else { return Functions::new() };
        let numbers = causes.all().iter().flat_map(|cause| cause.functions());
        numbers.filter_map(|number| Some((number, events.function(number)?))).collect()
    }

    /// Ends the events. Those that are in the rings can still be read.
    pub fn end(&mut self) {
        if let Ok(events) = &mut self.0 {
            events.end();
        }
    }
}
