//! What to expect when a loss is removed: a range and a bound.
//!
//! All forecasts are made from three facts that need no model of the program. With `W` the wall time,
//! `n` the crew's threads and `C` the CPUs it may use:
//!
//! - **Work bound.** The work has to be done: `W' ≥ Σ work / min(n, C)`.
//! - **Thread bound.** When work stays where it is, `W' ≥` the work of the busiest thread.
//! - **Delay range.** A loss of `D` thread-seconds has lengthened the run by about `D / n` if it hit
//!   all threads side by side, and by at most `D` if it hit them one after another on the critical
//!   path. Removing it therefore gives a factor between `W / (W − D/n)` and `W / (W − D)`.
//!
//! Ranges are cut to the bounds. Factors are rounded down, so that rounding never promises more.

use crate::thresholds::WORTH_FACTOR;

/// Factors above this say that hardly any work was measured, not how fast a program can be.
const LARGEST_FORECAST: f64 = 100.0;

/// A forecast: `1 ≤ low ≤ high ≤ bound`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    low: f64,
    high: f64,
    bound: f64,
}

/// A factor cut to a sane range and rounded down to thousandths.
fn factor(value: f64) -> f64 {
    let sane = if value.is_nan() { 1.0 } else { value.clamp(1.0, 1e9) };
    (sane * 1000.0 + 1e-6).floor() / 1000.0
}

impl Expected {
    /// Between two factors, under a bound; all are cut so that `1 ≤ low ≤ high ≤ bound`.
    pub fn new(low: f64, high: f64, bound: f64) -> Expected {
        let bound = factor(bound);
        let high = factor(high).min(bound).min(LARGEST_FORECAST);
        Expected { low: factor(low).min(high), high, bound }
    }

    /// Nothing.
    pub fn nothing() -> Expected {
        Expected { low: 1.0, high: 1.0, bound: 1.0 }
    }

    /// Removing a loss of `loss_ns` thread time spread over `threads`, under `bound`.
    pub fn of_delay(wall_ns: f64, loss_ns: f64, threads: f64, bound: f64) -> Expected {
        let low = faster(wall_ns, loss_ns / threads.max(1.0));
        let bound = faster(wall_ns, loss_ns).min(bound);
        Expected::new(low, bound, bound)
    }

    /// Reaching between the parts `low` and `high` of a bound, but at least standing still.
    pub fn part_of(bound: f64, low: f64, high: f64) -> Expected {
        Expected::new(bound * low, bound * high, bound)
    }

    /// Saving `saved_ns` of wall time, or at least the part `sure` of it.
    pub fn saving(wall_ns: f64, saved_ns: f64, sure: f64) -> Expected {
        let bound = faster(wall_ns, saved_ns);
        Expected::new(faster(wall_ns, saved_ns * sure), bound, bound)
    }

    /// The same under a lower bound; the low end keeps its part of the bound.
    pub fn within(self, bound: f64) -> Expected {
        if bound >= self.bound {
            return self;
        }
        let bound = factor(bound);
        Expected::new(self.low * bound / self.bound, self.high, bound)
    }

    /// At least this factor.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// At most this factor.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// No more than this factor, whatever is done about this loss.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Whether the best case is worth a step.
    pub fn is_worth_trying(&self) -> bool {
        self.high >= WORTH_FACTOR
    }
}

/// `wall / (wall − saved)`; very large when nothing remains.
fn faster(wall_ns: f64, saved_ns: f64) -> f64 {
    let rest = (wall_ns - saved_ns.max(0.0)).max(1.0);
    wall_ns / rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_lies_between_side_by_side_and_one_after_another() {
        // Two threads lost 2 s in a run of 10 s: 10/9 if both lost 1 s together, 10/8 if in turn.
        let expected = Expected::of_delay(10.0, 2.0, 2.0, 9.0);
        assert_eq!((expected.low(), expected.high(), expected.bound()), (1.111, 1.25, 1.25));
    }

    #[test]
    fn a_bound_cuts_range_and_low_end() {
        let expected = Expected::of_delay(10.0, 9.0, 1.0, 1.2);
        assert_eq!((expected.low(), expected.high(), expected.bound()), (1.2, 1.2, 1.2));
        assert_eq!(Expected::new(5.0, 2.0, 0.5), Expected::nothing());
    }

    #[test]
    fn a_lower_bound_takes_the_low_end_with_it() {
        let alone = Expected::new(1.6, 2.0, 2.0);
        assert_eq!(alone.within(3.0), alone);
        assert_eq!(alone.within(1.5), Expected::new(1.2, 1.5, 1.5));
        assert!(!alone.within(0.7).is_worth_trying());
    }

    #[test]
    fn rounding_goes_down() {
        assert_eq!(Expected::new(1.0, 1.9999, 1.9999).high(), 1.999);
    }

    #[test]
    fn no_number_is_not_a_promise() {
        assert_eq!(Expected::new(f64::NAN, f64::NAN, f64::NAN), Expected::nothing());
        assert!(Expected::of_delay(10.0, 10.0, 1.0, f64::INFINITY).high() <= LARGEST_FORECAST);
        assert!(!Expected::new(1.0, 1.04, 9.0).is_worth_trying());
    }
}
