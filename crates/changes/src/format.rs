//! The lines of a journal.

use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::error::Error;
use crate::files::Name;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::ownership::is_ours;
use crate::value::Value;

/// The format that this version writes. Earlier formats are read; journals in later formats are reported and left
/// unchanged.
pub const FORMAT: u32 = 4;
/// The first format whose first line names the format and the file.
pub(crate) const FIRST_NAMED: u32 = 3;
pub(crate) const FIRST_WORDS: &str = "coxswain journal ";

/// The session that writes the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The format of the journal, see [`FORMAT`].
    pub format: u32,
    /// Id of the boot in which the journal was written.
    pub boot_id: String,
    /// The session's process.
    pub pid: u32,
    /// Start time of the process, which distinguishes it from a later one with the same id, ns.
    pub start_ns: u64,
    /// The session's command line, for messages.
    pub command: String,
}

/// A change of a knob, as a line of the journal: the original value, and the values that the session may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The engine that asked for the change.
    pub engine: String,
    /// The knob.
    pub knob: Knob,
    /// The knob's value before any session changed it.
    pub original: Value,
    /// The values that the session may set.
    pub claim: Claim,
}

impl Change {
    /// Returns the knob's present value, and whether it is one that the session has set. A [`Claim::Confined`] knob has a
    /// value of the kernel's, which is never the session's.
    ///
    /// # Errors
    /// [`Error::Gone`], or the kernel's error.
    pub fn state(&self, knob_io: &dyn KnobIo) -> Result<(Value, bool), Error> {
        let now = knob_io.read(&self.knob)?;
        let is_ours = is_ours(knob_io, &self.knob, &self.claim, &now);
        Ok((now, is_ours))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line<S, C> {
    Session(S),
    Births(C),
    Change(C),
    /// The session's changes outlast its process.
    Lasts(bool),
}

/// Returns the first line of a journal, without the line end.
pub(crate) fn first_line(name: &Name) -> String {
    first_line_of(FORMAT, name)
}

/// Returns the first line of a journal in this format, without the line end.
pub(crate) fn first_line_of(format: u32, name: &Name) -> String {
    format!("{FIRST_WORDS}{format} {name}")
}
