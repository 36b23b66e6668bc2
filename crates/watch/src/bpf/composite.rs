//! Loads the parts that a session needs in one BPF object, whichever part is requested first.
//!
//! A session announces its parts by [`expect`]. The first handle that is made for one of these parts loads the programs of all parts; each other
//! handle then takes its part of the same programs, once. If the parts cannot be loaded in one object, each part is loaded alone and reports its
//! own errors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::parts::{Part, Parts};
use super::programs::{Loaded, Programs};
use crate::observer::WatchError;

/// What the session of this process has announced; a process has one session at a time.
static EXPECTED: Mutex<Option<Expected>> = Mutex::new(None);

struct Expected {
    parts: Parts,
    /// The loaded programs, while a handle of one of the parts lives.
    loaded: Option<Weak<Loaded>>,
    taken: Vec<Part>,
}

/// The expectation that a session has announced. Dropping it ends the expectation; loaded programs stay loaded.
#[must_use]
pub struct Expectation(());

/// Announces that these parts will be requested, until the returned value is dropped.
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
    /// Returns programs that contain `part`. If the announced programs fit, returns these; otherwise loads programs with `alone`, which must
    /// contain `part` and no other part.
    ///
    /// # Errors
    /// As [`load`](Programs::load).
    pub(crate) fn of(part: Part, alone: &Parts) -> Result<Programs, WatchError> {
        let mut expected = expected();
        if let Some(composite) = expected.as_mut().and_then(|expected| expected.take(part, alone)) {
            match composite {
                Ok(programs) => return Ok(programs),
                // The parts cannot be loaded together, so each part is loaded alone. A part that cannot be loaded alone either reports why.
                Err(_) => *expected = None,
            }
        }
        drop(expected);
        Programs::load(alone)
    }
}

impl Expected {
    /// Takes a part of the announced programs. Returns `None` if they do not fit, or if this part is already taken.
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
