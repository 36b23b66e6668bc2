//! In which instances of a loop times are measured.
//!
//! A reading of the clock takes some 30 ns, and an instance needs one for each thread and one more. In a loop of less than a microsecond, that would be
//! a tenth of its time. So the times of short loops are those of one instance in eight. cox scales the sums to all instances.

/// Loops that are shorter than this in the mean are short, nanoseconds: two readings take 1 % of it.
const SHORT_NS: f64 = 10_000.0;

/// What decides whether an instance is measured.
#[derive(Debug, Default)]
pub struct Sampling {
    is_short: bool,
}

impl Sampling {
    /// Notes what the measured instances took in the mean.
    #[inline]
    pub fn note_mean(&mut self, mean_ns: f64) {
        self.is_short = mean_ns < SHORT_NS;
    }

    /// Returns whether instance `number` is measured.
    #[inline]
    pub fn includes(&self, number: u64) -> bool {
        !self.is_short || is_sampled(number)
    }
}

/// Returns whether a number is one of an eighth of all numbers. Multiples of the golden ratio are spread evenly, and have no period: programs may execute
/// a loop with other bounds in each second or eighth instance.
#[inline]
fn is_sampled(number: u64) -> bool {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_instances_of_long_loops_are_measured() {
        let mut sampling = Sampling::default();
        assert!((0..100).all(|number| sampling.includes(number)));
        sampling.note_mean(SHORT_NS - 1.0);
        assert!(!(0..100).all(|number| sampling.includes(number)));
        sampling.note_mean(SHORT_NS + 1.0);
        assert!((0..100).all(|number| sampling.includes(number)));
    }

    /// One in eight, also of the instances of each period that a program may have.
    #[test]
    fn a_sample_has_no_period() {
        for period in [1, 2, 3, 5, 7, 8, 16, 64] {
            for phase in 0..period {
                let sampled = (0..8000).filter(|number| is_sampled(number * period + phase)).count();
                assert!((900..1100).contains(&sampled), "{sampled} of 8000, period {period}, phase {phase}");
            }
        }
    }
}
