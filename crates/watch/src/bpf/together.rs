//! Parts that a session wants together are loaded together, whoever asks for the first of them.
//!
//! A session says which parts it will want, by [`expect`]. The first handle that is made of one of these loads all, and each of the others takes its
//! part of the same programs, once. If they cannot be loaded together, each is loaded alone and says for itself what is missing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::parts::{Part, Parts};
use super::programs::{Programs, Shared};
use crate::observer::WatchError;

/// What is expected of this process: it has one session at a time.
static EXPECTED: Mutex<Option<Expected>> = Mutex::new(None);

struct Expected {
    parts: Parts,
    /// The programs, while a handle of one of the parts lives.
    loaded: Option<Shared>,
    taken: Vec<Part>,
}

/// Dropping it ends the expectation; what is loaded stays as it is.
#[must_use]
pub struct Expectation(());

/// Says that these parts will be wanted, until the returned value is dropped.
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
    /// Programs with this part, which is all that `alone` has: those that are expected where they fit, else these alone.
    ///
    /// # Errors
    /// As [`load`](Programs::load).
    pub(crate) fn of(part: Part, alone: &Parts) -> Result<Programs, WatchError> {
        let mut expected = expected();
        if let Some(together) = expected.as_mut().and_then(|expected| expected.take(part, alone)) {
            match together {
                Ok(programs) => return Ok(programs),
                // Why is said by each part that cannot be loaded alone.
                Err(_) => *expected = None,
            }
        }
        drop(expected);
        Programs::load(alone)
    }
}

impl Expected {
    /// `None`: they do not fit, or this part of them is taken.
    fn take(&mut self, part: Part, alone: &Parts) -> Option<Result<Programs, WatchError>> {
        if !self.parts.fits(part, alone) || self.taken.contains(&part) {
            return None;
        }
        let programs = match &self.loaded {
            Some(shared) => shared.programs()?,
            None => match Programs::load(&self.parts) {
                Ok(programs) => programs,
                Err(error) => return Some(Err(error)),
            },
        };
        self.loaded = Some(programs.shared());
        self.taken.push(part);
        Some(Ok(programs))
    }
}
