//! What some schedules need to know about a loop and its team.

use crate::invalid::Invalid;
use crate::kind::Kind;

/// Facts about a loop that a schedule may need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// Mean time of an iteration (µ), nanoseconds, above 0.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the time of an iteration (σ), nanoseconds, from 0.
    pub deviation_ns: Option<f64>,
    /// Cost of a request (h), nanoseconds, above 0.
    pub overhead_ns: Option<f64>,
    /// Relative speed of each thread, above 0. Only their ratios count. `static` and `wf` use them as they are, and
    /// `static_weighted`, `awf` and `awf_b` to `awf_e` until they have measured weights.
    pub weights: Option<Vec<f64>>,
}

/// An input that a schedule cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`field@Inputs::mean_ns`].
    Mean,
    /// [`field@Inputs::deviation_ns`].
    Deviation,
    /// [`field@Inputs::overhead_ns`].
    Overhead,
    /// [`field@Inputs::weights`].
    Weights,
}

impl Need {
    /// Returns what it is called in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Need::Mean => "the mean time of an iteration",
            Need::Deviation => "the standard deviation of the time of an iteration",
            Need::Overhead => "the cost of a request",
            Need::Weights => "the weights of the threads",
        }
    }

    /// Returns the error for a schedule that does not have this input.
    pub(crate) fn missing(self, of: Kind) -> Invalid {
        let remedy = if self == Need::Weights { "give one for each thread" } else { "measure it with 'profile'" };
        Invalid::Missing { schedule: of.name(), input: self.name(), remedy }
    }
}

impl Inputs {
    /// Returns the mean time of an iteration, or why it is missing or invalid.
    pub(crate) fn mean_ns(&self, of: Kind) -> Result<f64, Invalid> {
        check(of, Need::Mean, self.mean_ns, |mean| mean > 0.0)
    }

    /// Returns the standard deviation of the time of an iteration, or why it is missing or invalid.
    pub(crate) fn deviation_ns(&self, of: Kind) -> Result<f64, Invalid> {
        check(of, Need::Deviation, self.deviation_ns, |deviation| deviation >= 0.0)
    }

    /// Returns the cost of a request, or why it is missing or invalid.
    pub(crate) fn overhead_ns(&self, of: Kind) -> Result<f64, Invalid> {
        check(of, Need::Overhead, self.overhead_ns, |overhead| overhead > 0.0)
    }

    /// Returns weights whose mean is 1, or why they are invalid; `None` if there are none.
    pub(crate) fn weights(&self, threads: usize) -> Result<Option<Box<[f64]>>, Invalid> {
        let Some(weights) = &self.weights else { return Ok(None) };
        if weights.len() != threads {
            return Err(Invalid::Weights { weights: weights.len(), threads });
        }
        let invalid = weights.iter().find(|weight| !(weight.is_finite() && **weight > 0.0));
        if let Some(weight) = invalid {
            return Err(Invalid::Input(Need::Weights.name(), *weight));
        }
        // Divided before the sum, so that the sum of large weights is finite.
        let largest = weights.iter().fold(0.0, |largest: f64, weight| largest.max(*weight));
        let sum: f64 = weights.iter().map(|weight| weight / largest).sum();
        Ok(Some(weights.iter().map(|weight| weight / largest / sum * threads as f64).collect()))
    }
}

fn check(of: Kind, need: Need, value: Option<f64>, is_valid: impl Fn(f64) -> bool) -> Result<f64, Invalid> {
    let value = value.ok_or(need.missing(of))?;
    if value.is_finite() && is_valid(value) { Ok(value) } else { Err(Invalid::Input(need.name(), value)) }
}
