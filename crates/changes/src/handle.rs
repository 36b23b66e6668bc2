//! Handles that set a thread's knob thousands of times per second.
//!
//! A [`KnobHandle`] is made once per knob, and a [`Setting`] is prepared once per value. Each change is then a single
//! system call. Handles still belong to the session: when the session begins to restore, it waits for handles that
//! are writing, and no handle can write afterwards. Otherwise a late write would remain after the undo.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use crate::error::Error;
use crate::format::Change;
use crate::kernel_value::KernelValue;
use crate::knob::Knob;
use crate::knob_io::{KnobIo, Writer};
use crate::setting::{Setting, Terms};
use crate::value::Value;

/// A gate that is open until the session begins to restore. A handle passes the gate for each write. Shutting the gate
/// waits for handles that are writing.
#[derive(Debug)]
pub(crate) struct Gate(RwLock<bool>);

impl Gate {
    pub(crate) fn open() -> Gate {
        Gate(RwLock::new(true))
    }

    pub(crate) fn shut(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Returns a guard that keeps the gate from being shut until it is dropped; `None` if the gate is shut, because the
    /// session restores its changes. Never waits: if the lock is not free, the gate is being shut.
    fn pass(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let inside = match self.0.try_read() {
            Ok(inside) => inside,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        inside.then_some(inside)
    }
}

/// A handle to one thread's affinity or scheduling, usable by any thread of the session's process.
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

    /// Returns the knob that this handle sets.
    #[must_use]
    pub fn knob(&self) -> &Knob {
        &self.knob
    }

    /// Returns the knob's value before any session changed it.
    #[must_use]
    pub fn original(&self) -> &Value {
        &self.terms.original
    }

    /// Prepares a value for this handle. Another handle can set the prepared value too, if its knob has the same
    /// original value and the same claim (the values that a session may give the knob).
    ///
    /// # Errors
    /// [`Error::NotClaimed`] if the value is neither within the claim nor the original; [`Error::Knob`] if the
    /// kernel's interface cannot express it.
    pub fn prepare(&self, value: &Value) -> Result<Setting, Error> {
        if !self.terms.claim.permits(value, &self.terms.original) {
            return Err(self.not_claimed(value));
        }
        let kernel = KernelValue::of(value).map_err(|source| Error::of(&self.knob, source))?;
        Ok(Setting { value: value.clone(), kernel, terms: Arc::clone(&self.terms) })
    }

    /// Sets the knob with one system call. Allocates no memory and waits for no thread, unless it fails.
    ///
    /// The thread's id was checked when the handle was made. It is not checked again, because that would take several
    /// more system calls. So drop a handle soon after its thread has ended. Once all other ids have been used (pid_max,
    /// usually 32,768 or more), the kernel may give this id to another thread. The handle would then change that
    /// thread's mask or scheduling class, and no undo would restore it. With privileges, this can even be another
    /// user's thread.
    ///
    /// # Errors
    /// [`Error::Gone`] if the thread has ended; [`Error::Ended`] if the session has begun to restore;
    /// [`Error::NotClaimed`] for a setting of a handle with another claim or original; else the kernel's error.
    pub fn apply(&self, setting: &Setting) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.terms, &setting.terms) && self.terms != setting.terms {
            return Err(self.not_claimed(&setting.value));
        }
        let Some(_inside) = self.gate.pass() else { return Err(Error::Ended(Box::new(self.knob.clone()))) };
        self.writer.write(setting).map_err(|source| Error::of(&self.knob, source))
    }

    /// Returns whether the thread's affinity is within the affinity `bounds`, which [`prepare`](KnobHandle::prepare)
    /// returned. If it is not, somebody else has set it, or none of the CPUs that were set is available. In that case
    /// the kernel lets the thread use all possible CPUs. Makes one system call. Allocates no memory and waits for no
    /// thread, unless the call fails.
    ///
    /// # Errors
    /// [`Error::Gone`] if the thread has ended; [`Error::Knob`] if `bounds` is not an affinity.
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
