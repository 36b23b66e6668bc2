//! How many requests a schedule makes, as far as that decides whether it is worth a trial.

use crate::kind::Kind;

/// A request with more than one thread moves a cache line from one CPU to another. It takes at least so long, nanoseconds.
const LEAST_NS: f64 = 30.0;

/// How many requests a schedule makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Some for each thread: their number grows with the logarithm of the number of iterations, or not at all.
    Few,
    /// One for each chunk of so many iterations.
    Chunks(u64),
}

impl Requests {
    /// Returns how many requests a schedule makes whose smallest chunk has so many iterations.
    #[must_use]
    pub fn of(kind: Kind, chunk: u64) -> Requests {
        match kind {
            Kind::Ss | Kind::StaticSteal => Requests::Chunks(chunk.max(1)),
            _ => Requests::Few,
        }
    }

    /// Returns the least time of all requests of an instance, nanoseconds.
    #[must_use]
    pub fn least_ns(self, trips: u64) -> f64 {
        match self {
            Requests::Few => 0.0,
            Requests::Chunks(chunk) => trips as f64 / chunk as f64 * LEAST_NS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_iterations_cost_a_request_each() {
        assert_eq!(Requests::of(Kind::Ss, 0), Requests::Chunks(1));
        assert_eq!(Requests::of(Kind::Ss, 10).least_ns(100), 10.0 * LEAST_NS);
        assert_eq!(Requests::of(Kind::Fac2, 1).least_ns(1_000_000), 0.0);
    }
}
