//! What every engine goes through; see the session's text for when.

use std::os::fd::BorrowedFd;

use anyhow::Result;

use super::Subject;

/// An engine of a session. Probing and planning are its constructor's: an engine that exists can
/// work here and knows what it will do.
pub trait Engine {
    /// Take hold of the target. A launched program has not run an instruction of its own yet.
    fn apply(&mut self, subject: &Subject) -> Result<()>;

    /// Descriptors that become readable when `tick` should be called early.
    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Do what is due; called at least every 100 ms.
    fn tick(&mut self) -> Result<()>;

    /// Whether any thread of the target, or of what it started, is still there.
    /// An engine that does not follow what the target starts knows of none.
    fn anything_alive(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Let go of the target and put back everything that was changed.
    fn undo(&mut self) -> Result<()>;
}
