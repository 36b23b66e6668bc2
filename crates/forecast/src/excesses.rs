//! Excesses of the largest delays over a threshold.

use crate::cluster::TIES;
use crate::levels::Observation;
use crate::pareto::Pareto;

/// Part of the range that is in gaps, if delays lie in lumps.
const LUMPS: f64 = 0.5;
/// Pieces of a spread excess.
const PIECES: usize = 8;
/// Excesses that are not grouped for the likelihood, and the number in each group of the others.
const UNGROUPED: usize = 100;
const OF_GROUP: usize = 8;

/// The excesses over a threshold.
#[derive(Clone)]
pub(crate) struct Excesses {
    /// Levels of the sample above the threshold.
    pub levels: usize,
    /// The threshold, in nanoseconds.
    pub threshold: f64,
    /// Number of independent observations.
    pub count: f64,
    /// Width over which each excess is spread; 0 if they are not.
    pub gap: f64,
    /// Excesses, descending, each with its part of the probability.
    parts: Vec<(f64, f64)>,
    /// The same, the smaller ones in groups with their mean.
    grouped: Vec<(f64, f64)>,
}

impl Excesses {
    /// Takes the largest delays up to the one at which `wanted` observations are reached. The next delay is the
    /// threshold. Delays that are equal to it are not in the tail.
    pub(crate) fn new(largest: &[Observation], wanted: f64) -> Excesses {
        let mut count = 0.0;
        let reached = largest.iter().position(|one| {
            count += one.count;
            count > wanted * (1.0 + 1e-9)
        });
        let threshold = largest[reached.unwrap_or(largest.len() - 1)].value;
        let above = &largest[..largest.partition_point(|one| one.value > threshold)];
        let count = above.iter().map(|one| one.count).sum();
        let mass: f64 = above.iter().map(|one| one.mass).sum();
        let parts = above.iter().map(|one| (one.value - threshold, one.mass / mass)).collect();
        Excesses::of_parts(above.last().map_or(0, |one| one.levels), threshold, count, parts)
    }

    fn of_parts(levels: usize, threshold: f64, count: f64, parts: Vec<(f64, f64)>) -> Excesses {
        let singles = parts.len().min(UNGROUPED);
        let mut grouped = parts[..singles].to_vec();
        grouped.extend(parts[singles..].chunks(OF_GROUP).map(|group| {
            let part: f64 = group.iter().map(|(_, part)| part).sum();
            (group.iter().map(|(y, part)| y * part).sum::<f64>() / part, part)
        }));
        Excesses { levels, threshold, count, gap: 0.0, parts, grouped }
    }

    /// Spreads each excess over the width of the largest gap. None if the excesses do not lie in lumps.
    pub(crate) fn spread(&self) -> Option<Excesses> {
        let gap = self.gap_between_lumps()?;
        let pieces = |(y, part): &(f64, f64)| {
            let (y, part) = (*y, part / PIECES as f64);
            (0..PIECES).map(move |at| (y + gap * (1.0 - (at as f64 + 0.5) / PIECES as f64), part))
        };
        let mut parts: Vec<(f64, f64)> = self.parts.iter().flat_map(pieces).collect();
        parts.sort_unstable_by(|one, two| two.0.total_cmp(&one.0));
        Some(Excesses { gap, ..Excesses::of_parts(self.levels, self.threshold - gap / 2.0, self.count, parts) })
    }

    /// Returns the largest gap, if the excesses lie in lumps: gaps of at least half its size are most of the range, and
    /// several observations are between each two of them. The very largest excesses are not considered, because gaps
    /// between those of a smooth law are wide, too.
    fn gap_between_lumps(&self) -> Option<f64> {
        let mut count = 0.0;
        let first = self.parts.iter().position(|(_, part)| {
            count += part * self.count;
            count >= TIES
        })?;
        let below = |at: usize| self.parts.get(at + 1).map_or(0.0, |part| part.0);
        let gap = |at: usize| self.parts[at].0 - below(at);
        let largest = (first..self.parts.len()).map(gap).fold(0.0, f64::max);
        let (mut wide, mut lump) = (0.0, TIES);
        for at in 0..self.parts.len() {
            if at > first {
                lump += self.parts[at].1 * self.count;
            }
            if gap(at) >= largest / 2.0 {
                if lump < TIES {
                    return None;
                }
                wide += gap(at);
                lump = if at < first { TIES } else { 0.0 };
            }
        }
        let range = self.parts[0].0;
        (largest > 0.0 && largest <= 0.7 * range && wide >= LUMPS * range).then_some(largest)
    }

    /// Returns the largest excess.
    pub(crate) fn largest(&self) -> f64 {
        self.parts[0].0
    }

    /// Returns the mean of ln(1 + b y).
    pub(crate) fn mean_log(&self, b: f64) -> f64 {
        self.grouped.iter().map(|(y, part)| part * (b * y).ln_1p()).sum()
    }

    /// Returns the statistic of Anderson and Darling: k ∫ (F_k − F)² / (F (1 − F)) dF, where F_k is the law of the
    /// excesses and F the fitted one.
    pub(crate) fn distance(&self, law: Pareto) -> f64 {
        let b = law.shape / law.scale;
        let survival = |y: f64| ((b * y).max(-1.0 + 1e-12).ln_1p() / -law.shape).exp().clamp(1e-12, 1.0 - 1e-12);
        let piece = |share: f64, from: f64, to: f64| {
            let rest = 1.0 - share;
            share * share * (to / from).ln() - rest * rest * ((1.0 - to) / (1.0 - from)).ln() - (to - from)
        };
        let (mut sum, mut share, mut from) = (0.0, 0.0, 1e-12);
        for (y, part) in &self.parts {
            let to = survival(*y).max(from);
            sum += piece(share, from, to);
            share += part;
            from = to;
        }
        self.count * (sum + piece(1.0, from, 1.0 - 1e-12))
    }
}
