//! What the lines of a journal are.

use serde::{Deserialize, Serialize};

use crate::files::Name;
use crate::knob::{Claim, Knob, Value};

/// Written by this version. Journals of earlier formats are read; those of later ones are left alone, and named.
pub const FORMAT: u32 = 3;
pub(crate) const FIRST_WORDS: &str = "coxswain journal ";

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// The boot in which it was written.
    pub boot_id: String,
    /// The session's process,
    pub pid: u32,
    /// and its start, to tell it from a later one with the same id.
    pub start_ns: u64,
    /// Its command line, for people.
    pub command: String,
}

/// A knob that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The engine that wanted it.
    pub engine: String,
    /// What is changed.
    pub knob: Knob,
    /// The value before any session changed it.
    pub original: Value,
    /// What it may be while the session lasts.
    pub claim: Claim,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line<S, C> {
    Session(S),
    Births(C),
    Change(C),
}

/// The first line of a journal, without its end.
pub(crate) fn first_line(name: &Name) -> String {
    format!("{FIRST_WORDS}{FORMAT} {name}")
}
