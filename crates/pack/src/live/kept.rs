//! What one manager leaves to the next one of the same session.

use symbols::Judge;

use super::managed::Holder;
use super::orphans::Orphans;
use super::overhead::OwnTime;
use super::spins::Spins;
use crate::policy::mode::Mode;

/// What one manager leaves to the next one of the same session.
pub struct Kept<'p> {
    pub own: OwnTime,
    pub holder: Holder<'p>,
    /// Finds processes whose parent has ended. `None` if child processes are not packed, or cox did not start the
    /// program.
    pub orphans: Option<Orphans>,
    /// Has read the program's binaries.
    pub judge: Judge,
    pub spins: Spins,
    /// Knows for how long not to rotate the threads. `None` before the first manager.
    pub mode: Option<Mode>,
    /// False if a manager has failed, and the session ends.
    pub works: bool,
}
