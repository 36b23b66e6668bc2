//! What a rule found.

use crate::verdict::{Confidence, Kind, Sentence};

/// A situation that is there.
pub(crate) struct Finding {
    /// Which.
    pub kind: Kind,
    /// Thread time it could give back.
    pub back_ns: f64,
    /// How sure.
    pub confidence: Confidence,
    /// The first stands for the finding; more follow only under the headline.
    pub sentences: Vec<Sentence>,
}
