//! How figures of several threads make one. The functions are the rules that a declaration names.

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adds {
    /// Added up; a sum that has no room is the largest number.
    Sum,
    /// Standard errors that are independent: the root of the sum of squares, rounded.
    Quadrature,
    /// The best that is known of any.
    Best,
}

impl Adds {
    /// In a table.
    pub fn name(self) -> &'static str {
        match self {
            Adds::Sum => "sum",
            Adds::Quadrature => "root of the sum of squares",
            Adds::Best => "the best known",
        }
    }
}

/// What adds up.
pub trait Amount {
    /// Adds another one.
    fn sum(&mut self, other: &Self);
}

/// What a figure may be.
pub trait Value {
    /// As one number; `None` if it is not a number, or not known.
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

/// A sum of those that are known.
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

/// [`Adds::Sum`].
pub fn sum<A: Amount>(all: &mut A, one: &A) {
    all.sum(one);
}

/// [`Adds::Quadrature`]. Each step is rounded to a nanosecond, so that errors of a few nanoseconds add up to less than they should.
pub fn quadrature(all: &mut u64, one: &u64) {
    // What is not known of either leaves the other exactly as it was.
    if *one > 0 {
        *all = (*all as f64).hypot(*one as f64).round() as u64;
    }
}

/// [`Adds::Best`].
pub fn best<A: Ord + Copy>(all: &mut A, one: &A) {
    *all = (*all).max(*one);
}
