//! What earlier runs have found out about single loops, from files that are read at load.

use std::sync::OnceLock;

use loops::saved::Saved;

/// The schedules that one has selected.
pub static SAVED: OnceLock<Saved> = OnceLock::new();
/// What one has measured.
pub static PROFILES: OnceLock<Saved> = OnceLock::new();
