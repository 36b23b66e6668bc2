//! Log-linear buckets: 2^`fine` of equal width for each power of two, and single numbers below 2^(`fine` + 1). So a number differs from the first one of
//! its bucket by less than 1/2^`fine` of it, however large it is.

/// Returns the number of buckets for all numbers.
#[must_use]
pub const fn buckets(fine: u32) -> usize {
    ((u64::BITS - fine + 1) as usize) << fine
}

/// Returns the bucket of a number.
#[inline]
#[must_use]
pub const fn bucket(number: u64, fine: u32) -> usize {
    let shift = shift_of(number, fine);
    ((shift as usize) << fine) + (number >> shift) as usize
}

/// Returns the smallest number in a bucket.
#[must_use]
pub const fn first(bucket: usize, fine: u32) -> u64 {
    let shift = shift_of_bucket(bucket, fine);
    ((bucket - ((shift as usize) << fine)) as u64) << shift
}

/// Returns the middle of a bucket.
#[must_use]
pub const fn middle(bucket: usize, fine: u32) -> u64 {
    first(bucket, fine) + (1 << shift_of_bucket(bucket, fine)) / 2
}

/// Returns the base-2 logarithm of the width of the bucket of a number.
const fn shift_of(number: u64, fine: u32) -> u32 {
    (number | 1).ilog2().saturating_sub(fine)
}

const fn shift_of_bucket(bucket: usize, fine: u32) -> u32 {
    (bucket >> fine).saturating_sub(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_the_bucket_that_begins_just_below_it() {
        for fine in [3, 4, 5, 8] {
            let powers = (9..64).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 7]);
            for number in (0..1_000).chain(powers).chain([u64::MAX]) {
                let (bucket, first) = (bucket(number, fine), first(bucket(number, fine), fine));
                assert!(bucket < buckets(fine), "{number}");
                assert!(first <= number && (number - first) >> (number | 1).ilog2().saturating_sub(fine) == 0);
            }
            for bucket in 0..buckets(fine) {
                assert_eq!(super::bucket(first(bucket, fine), fine), bucket);
                assert_eq!(super::bucket(middle(bucket, fine), fine), bucket);
            }
            assert_eq!(bucket(u64::MAX, fine), buckets(fine) - 1);
        }
    }
}
