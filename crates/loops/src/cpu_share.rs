//! A thread's share of its CPU: CPU time divided by wall time, smoothed.
//!
//! A share that stays should count, so that a thread beside a hog gets less work. A share that is low once should not,
//! because the next one will not be. How fast the smoothed share follows is therefore decided from its own errors
//! (Trigg and Leach, "Exponential smoothing with an adaptive response rate", Operational Research Quarterly 18(1),
//! 1967): errors of one sign are a change, and are followed at once; errors of both signs are chance, and are
//! averaged. Here, the response is squared.
//!
//! A sample is at least [`SAMPLE_NS`] of wall time, because a shorter one sees the kernel's slices singly: it would be
//! 0 or 1. One burst of another thread takes a good part of such a sample, and will not be there in the next. So of a
//! short sample and the one before it, the one that changes the share less has the larger weight.
//!
//! The constants are those with the shortest times in weighted blocks of loops of 2 to 40 ms, simulated with 2 and 8
//! threads. Where bursts come at random, weights with this share cost at most 2 % more than weights from wall time, and
//! where another thread stays on one of 8 CPUs of unequal speed, up to 3 %; with
//! samples of 6 ms that are not compared, they cost up to 5 %.

/// Shortest wall time of a sample: five slices of 3 ms.
pub const SAMPLE_NS: f64 = 16e6;

/// A sample that is shorter than this is compared with the one before it.
const COMPARED_NS: f64 = 24e6;

/// Weight of the sample that changes the share more.
const SURPRISING: f64 = 0.3;

/// Weight of the last error in the means of errors. Of 0.15, 0.3 and 0.5, the last gave the shortest simulated times.
const RECENT: f64 = 0.5;

/// An absolute error that is expected before there is one; keeps the first sample from counting fully.
const EXPECTED_ERROR: f64 = 0.1;

/// Smallest share. A thread that got less would get no work, and its share would never be measured again.
const SMALLEST: f64 = 0.05;

/// The share of the CPU that a thread gets while it is runnable, from 0.05 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    share: f64,
    /// Mean error, with its sign.
    error: f64,
    /// Mean absolute error.
    absolute: f64,
    /// The last sample, if there was one.
    last: Option<f64>,
    /// Times since the last sample, nanoseconds.
    cpu_ns: f64,
    wall_ns: f64,
}

impl Default for Share {
    fn default() -> Share {
        Share { share: 1.0, error: 0.0, absolute: EXPECTED_ERROR, last: None, cpu_ns: 0.0, wall_ns: 0.0 }
    }
}

impl Share {
    /// Returns the smoothed share.
    #[inline]
    #[must_use]
    pub fn get(&self) -> f64 {
        self.share
    }

    /// Adds the times of a chunk, nanoseconds. Times that are negative or not finite do not count.
    #[inline]
    pub fn add(&mut self, cpu_ns: f64, wall_ns: f64) {
        if !(cpu_ns.is_finite() && wall_ns.is_finite() && cpu_ns >= 0.0 && wall_ns >= 0.0) {
            return;
        }
        self.cpu_ns += cpu_ns;
        self.wall_ns += wall_ns;
        if self.wall_ns < SAMPLE_NS {
            return;
        }
        let sample = (self.cpu_ns / self.wall_ns).clamp(SMALLEST, 1.0);
        let (error, before) = (sample - self.share, self.last.unwrap_or(sample) - self.share);
        self.last = Some(sample);
        let error = if self.wall_ns < COMPARED_NS {
            let (less, more) = if before.abs() < error.abs() { (before, error) } else { (error, before) };
            less + SURPRISING * (more - less)
        } else {
            error
        };
        (self.cpu_ns, self.wall_ns) = (0.0, 0.0);
        self.error += RECENT * (error - self.error);
        self.absolute += RECENT * (error.abs() - self.absolute);
        let response = (self.error.abs() / self.absolute.max(f64::MIN_POSITIVE)).min(1.0);
        // The square: slices make samples differ by a tenth, and such chance gives a response of a half.
        self.share += response * response * error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: impl IntoIterator<Item = f64>) -> f64 {
        let mut share = Share::default();
        samples.into_iter().for_each(|sample| share.add(sample * SAMPLE_NS, SAMPLE_NS));
        share.get()
    }

    #[test]
    fn a_share_that_stays_is_followed() {
        assert!((after([0.5; 6]) - 0.5).abs() < 0.02, "{}", after([0.5; 6]));
        let back = after([[0.5; 20], [1.0; 20]].concat());
        assert!(back > 0.98, "{back}");
    }

    #[test]
    fn a_single_short_sample_counts_little() {
        assert!(after([1.0, 0.5]) > 0.85);
        assert!(after([1.0, 0.5, 0.5]) < 0.7);
        // A long one is the mean of many slices.
        let mut share = Share::default();
        share.add(0.5 * COMPARED_NS, COMPARED_NS);
        assert!(share.get() < 0.7, "{}", share.get());
    }

    #[test]
    fn a_share_that_changes_each_time_is_averaged() {
        let alternating = (0..200).map(|at| if at % 2 == 0 { 0.4 } else { 1.0 });
        let share = after(alternating);
        assert!((0.55..0.85).contains(&share), "{share}");
    }

    #[test]
    fn short_chunks_are_added_up() {
        let mut share = Share::default();
        share.add(0.0, SAMPLE_NS / 2.0);
        assert_eq!(share.get(), 1.0);
        share.add(f64::NAN, SAMPLE_NS);
        share.add(SAMPLE_NS / 2.0, SAMPLE_NS / 2.0);
        assert!(share.get() < 1.0);
    }

    #[test]
    fn a_thread_that_never_runs_keeps_a_share() {
        assert!(after([0.0; 100]) >= SMALLEST);
    }
}
