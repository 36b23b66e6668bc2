//! Largest delays that are equal, or a cluster apart from the others.
//!
//! A source that disturbs few phases, always for about the same time, leaves such a cluster. The larger half is
//! the tail, and its excesses are taken as exponential; if all are equal, nothing is added to the largest delay.
//!
//! Two detours can hit the same phase, which gives a larger delay than any in the cluster: the next *rung*, as far above
//! it as the gap below it is wide. If the cluster is itself the second rung or a higher one, such sums are known to
//! happen. Each rung is then rarer than the one below by the same ratio. If it is the first, only a quarter of the draws
//! have sums: they belong to the interval, but not to the estimate. If the next rung should have been seen several times
//! but was not, the source has no sums (ticks, for example).

use random::Random;

use crate::draws::gamma;
use crate::levels::{Levels, Observation};
use crate::pareto::Pareto;

/// Largest delays that are a cluster.
pub(crate) const TIES: f64 = 3.0;
/// Observations that can be in the gap below a cluster: a part of those in the cluster, but nearly one in any case.
const FEW: f64 = 0.25;
const FEWEST: f64 = 0.9;
/// If so many delays lie close together below the gap, fewer largest ones are a cluster, too. A smooth law has one or
/// two there.
const LUMP: f64 = 20.0;
/// Smallest gap below a cluster, and largest width of one, as a part of the largest delay.
const GAP: f64 = 0.3;
const WIDTH: f64 = 0.05;
/// Observations of a cluster that count for the uncertainty of its scale. The law need not be exponential, so not all do.
const WIDE: f64 = 3.0;
/// Expected delays on the next rung from which on their absence shows that there are none.
const EXPECTED: f64 = 4.0;
/// A draw in so many has sums, if none are known.
const DOUBT: usize = 4;

/// Delays above a cluster, in steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    /// Height of a step, in nanoseconds.
    pub height: f64,
    /// Observations in the cluster as a multiple of those in its tail.
    pub first: f64,
    /// For each draw: probability of a step as a part of that of the step below.
    pub ratios: Vec<f64>,
}

/// A cluster of largest delays.
pub(crate) struct Cluster {
    pub levels: usize,
    /// Smallest delay of the tail.
    pub threshold: f64,
    pub count: f64,
    /// Mean excess.
    pub scale: f64,
    pub draws: Vec<Pareto>,
    pub ladder: Option<Ladder>,
}

/// Returns the cluster of the largest delays.
pub(crate) fn cluster(sample: &Levels, draws: usize, random: &mut Random) -> Option<Cluster> {
    let all = sample.observations(f64::INFINITY);
    let Found { count, gap, ratio } = find(&all)?;
    let (threshold, to) = tail(&all, count);
    let in_tail = all[..to].iter().map(|one| one.count).sum::<f64>();
    let scale = all[..to].iter().map(|one| one.count * (one.value - threshold)).sum::<f64>() / in_tail;
    let supports = in_tail.min(WIDE);
    let mut draw = || Pareto { shape: 0.0, scale: scale * supports / gamma(supports, random) };
    let laws = (0..draws).map(|_| draw()).collect();
    let ladder = (count * ratio < EXPECTED).then(|| {
        let is_known = threshold > 1.5 * gap;
        let ratio = |draw: usize| {
            // The ratio of rungs of a Poisson law falls to 2/3 at the third rung; others fall more.
            let drawn = (ratio * gamma(count + 0.5, random) / count).min(1.0) * (0.25 + 0.75 * random.unit());
            if is_known || draw.is_multiple_of(DOUBT) { drawn } else { 0.0 }
        };
        Ladder { height: gap, first: count / in_tail, ratios: (0..draws).map(ratio).collect() }
    });
    Some(Cluster { levels: all[to - 1].levels, threshold, count: in_tail, scale, draws: laws, ladder })
}

/// Where a cluster is.
struct Found {
    count: f64,
    /// Width of the gap below it.
    gap: f64,
    /// Its count as a part of its own and that of the rung below.
    ratio: f64,
}

/// Finds the cluster of the largest delays.
fn find(all: &[Observation]) -> Option<Found> {
    let largest = all[0].value;
    if largest <= 0.0 {
        return None;
    }
    let (to, count) = down_to(all, 0, largest * (1.0 - WIDTH));
    let (least, next) = (all[to - 1].value, next_below(&all[to..], f64::max(FEW * count, FEWEST)));
    let below = |limit: f64| down_to(all, to, limit).1;
    let gap = least - next;
    let is_enough = count >= TIES || below(next * (1.0 - 2.0 * WIDTH)) >= LUMP;
    if is_enough && gap >= 4.0 * (largest - least) && gap >= GAP * largest {
        return Some(Found { count, gap, ratio: count / (count + below(next - gap / 2.0)) });
    }
    // As many as are between half of the largest delay and these: a bounded law.
    let is_bounded = count >= TIES && count >= below(largest / 2.0);
    is_bounded.then(|| Found { count, gap: largest, ratio: count / (count + below(0.0)) })
}

/// Returns where the tail in a cluster begins, and the end of its observations. The tail is the larger half, because a few
/// smaller delays would make the excesses too large. If it begins with many equal delays, only those above them are, if
/// there are enough. If the largest delay is frequent, none is larger.
fn tail(all: &[Observation], cluster: f64) -> (f64, usize) {
    let largest = all[0].value;
    let (ties, count) = down_to(all, 0, largest);
    if count >= TIES {
        return (largest, ties);
    }
    let mut half = 0.0;
    let median = all.iter().find(|one| {
        half += one.count;
        half >= cluster / 2.0
    });
    let median = median.map_or(largest, |one| one.value);
    let above = all.partition_point(|one| one.value > median);
    let count_above = all[..above].iter().map(|one| one.count).sum::<f64>();
    if count_above >= TIES && all[above].count >= TIES { (median, above) } else { (median, down_to(all, 0, median).0) }
}

/// Returns the end and the count of the observations from a place to the last one that reaches a value.
fn down_to(all: &[Observation], from: usize, limit: f64) -> (usize, f64) {
    let to = all.partition_point(|one| one.value >= limit);
    (to, all[from.min(to)..to].iter().map(|one| one.count).sum())
}

/// Returns the largest delay below a cluster, except for the few that can be in a gap; 0 if there is none.
fn next_below(below: &[Observation], few: f64) -> f64 {
    let mut count = 0.0;
    let reached = below.iter().find(|one| {
        count += one.count;
        count > few
    });
    reached.map_or(0.0, |one| one.value)
}
