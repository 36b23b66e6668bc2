//! Forecast of the speed-up from removing a loss: a range and a bound.
//!
//! All forecasts follow from three facts that need no model of the program. With `W` the wall time, `n` the number of worker threads and `C` the CPUs
//! the program may use:
//!
//! - **Work bound.** The work has to be done: `W' ≥ Σ work / min(n, C)`.
//! - **Thread bound.** If no work moves between threads, `W' ≥` the work of the busiest thread.
//! - **Delay range.** A loss of `D` thread-seconds has lengthened the run by about `D / n` if it delayed all threads at the same time, and by at most
//!   `D` if it delayed them one after another on the critical path. Removing it gives a factor between `W / (W − D/n)` and `W / (W − D)`.
//!
//! Ranges are cut to the bounds. The exception is a step after which the work itself can take less CPU time ([`Expected::stretched`]): its range goes beyond
//! the work bound. Factors are rounded down, so that rounding never promises more.

use crate::thresholds::WORTH_FACTOR;

/// Largest factor in a forecast. A larger one only shows that hardly any work was measured.
const LARGEST_FORECAST: f64 = 100.0;

/// Largest relative error of the work that is assumed. With it, a range is at least three times as wide, and is not printed unless it begins at 1.
const MOST_UNCERTAIN: f64 = 0.5;

/// Forecast of a speed-up, as factors: `1 ≤ low ≤ high ≤ bound`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    low: f64,
    high: f64,
    bound: f64,
}

/// Limits a factor to 1 … 1e9 and rounds it down to thousandths.
fn factor(value: f64) -> f64 {
    let sane = if value.is_nan() { 1.0 } else { value.clamp(1.0, 1e9) };
    (sane * 1000.0 + 1e-6).floor() / 1000.0
}

impl Expected {
    /// Returns a forecast from factor `low` to factor `high`. The factors are limited so that `1 ≤ low ≤ high ≤ bound`.
    pub fn new(low: f64, high: f64, bound: f64) -> Expected {
        let bound = factor(bound);
        let high = factor(high).min(bound).min(LARGEST_FORECAST);
        Expected { low: factor(low).min(high), high, bound }
    }

    /// Returns the forecast for removing `loss_ns` of lost thread time. The wall time becomes shorter by at least `loss_ns` ÷ `threads`, if the
    /// loss is spread over all threads, and by at most `loss_ns`. No factor exceeds `bound`.
    pub fn of_delay(wall_ns: f64, loss_ns: f64, threads: f64, bound: f64) -> Expected {
        let low = faster(wall_ns, loss_ns / threads.max(1.0));
        let bound = faster(wall_ns, loss_ns).min(bound);
        Expected::new(low, bound, bound)
    }

    /// Returns a forecast from `low` × `bound` to `high` × `bound`, with the upper bound `bound`. All of these are speed-up factors and at least 1.
    pub fn part_of(bound: f64, low: f64, high: f64) -> Expected {
        Expected::new(bound * low, bound * high, bound)
    }

    /// Returns the forecast for a step that shortens a run of `wall_ns` by at least `sure` × `saved_ns` and at most `saved_ns`.
    pub fn saving(wall_ns: f64, saved_ns: f64, sure: f64) -> Expected {
        let bound = faster(wall_ns, saved_ns);
        Expected::new(faster(wall_ns, saved_ns * sure), bound, bound)
    }

    /// Returns this forecast limited to `bound`. If `bound` is below the forecast's own bound, the low end is reduced in the same proportion.
    pub fn within(self, bound: f64) -> Expected {
        if bound >= self.bound {
            return self;
        }
        let bound = factor(bound);
        Expected::new(self.low * bound / self.bound, self.high, bound)
    }

    /// Returns this forecast with the upper ends of `other`, if those are higher.
    pub fn up_to(self, other: Expected) -> Expected {
        Expected { low: self.low, high: self.high.max(other.high), bound: self.bound.max(other.bound) }
    }

    /// Returns this forecast for a work bound that has the relative error `error`, from 0 to 1: wider at both ends.
    pub fn uncertain(self, error: f64) -> Expected {
        let error = error.clamp(0.0, MOST_UNCERTAIN);
        Expected::new(self.low / (1.0 + error), self.high / (1.0 - error), self.bound / (1.0 - error))
    }

    /// Returns this forecast with its upper ends multiplied by `times`, so that they can exceed the work bound.
    pub fn stretched(self, times: f64) -> Expected {
        Expected::new(self.low, self.high * times, self.bound * times)
    }

    /// Returns the lowest expected factor.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Returns the highest expected factor.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Returns the bound: no way of removing this loss can give a larger factor.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Returns whether the highest expected factor makes the step worth trying.
    pub fn is_worth_trying(&self) -> bool {
        self.high >= WORTH_FACTOR
    }
}

/// Returns `wall / (wall − saved)`; very large if nothing remains.
fn faster(wall_ns: f64, saved_ns: f64) -> f64 {
    let rest = (wall_ns - saved_ns.max(0.0)).max(1.0);
    wall_ns / rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Expected = Expected { low: 1.0, high: 1.0, bound: 1.0 };

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
        assert_eq!(Expected::new(5.0, 2.0, 0.5), NOTHING);
    }

    #[test]
    fn a_lower_bound_takes_the_low_end_with_it() {
        let alone = Expected::new(1.6, 2.0, 2.0);
        assert_eq!(alone.within(3.0), alone);
        assert_eq!(alone.within(1.5), Expected::new(1.2, 1.5, 1.5));
        assert!(!alone.within(0.7).is_worth_trying());
    }

    #[test]
    fn an_uncertain_work_bound_widens_both_ends() {
        let sure = Expected::new(1.5, 2.0, 2.0);
        assert_eq!(sure.uncertain(0.0), sure);
        assert_eq!(sure.uncertain(0.2), Expected::new(1.25, 2.5, 2.5));
        assert_eq!(sure.uncertain(7.0), Expected::new(1.0, 4.0, 4.0));
        assert_eq!(Expected::new(1.1, 1.2, 1.2).uncertain(0.2).low(), 1.0);
    }

    #[test]
    fn rounding_goes_down() {
        assert_eq!(Expected::new(1.0, 1.9999, 1.9999).high(), 1.999);
    }

    #[test]
    fn no_number_is_not_a_promise() {
        assert_eq!(Expected::new(f64::NAN, f64::NAN, f64::NAN), NOTHING);
        assert!(Expected::of_delay(10.0, 10.0, 1.0, f64::INFINITY).high() <= LARGEST_FORECAST);
        assert!(!Expected::new(1.0, 1.04, 9.0).is_worth_trying());
    }
}
