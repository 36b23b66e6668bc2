//! Largest delays that are equal, or a cluster apart from the others.
//!
//! A source that disturbs few phases, always for about the same time, leaves such a cluster. Its excesses over its
//! smallest delay are taken as exponential; if all are equal, nothing is added to the largest delay.
//!
//! Two detours can hit the same phase, which gives a larger delay than any in the cluster: the next *rung*, as far above
//! it as the gap below it is wide. If the cluster is itself the second rung or a higher one, such sums are known to
//! happen. Each rung is then rarer than the one below by the same ratio. If it is the first, only a quarter of the draws
//! have sums: they belong to the interval, but not to the estimate. If the next rung should have been seen several times
//! but was not, the source has no sums (ticks, for example).

use random::Random;

use crate::draws::gamma;
use crate::levels::Levels;
use crate::pareto::Pareto;

/// Largest delays that are a cluster.
pub(crate) const TIES: f64 = 3.0;
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
    /// For each draw: probability of a step as a part of that of the step below.
    pub ratios: Vec<f64>,
}

/// A cluster of largest delays.
pub(crate) struct Cluster {
    pub levels: usize,
    /// Smallest delay.
    pub threshold: f64,
    pub count: f64,
    /// Mean excess over the smallest delay.
    pub scale: f64,
    pub draws: Vec<Pareto>,
    pub ladder: Option<Ladder>,
}

/// Returns the cluster of the largest delays.
pub(crate) fn cluster(sample: &Levels, draws: usize, random: &mut Random) -> Option<Cluster> {
    let levels = sample.levels();
    let largest = levels[0].value;
    let count_from = |from: usize, limit: f64| {
        let to = levels.partition_point(|level| level.value >= limit);
        (to, levels[from.min(to)..to].iter().map(|level| level.count).sum::<f64>())
    };
    let (mut to, mut count) = count_from(0, largest * (1.0 - WIDTH));
    let next = |to: usize| levels.get(to).map_or(0.0, |level| level.value);
    let least = levels[to - 1].value;
    let mut gap = least - next(to);
    let is_enough = count >= TIES || count_from(to, next(to) * (1.0 - 2.0 * WIDTH)).1 >= LUMP;
    let is_apart = is_enough && gap >= 4.0 * (largest - least) && gap >= GAP * largest;
    if !is_apart {
        // As many as are between half of the largest delay and itself: a bounded law.
        (to, count) = count_from(0, largest);
        gap = largest;
        if count < TIES || count < count_from(to, largest / 2.0).1 {
            return None;
        }
    }
    if largest <= 0.0 {
        return None;
    }
    let lowest = levels[to - 1].value;
    let below = count_from(to, lowest - 1.5 * gap).1;
    let ratio = count / (count + below);
    // If the largest delay is frequent, none is larger.
    let ties = count_from(0, largest);
    if ties.1 >= TIES {
        (to, count) = ties;
    }
    let threshold = levels[to - 1].value;
    let weighted = levels[..to].iter().map(|level| level.count * (level.value - threshold));
    let scale = weighted.sum::<f64>() / count;
    let supports = count.min(WIDE);
    let mut draw = || Pareto { shape: 0.0, scale: scale * supports / gamma(supports, random) };
    let laws = (0..draws).map(|_| draw()).collect();
    let ladder = (count * ratio < EXPECTED).then(|| {
        let is_known = threshold > 1.5 * gap;
        let ratio = |draw: usize| {
            // The ratio of rungs of a Poisson law falls to 2/3 at the third rung; others fall more.
            let drawn = (ratio * gamma(count + 0.5, random) / count).min(1.0) * (0.25 + 0.75 * random.unit());
            if is_known || draw.is_multiple_of(DOUBT) { drawn } else { 0.0 }
        };
        Ladder { height: gap, ratios: (0..draws).map(ratio).collect() }
    });
    Some(Cluster { levels: to, threshold, count, scale, draws: laws, ladder })
}
