//! The finding of a rule.

use crate::verdict::{Confidence, Kind, Sentence};

/// A situation that a rule detected.
pub(crate) struct Finding {
    /// Kind of the situation.
    pub kind: Kind,
    /// Thread time that could be saved, in nanoseconds.
    pub back_ns: f64,
    /// Confidence in the finding.
    pub confidence: Confidence,
    /// The first sentence summarizes the finding; the others appear only if the finding is the headline.
    pub sentences: Vec<Sentence>,
}
