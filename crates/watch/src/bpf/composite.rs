//! Loads the parts that a session needs in one BPF object, whichever part is requested first.
//!
//! A session announces its parts by [`expect`]. The first handle that is made for one of these parts loads the programs of all parts; each other
//! handle then takes its part of the same programs, once. If the parts cannot be loaded in one object, each part is loaded alone and reports its
//! own errors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::parts::{Part, Parts};
use super::programs::{Loaded, Programs};
use crate::observer::WatchError;

/// The parts (clocks, snapshots, overlap) that the session of this process has announced by [`expect`]. A process has one session at a time.
static EXPECTED: Mutex<Option<Expected>> = Mutex::new(None);

struct Expected {
    parts: Parts,
    /// The programs with all announced parts, once the first part was requested. They are freed when the last handle of a part is dropped.
    loaded: Option<Weak<Loaded>>,
    taken: Vec<Part>,
}

/// The announcement that a session has made by [`expect`]. Dropping this value withdraws the announcement; programs that are already loaded stay
/// loaded.
#[must_use]
pub struct Expectation(());

/// Announces to this module which parts of the BPF object the session will request. The first request for one of them then loads all of them
/// together, in one object. The announcement is valid until the returned value is dropped.
pub fn expect(parts: Parts) -> Expectation {
    *expected() = Some(Expected { parts, loaded: None, taken: Vec::new() });
    Expectation(())
}

impl Drop for Expectation {
    fn drop(&mut self) {
        *expected() = None;
    }
}

fn expected() -> MutexGuard<'static, Option<Expected>> {
    EXPECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Programs {
    /// Returns programs that contain `part`. If the session has announced `part` with the settings in `alone`, these are the programs that all
    /// announced parts share. Otherwise loads programs with `alone`, which must contain `part` and no other part.
    ///
    /// # Errors
    /// As [`load`](Programs::load).
    pub(crate) fn of(part: Part, alone: &Parts) -> Result<Programs, WatchError> {
        let mut expected = expected();
        if let Some(composite) = expected.as_mut().and_then(|expected| expected.take(part, alone)) {
            match composite {
                Ok(programs) => return Ok(programs),
                // The announced parts cannot be loaded in one object, so from here on each part is loaded in an object of its own. If that fails too,
                // its error is returned below.
                Err(_) => *expected = None,
            }
        }
        drop(expected);
        Programs::load(alone)
    }
}

impl Expected {
    /// Returns the programs that all announced parts share, and marks `part` as taken. Returns `None` if `part` was not announced with the settings
    /// in `alone`, if it is already taken, or if the shared programs have been freed.
    fn take(&mut self, part: Part, alone: &Parts) -> Option<Result<Programs, WatchError>> {
        if !self.parts.fits(part, alone) || self.taken.contains(&part) {
            return None;
        }
        let programs = match &self.loaded {
            Some(loaded) => Programs(loaded.upgrade()?),
            None => match Programs::load(&self.parts) {
                Ok(programs) => programs,
                Err(error) => return Some(Err(error)),
            },
        };
        self.loaded = Some(Arc::downgrade(&programs.0));
        self.taken.push(part);
        Some(Ok(programs))
    }
}
