//! The CPUs' counter as a clock: how many ticks a nanosecond has, and which tick is which time on CLOCK_MONOTONIC.
//!
//! The counter is read between two readings of the other clock; the tightest of several such brackets counts. Two brackets give the rate, and a third
//! one between them shows whether the rate is constant.

use anyhow::{Result, bail};
use arch::measuring::ticks;
use interference::detours::TOLERANCE_NS;
use machine::{Root, clock_source};

/// Number of brackets of which the tightest counts.
const TRIES: usize = 200;
/// Largest change of the rate, ppm. NTP changes the rate of CLOCK_MONOTONIC by up to 500 ppm, but slowly.
const STEADY_PPM: f64 = 100.0;

/// One instant on both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instant {
    /// The counter.
    pub ticks: u64,
    /// CLOCK_MONOTONIC, ns: the middle of the bracket.
    pub ns: u64,
    /// The time can be off by this much, ns: half of the bracket.
    pub error_ns: u64,
}

impl Instant {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Instant {
        let one = || {
            let (before, ticks, after) = (arch::monotonic_ns(), ticks(), arch::monotonic_ns());
            Instant { ticks, ns: before.midpoint(after), error_ns: (after - before).div_ceil(2) }
        };
        (1..TRIES).map(|_| one()).fold(one(), |best, next| if next.error_ns < best.error_ns { next } else { best })
    }
}

/// The relation of the two clocks over a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    begin: Instant,
    end: Instant,
}

impl Clock {
    /// Makes a clock of two instants.
    ///
    /// # Errors
    /// If they are too close to each other, or not in order.
    pub fn new(begin: Instant, end: Instant) -> Result<Clock> {
        if end.ticks <= begin.ticks || end.ns.saturating_sub(begin.ns) < 1_000_000 {
            bail!("the time-stamp counter cannot be calibrated: it does not advance with CLOCK_MONOTONIC");
        }
        Ok(Clock { begin, end })
    }

    /// Refuses counters that are no clock: by what the processor says, and by three instants of which the second is between the others.
    ///
    /// # Errors
    /// The reason.
    pub fn require_steady(instants: [Instant; 3]) -> Result<()> {
        if let Some(why) = clock_source::unstable_counter(&Root::live()) {
            bail!("{why}");
        }
        let [a, b, c] = instants;
        let (first, second) = (Clock::new(a, b)?, Clock::new(b, c)?);
        let change_ppm = (first.ticks_per_ns() / second.ticks_per_ns() - 1.0).abs() * 1e6;
        let allowed = STEADY_PPM + first.error_ppm() + second.error_ppm();
        if change_ppm > allowed {
            bail!(
                "the time-stamp counter is not a stable clock: its rate has changed by {change_ppm:.0} ppm within {:.1} s",
                (c.ns - a.ns) as f64 / 1e9
            );
        }
        Ok(())
    }

    /// Returns the rate.
    #[must_use]
    pub fn ticks_per_ns(&self) -> f64 {
        (self.end.ticks - self.begin.ticks) as f64 / (self.end.ns - self.begin.ns) as f64
    }

    /// Returns by how much the rate can be off, parts per million.
    #[must_use]
    pub fn error_ppm(&self) -> f64 {
        (self.begin.error_ns + self.end.error_ns) as f64 / (self.end.ns - self.begin.ns) as f64 * 1e6
    }

    /// Returns by how much the rate differs from that of an earlier span, ppm, without regard to the sign.
    #[must_use]
    pub fn change_ppm(&self, earlier: &Clock) -> f64 {
        (self.ticks_per_ns() / earlier.ticks_per_ns() - 1.0).abs() * 1e6
    }

    /// Returns how far times in this span can be off if the rate has changed steadily since an earlier span, ns.
    ///
    /// The clock is a straight line between two instants. If the rate changes by d over the span, its mean has changed by d/2, and the line is off by
    /// d · length / 8 in the middle.
    #[must_use]
    pub fn possible_error_ns(&self, earlier: &Clock) -> f64 {
        self.error_of_ns(self.change_ppm(earlier))
    }

    /// Returns whether [`possible_error_ns`](Clock::possible_error_ns) is above what the comparison of detours and events tolerates. Rates differ
    /// by the precision of their instants even if nothing has changed.
    #[must_use]
    pub fn drifted_since(&self, earlier: &Clock) -> bool {
        let by_instants_ns = self.error_of_ns(self.error_ppm() + earlier.error_ppm());
        self.possible_error_ns(earlier) > TOLERANCE_NS as f64 + by_instants_ns
    }

    fn error_of_ns(&self, change_ppm: f64) -> f64 {
        change_ppm / 1e6 * (self.end.ns - self.begin.ns) as f64 / 4.0
    }

    /// Returns the time of a tick on CLOCK_MONOTONIC, ns.
    #[must_use]
    pub fn time_ns(&self, tick: u64) -> u64 {
        let from_begin = (tick as i128 - self.begin.ticks as i128) as f64 / self.ticks_per_ns();
        self.begin.ns.saturating_add_signed(from_begin.round() as i64)
    }

    /// Returns the length of a number of ticks, ns.
    #[must_use]
    pub fn length_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_ns()).round() as u64
    }

    /// Returns the number of ticks in a length of time.
    #[must_use]
    pub fn ticks_in(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ticks: u64, ns: u64) -> Instant {
        Instant { ticks, ns, error_ns: 20 }
    }

    #[test]
    fn ticks_and_times_are_converted_both_ways() {
        let clock = Clock::new(at(1_000, 5_000_000), at(1_000 + 2_500_000_000, 1_005_000_000)).unwrap();
        assert!((clock.ticks_per_ns() - 2.5).abs() < 1e-9);
        assert_eq!(clock.time_ns(1_000 + 2_500), 5_001_000);
        assert_eq!(clock.time_ns(0), 5_000_000 - 400, "also before the first instant");
        assert_eq!((clock.length_ns(250), clock.ticks_in(100)), (100, 250));
        assert!((clock.error_ppm() - 0.04).abs() < 1e-6);
    }

    #[test]
    fn a_counter_that_changes_its_rate_is_refused() {
        let (a, b) = (at(0, 0), at(1_000_000_000, 500_000_000));
        assert!(Clock::require_steady([a, b, at(2_000_000_000, 1_000_000_000)]).is_ok());
        let error = Clock::require_steady([a, b, at(2_000_500_000, 1_000_000_000)]).unwrap_err().to_string();
        assert!(error.contains("500 ppm within 1.0 s"), "{error}");
        assert!(Clock::require_steady([a, b, b]).is_err());
    }

    /// A change that hides events from their detours is noticed, and one that does not is none.
    #[test]
    fn a_rate_that_changes_after_the_warm_up_is_noticed() {
        let (a, b) = (at(0, 0), at(2_000_000_000, 1_000_000_000));
        let after = |more_ticks: u64| at(22_000_000_000 + more_ticks, 11_000_000_000);
        let warm_up = Clock::new(a, b).unwrap();
        let drift = |more_ticks| {
            let window = Clock::new(b, after(more_ticks)).unwrap();
            (window.possible_error_ns(&warm_up).round(), window.drifted_since(&warm_up))
        };
        assert_eq!(drift(0), (0.0, false));
        // 0.1 ppm over ten seconds; the instants of a second's warm-up are precise to 0.04 ppm.
        assert_eq!(drift(2_000), (250.0, false));
        assert_eq!(drift(4_000), (500.0, true));
    }

    #[test]
    fn this_machines_counter_agrees_with_its_clock() {
        let begin = Instant::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let clock = Clock::new(begin, Instant::now()).unwrap();
        let (tick, ns) = (ticks(), arch::monotonic_ns());
        // The reading of `ns` may be delayed, but does not come before that of `tick`.
        assert!(clock.time_ns(tick) <= ns + 2_000, "{} {ns}", clock.time_ns(tick));
    }
}
