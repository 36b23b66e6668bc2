//! Setting a thread's knob thousands of times a second.
//!
//! A [`KnobHandle`] is had once per knob and a [`Setting`] prepared once per value; what remains is one system
//! call. Handles belong to the session all the same: when it begins to put things back, a handle that is
//! writing is waited for, and none writes afterwards. Otherwise a late write would survive the undo.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use crate::error::Error;
use crate::format::Change;
use crate::kernel_value::KernelValue;
use crate::knob::{Knob, Value};
use crate::knob_io::{KnobIo, Writer};
use crate::setting::{Setting, Terms};

/// Open while the session lasts. Handles pass one by one; shutting it waits for those that are inside.
#[derive(Debug)]
pub(crate) struct Gate(RwLock<bool>);

impl Gate {
    pub(crate) fn open() -> Gate {
        Gate(RwLock::new(true))
    }

    pub(crate) fn shut(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Never waits: that the lock is not free means that it is being shut.
    fn pass(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let inside = match self.0.try_read() {
            Ok(inside) => inside,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        inside.then_some(inside)
    }
}

/// A hold on one thread's affinity or scheduling, for any thread of the session's process.
pub struct KnobHandle {
    knob: Knob,
    terms: Arc<Terms>,
    writer: Box<dyn Writer>,
    gate: Arc<Gate>,
}

impl KnobHandle {
    pub(crate) fn new(knob_io: &dyn KnobIo, change: &Change, gate: Arc<Gate>) -> Result<KnobHandle, Error> {
        let terms = Arc::new(Terms { original: change.original.clone(), claim: change.claim.clone() });
        Ok(KnobHandle { knob: change.knob.clone(), terms, writer: knob_io.writer(&change.knob)?, gate })
    }

    /// The knob.
    #[must_use]
    pub fn knob(&self) -> &Knob {
        &self.knob
    }

    /// Its value before any session changed it.
    #[must_use]
    pub fn original(&self) -> &Value {
        &self.terms.original
    }

    /// Make a value ready to be set, by this handle or another with the same claim and the same original.
    ///
    /// # Errors
    /// [`Error::NotClaimed`] when it is neither within the claim nor the original, [`Error::Knob`] when
    /// the kernel cannot be told so.
    pub fn prepare(&self, value: &Value) -> Result<Setting, Error> {
        if !self.terms.claim.permits(value, &self.terms.original) {
            return Err(self.not_claimed(value));
        }
        let kernel =
            KernelValue::of(value).map_err(|source| Error::Knob { knob: Box::new(self.knob.clone()), source })?;
        Ok(Setting { value: value.clone(), kernel, terms: Arc::clone(&self.terms) })
    }

    /// Set the knob: one system call. Allocates nothing and waits for nobody, unless it fails.
    ///
    /// Whether the id still is the thread's was looked at when the handle was made, and is not again: that
    /// would be several system calls more. An id goes to another thread only after all others had their
    /// turn (32,768 at least, or pid_max), so drop a handle soon after its thread has ended. The price of not
    /// doing so is that a stranger gets a mask within the pack or a class that was not meant for it, which
    /// no undo knows of: with privileges, that may be a thread of another user.
    ///
    /// # Errors
    /// [`Error::Gone`] when the thread has ended, [`Error::Ended`] when the session has begun to put things
    /// back, [`Error::NotClaimed`] for the setting of a handle with another claim or original, or the kernel's
    /// refusal.
    pub fn apply(&self, setting: &Setting) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.terms, &setting.terms) && self.terms != setting.terms {
            return Err(self.not_claimed(&setting.value));
        }
        let Some(_inside) = self.gate.pass() else { return Err(Error::Ended(Box::new(self.knob.clone()))) };
        self.writer.write(setting).map_err(|source| Error::of(&self.knob, source))
    }

    /// Whether the thread's affinity is within that of `bounds`, a setting of this handle: if it is not, not we
    /// have set it, or the kernel has taken CPUs away. One system call. Allocates nothing and waits for nobody,
    /// unless it fails.
    ///
    /// # Errors
    /// [`Error::Gone`] when the thread has ended, [`Error::Knob`] for bounds that are no affinity.
    pub fn is_within(&self, bounds: &Setting) -> Result<bool, Error> {
        self.writer.is_within(bounds).map_err(|source| Error::of(&self.knob, source))
    }

    fn not_claimed(&self, value: &Value) -> Error {
        Error::NotClaimed {
            knob: Box::new(self.knob.clone()),
            value: Box::new(value.clone()),
            claim: self.terms.claim.to_string(),
        }
    }
}

impl fmt::Debug for KnobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnobHandle").field("knob", &self.knob).field("terms", &self.terms).finish_non_exhaustive()
    }
}
