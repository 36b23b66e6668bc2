//! What was stolen in a window of time, in all and by the kernel's ticks. No system call.

use arch::measuring::Gap;

/// Parts of a tick's period, whose gaps are summed to find out when the ticks come.
const PARTS: usize = 200;
/// A gap that is longer than this is not only a tick, ns.
const LONGEST_TICK_NS: f64 = 100_000.0;
/// The lengths that divide the gaps, ns: short ones, ticks, several entries in a row, and times in which the host ran something else.
const BELOW_NS: [f64; 3] = [5_000.0, 40_000.0, 200_000.0];
/// Names of the classes of lengths.
pub const LENGTHS: [&str; 4] = ["below 5 us", "5 to 40 us", "40 to 200 us", "of 200 us and more"];

/// The counter and the kernel's ticks.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Ticks of the counter in a nanosecond.
    pub ticks_per_ns: f64,
    /// Time between two ticks of the kernel, ns.
    pub period_ns: f64,
}

/// From when to when, ticks of the counter.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The first one.
    pub begin: u64,
    /// The last one.
    pub end: u64,
}

/// Shares of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Of all gaps.
    pub stolen: f64,
    /// Of the gaps that began when a tick of the kernel was due.
    pub by_ticks: f64,
    /// Of all gaps, by length ([`LENGTHS`]).
    pub by_length: [f64; LENGTHS.len()],
}

/// Returns what the gaps took from a window. `gaps` are in order of time.
pub fn figures(gaps: &[Gap], window: Window, scale: Scale) -> Figures {
    let first = gaps.partition_point(|gap| gap.before < window.begin);
    let gaps = &gaps[first..];
    let gaps = &gaps[..gaps.partition_point(|gap| gap.after <= window.end)];
    let length = (window.end - window.begin) as f64;
    let sum = |of: &mut dyn Iterator<Item = &Gap>| of.map(|gap| (gap.after - gap.before) as f64).sum::<f64>() / length;
    let part = |gap: &Gap| {
        let periods = (gap.before - window.begin) as f64 / (scale.ticks_per_ns * scale.period_ns);
        ((periods.fract() * PARTS as f64) as usize).min(PARTS - 1)
    };
    let longest = scale.ticks_per_ns * LONGEST_TICK_NS;
    let short = || gaps.iter().filter(|gap| ((gap.after - gap.before) as f64) < longest);
    // By time and not by number: in a virtual machine, the host's ticks are more frequent and shorter than those of this kernel.
    let mut taken = [0u64; PARTS];
    short().for_each(|gap| taken[part(gap)] += gap.after - gap.before);
    let around = |at: usize| (0..3).map(|part| taken[(at + PARTS - 1 + part) % PARTS]).sum::<u64>();
    let due = (0..PARTS).max_by_key(|at| around(*at)).unwrap_or(0);
    let is_near = |at: usize| (at + PARTS - due + 1) % PARTS <= 2;
    let class = |gap: &Gap| {
        let ns = (gap.after - gap.before) as f64 / scale.ticks_per_ns;
        BELOW_NS.iter().position(|below| ns < *below).unwrap_or(BELOW_NS.len())
    };
    Figures {
        stolen: sum(&mut gaps.iter()),
        by_ticks: sum(&mut short().filter(|gap| is_near(part(gap)))),
        by_length: std::array::from_fn(|of| sum(&mut gaps.iter().filter(|gap| class(gap) == of))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(before: u64, length: u64) -> Gap {
        Gap { before, after: before + length }
    }

    /// Ticks every 4 ms from 3.99 ms on, so that their phase is at the window's edge; among them others, one of them a long one at a tick's time.
    #[test]
    fn ticks_are_told_from_others_by_when_they_come() {
        let scale = Scale { ticks_per_ns: 1.0, period_ns: 4e6 };
        let mut gaps: Vec<Gap> = (0..250).map(|n| gap(7_990_000 + n * 4_000_000 + (n % 3) * 5_000, 10_000)).collect();
        gaps.extend((0..100).map(|n| gap(5_000_000 + n * 9_100_000, 30_000)));
        gaps.push(gap(11_990_000 + 20_000, 200_000));
        gaps.sort_by_key(|gap| gap.before);
        let window = Window { begin: 4_000_000, end: 1_004_000_000 };
        let found = figures(&gaps, window, scale);
        assert!((found.stolen - (249.0 * 10e3 + 100.0 * 30e3 + 200e3) / 1e9).abs() < 40e3 / 1e9, "{found:?}");
        assert!((found.by_ticks - 249.0 * 10e3 / 1e9).abs() < 0.06 * 249.0 * 10e3 / 1e9, "{found:?}");
    }

    /// A host with four short ticks for each of this kernel.
    #[test]
    fn ticks_of_the_host_are_not_those_of_this_kernel() {
        let scale = Scale { ticks_per_ns: 1.0, period_ns: 4e6 };
        let own = (0..250).map(|n| gap(1_510_000 + n * 4_000_000 + (n % 40) * 1_000, 40_000));
        let host = (0..1000).map(|n| gap(810_000 + n * 1_000_000, 20_000));
        let mut gaps: Vec<Gap> = own.chain(host).collect();
        gaps.sort_by_key(|gap| gap.before);
        let found = figures(&gaps, Window { begin: 0, end: 1_000_000_000 }, scale);
        assert!((found.by_ticks - 0.01).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn gaps_outside_the_window_are_not_its() {
        let scale = Scale { ticks_per_ns: 1.0, period_ns: 4e6 };
        let found = figures(&[gap(10, 5), gap(100, 50), gap(195, 10)], Window { begin: 50, end: 200 }, scale);
        assert_eq!((found.stolen, found.by_ticks), (50.0 / 150.0, 50.0 / 150.0));
    }

    #[test]
    fn the_lengths_of_gaps_divide_what_is_stolen() {
        let scale = Scale { ticks_per_ns: 2.0, period_ns: 4e6 };
        let gaps = [gap(0, 9_998), gap(100_000, 10_000), gap(200_000, 10_000), gap(300_000, 400_000)];
        let found = figures(&gaps, Window { begin: 0, end: 1_000_000 }, scale);
        assert_eq!(found.by_length, [0.009_998, 0.02, 0.0, 0.4]);
    }
}
