//! The generalised Pareto law.

/// Parameters of a generalised Pareto law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// Shape ξ: 0 is exponential, negative is bounded.
    pub shape: f64,
    /// Scale σ, in nanoseconds.
    pub scale: f64,
}
