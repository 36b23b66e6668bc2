//! Conversions that take one instruction for usual numbers. Those of the language serve all numbers, and take three times as long on x86-64.

/// Converts an integer.
#[inline]
pub(super) fn real(number: u64) -> f64 {
    i64::try_from(number).map_or(number as f64, |number| number as f64)
}

/// Converts a number, rounded towards 0. One that is not a number counts as 0.
#[inline]
pub(super) fn whole(number: f64) -> u64 {
    /// 2^62.
    const LARGE: f64 = 4_611_686_018_427_387_904.0;
    if (0.0..LARGE).contains(&number) { (number as i64).unsigned_abs() } else { number as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_those_of_the_language() {
        for number in [0, 1, 7, (1 << 53) + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
            assert_eq!(real(number), number as f64);
        }
        for number in [0.0, 0.99, 1.0, -3.0, 1e18, 4.7e18, 9.3e18, 1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(whole(number), number as u64, "{number}");
        }
    }
}
