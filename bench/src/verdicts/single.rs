//! Measurements of one limit alone, in the situations that matter for it.

use anyhow::Result;

use super::corpus::Ready;
use super::measure::Field;
use super::result::Finished;
use super::score::Totals;
use super::setting::Cpus;
use super::situation::Situation;
use super::{change, limits, text, truth};
use crate::verdict::Verdict;

/// The limit that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// The headlines of the situations about which the truth table makes a claim.
    Headlines,
    /// `cox pack` in the plain situations with more threads or ranks than CPUs.
    Packing,
}

impl Single {
    /// Returns whether the situation matters for the limit.
    pub fn includes(self, situation: &Situation, cpus: &Cpus) -> bool {
        match self {
            Single::Headlines => truth::of(situation).is_some(),
            Single::Packing => change::packing(situation, cpus).is_some(),
        }
    }

    /// Measures a situation.
    ///
    /// # Errors
    /// After Ctrl-C.
    pub fn measure(self, field: &Field<'_>, situation: &Situation, ready: &Ready) -> Result<Finished> {
        match self {
            Single::Headlines => field.verdict(situation, ready),
            Single::Packing => field.packed(situation, ready),
        }
    }

    /// Returns the line of a measured situation.
    pub fn line(self, finished: &Finished) -> String {
        match self {
            Single::Headlines => text::headline(finished),
            Single::Packing => text::line(finished),
        }
    }

    /// Compares the totals with the limit.
    pub fn verdict(self, totals: &Totals) -> Verdict {
        match self {
            Single::Headlines => limits::headlines(totals),
            Single::Packing => limits::packing(totals),
        }
    }
}
