//! Rules for combining the figures of several threads. A declaration of a figure names one of these functions.

/// A type whose values can be added up.
pub trait Amount {
    /// Adds another amount.
    fn sum(&mut self, other: &Self);
}

/// The type of a figure.
pub trait Value {
    /// Returns the value as one number; `None` if it is not a number, or not known.
    fn number(&self) -> Option<u64>;
}

impl Amount for u64 {
    fn sum(&mut self, other: &u64) {
        *self = self.saturating_add(*other);
    }
}

impl Value for u64 {
    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

/// The sum of the values that are known.
impl Amount for Option<u64> {
    fn sum(&mut self, other: &Option<u64>) {
        *self = match (*self, *other) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (known, None) | (None, known) => known,
        };
    }
}

impl Value for Option<u64> {
    fn number(&self) -> Option<u64> {
        *self
    }
}

/// Adds the values; the sum saturates at the largest number.
pub fn sum<A: Amount>(all: &mut A, one: &A) {
    all.sum(one);
}

/// Combines independent standard errors: the root of the sum of squares. Each step is rounded to a nanosecond, so errors of a few nanoseconds sum to
/// less than they should.
pub fn quadrature(all: &mut u64, one: &u64) {
    // The value 0 means that the standard error is unknown. If one of the two is unknown, the result is the other one.
    if *one > 0 {
        *all = (*all as f64).hypot(*one as f64).round() as u64;
    }
}

/// Keeps the best of the values: the largest by the type's order.
pub fn best<A: Ord + Copy>(all: &mut A, one: &A) {
    *all = (*all).max(*one);
}

/// Does nothing: values are not combined, because the figure is computed from the histogram of all intervals.
pub fn histogram(_: &mut u64, _: &u64) {}
