//! Logarithmic axes of lengths, and their bins.

use advise::numbers::duration;

use super::super::plot;
use crate::markup::Markup;

/// Number of bins for each power of ten.
const BINS: u32 = 8;
/// Smallest number of bins on an axis, because one or two bars alone would not look like a histogram.
const FEWEST: usize = 10;

/// Returns the bin of a length: 0 for up to 1 ns, [`BINS`] for 10 ns.
pub(super) fn bin(ns: u64) -> usize {
    // Lengths at an edge belong to the bin that begins there, whatever the logarithm rounds to.
    let rough = (ns.max(1) as f64).log10() * f64::from(BINS);
    let rough = rough as usize;
    (rough.saturating_sub(1)..=rough + 1).rev().find(|bin| first_ns(*bin) <= ns.max(1)).unwrap_or(rough)
}

/// Returns the shortest length of a bin.
pub(super) fn first_ns(bin: usize) -> u64 {
    10_f64.powf(bin as f64 / f64::from(BINS)).ceil() as u64
}

/// A logarithmic axis of lengths, from the first bin to the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    first: usize,
    end: usize,
    /// Where it begins, pixels.
    begin: f64,
    /// How long it is, pixels; negative if it goes up.
    length: f64,
}

impl Axis {
    /// Makes an axis of the lengths from `least_ns` to `most_ns`.
    pub(super) fn new((least_ns, most_ns): (u64, u64), begin: f64, length: f64) -> Axis {
        let first = bin(least_ns);
        Axis { first, end: (bin(most_ns) + 1).max(first + FEWEST), begin, length }
    }

    /// Returns the place of a length.
    pub(super) fn at(&self, ns: u64) -> f64 {
        self.place((ns.max(1) as f64).log10() * f64::from(BINS))
    }

    /// Returns where a bin begins, and how wide it is.
    pub(super) fn bin(&self, bin: usize) -> (f64, f64) {
        (self.place(bin as f64), self.length.abs() / (self.end - self.first) as f64)
    }

    fn place(&self, bins: f64) -> f64 {
        let part = (bins - self.first as f64) / (self.end - self.first) as f64;
        self.begin + part.clamp(0.0, 1.0) * self.length
    }

    /// Returns the powers of ten on the axis, ns.
    fn powers(&self) -> impl Iterator<Item = u64> {
        let each = BINS as usize;
        (self.first.div_ceil(each)..=self.end / each).map(|power| 10_u64.pow(power as u32))
    }

    /// Writes marks below the axis, which lies at `bottom`.
    pub(super) fn below(&self, out: &mut Markup, bottom: u64) {
        for ns in self.powers() {
            let x = self.at(ns);
            write!(
                out,
                "<path d=\"M{x:.1} {bottom}v5\"/><text x=\"{x:.1}\" y=\"{}\">{}</text>",
                bottom + 17,
                power(ns)
            );
        }
    }

    /// Writes lines to the right of the axis, which lies at `left`, with their lengths.
    pub(super) fn beside(&self, out: &mut Markup, left: u64, width: u64) {
        for ns in self.powers() {
            plot::line(out, (left, width), self.at(ns), &power(ns));
        }
    }
}

/// A power of ten, without decimals: `1 µs`, `100 ms`.
fn power(ns: u64) -> String {
    match ns {
        100_000_000 => "100 ms".to_owned(),
        _ => duration(ns).replace(".00 ", " ").replace(".0 ", " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_no_gaps_and_no_overlap() {
        for number in 0..BINS as usize * 11 {
            let (first, next) = (first_ns(number), first_ns(number + 1));
            // Below 10 ns, some bins hold no whole number.
            if first < next {
                assert_eq!((bin(first), bin(next - 1)), (number, number), "{first} to {next}");
            }
        }
        assert_eq!([0, 1, 10, 100, 1_000, 1_000_000_000].map(bin), [0, 0, 8, 16, 24, 72]);
    }

    #[test]
    fn powers_of_ten_are_marked() {
        let axis = Axis::new((150, 2_000_000), 100.0, 330.0);
        assert_eq!(axis.powers().map(power).collect::<Vec<_>>(), ["1 µs", "10 µs", "100 µs", "1 ms"]);
        assert_eq!(axis.at(1_000), axis.bin(24).0);
        assert_eq!((axis.at(0), axis.at(u64::MAX)), (100.0, 430.0), "nothing lies outside the picture");
        assert_eq!([1, 100_000_000, 1_000_000_000, 10_000_000_000].map(power), ["1 ns", "100 ms", "1 s", "10 s"]);
    }
}
