//! Scales: round marks on axes, and shades for amounts.

use advise::numbers::count;

/// Number of shades of a heat map, not counting the blank of 0.
pub(crate) const SHADES: u64 = 8;

/// Returns the shade of a share, given in thousandths: each shade covers an eighth, and 0 has none.
pub(super) fn of_share(permille: u64) -> u64 {
    (permille.min(1000) * SHADES).div_ceil(1000)
}

/// Returns the shade of a number; `most` is the largest number. Each shade begins at twice the number at which the previous shade begins, so that
/// small numbers stay visible beside large ones.
pub(super) fn of_count(value: u64, most: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let halvings = u64::from((most.max(value) / value).ilog2());
    SHADES.saturating_sub(halvings).max(1)
}

/// Returns the shades that are used, with the smallest number of each, for legends.
pub(super) fn counts(most: u64) -> Vec<(u64, u64)> {
    let mut firsts: Vec<(u64, u64)> = Vec::new();
    for shade in 1..=SHADES {
        // The first number of a shade is the smallest value for which most / value < 2^(SHADES − shade + 1). The palest shade begins at 1.
        let first = if shade == 1 { 1 } else { most / (2u64 << (SHADES - shade)) + 1 };
        match firsts.last_mut() {
            // If `most` is small, several shades would begin at the same number; the last of these is used.
            Some(last) if last.1 == first => last.0 = shade,
            _ => firsts.push((shade, first)),
        }
    }
    firsts.retain(|(_, first)| *first <= most);
    firsts
}

/// Returns a round step (1, 2 or 5 times a power of ten) such that about `wanted` steps cover the range from 0 to `most`.
pub(super) fn step(most: f64, wanted: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let rough = most / wanted;
    let power = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
    digit * power
}

/// Returns the marks of a time axis, as positions and labels, and their unit.
pub(super) fn times(length_ns: u64, wanted: f64) -> (Vec<(u64, String)>, &'static str) {
    let (unit_ns, unit) = match length_ns {
        2_000_000_000.. => (1e9, "s"),
        2_000_000.. => (1e6, "ms"),
        _ => (1e3, "µs"),
    };
    let length = length_ns as f64 / unit_ns;
    let step = step(length, wanted);
    let decimals = if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize };
    let marks = (0..=(length / step * 1.0001) as u64).map(|mark| {
        let value = mark as f64 * step;
        let text = if decimals == 0 { count(value.round() as u64) } else { format!("{value:.decimals$}") };
        (((value * unit_ns) as u64).min(length_ns), text)
    });
    (marks.collect(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_of_shares_are_eighths() {
        assert_eq!([0, 1, 125, 126, 999, 1000, 2000].map(of_share), [0, 1, 1, 2, 8, 8, 8]);
    }

    #[test]
    fn shades_of_counts_double_and_legends_say_where_they_begin() {
        assert_eq!([0, 1, 50, 51, 100, 25].map(|value| of_count(value, 100)), [0, 2, 7, 8, 8, 6]);
        for most in [1, 2, 3, 7, 100, 12_345] {
            for (shade, first) in counts(most) {
                assert_eq!(of_count(first, most), shade, "{first} of {most}");
                assert!(first == 1 || of_count(first - 1, most) < shade, "{first} of {most}");
            }
        }
    }

    #[test]
    fn marks_are_round() {
        let (marks, unit) = times(12_410_000_000, 8.0);
        let texts: Vec<&str> = marks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!((texts, unit), (vec!["0", "2", "4", "6", "8", "10", "12"], "s"));
        let (marks, unit) = times(850_000, 8.0);
        assert_eq!((marks[1].1.as_str(), marks[1].0, unit), ("200", 200_000, "µs"));
        assert_eq!(times(3_000_000_000, 8.0).0[1], (500_000_000, "0.5".into()));
    }
}
