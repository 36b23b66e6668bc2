//! The forecast: what noise costs a bulk-synchronous program for each work and number of ranks, and which cause costs
//! most.
//!
//! A program that synchronises N nodes after a work W takes S(N, W) = 1 + E\[largest of N delays\] / (W + C) times as long
//! as without noise, where C is the cost of a synchronisation.

use std::cmp::Reverse;

use random::Random;

use crate::bound::Bound;
use crate::largest::{Estimate, Kind, Largest};
use crate::nodes::{Instants, NodeLaw};
use crate::observed;
use crate::question::{Question, Unanswerable};
use crate::recording::{CauseTotal, Recording};
use crate::replay::{Delays, replay};
use crate::tail::Tail;
use crate::timeline::Timeline;

/// Number of causes for which a forecast is made: each takes as long as that of a work with all causes. The largest ones
/// are chosen.
pub const MOST_CAUSES: usize = 32;

/// Causes that were seen less often say so: their share of a slowdown is not known.
pub const SELDOM: u64 = 5;

/// A slowdown: the time with noise divided by the time without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// Ranks of the program.
    pub ranks: u64,
    /// Nodes that they need.
    pub nodes: u64,
    /// What the estimate is based on.
    pub kind: Kind,
    /// The slowdown with a 95 % interval; none for [`Kind::None`].
    pub estimate: Option<Estimate>,
    /// A bound that needs no model of the tail: with 95 % confidence, the slowdown is not smaller.
    pub at_least: f64,
}

/// Returns the numbers by which slowdowns are compared with each other: the estimates, or the bounds if an estimate is
/// missing. An estimate is larger than a bound of the same slowdown, so a mixture of both has no order.
fn comparable(slowdowns: &[Slowdown]) -> Vec<f64> {
    let estimates = slowdowns.iter().map(|slowdown| slowdown.estimate.map(|estimate| estimate.value));
    let bounds = || slowdowns.iter().map(|slowdown| slowdown.at_least).collect();
    estimates.collect::<Option<Vec<f64>>>().unwrap_or_else(bounds)
}

/// The forecast for one work.
#[derive(Clone, Debug, PartialEq)]
pub struct AtWork {
    /// Work of a phase.
    pub work_ns: u64,
    /// Independent phases in the recording.
    pub phases: f64,
    /// Shape of the fitted tail of a node alone: 0 is exponential, from 0.5 on too heavy for an estimate. None if no law
    /// fits.
    pub tail_shape: Option<f64>,
    /// For each number of ranks.
    pub scales: Vec<Slowdown>,
    /// The slowdown if all nodes had their noise at the same time (co-scheduling), for any number of ranks.
    pub co_scheduled: Slowdown,
}

/// The forecast without one cause, at the worst work.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    /// Index of the cause in the recording.
    pub cause: u16,
    /// How often it was seen on the CPUs of the ranks.
    pub times: u64,
    /// True if that is less than [`SELDOM`].
    pub seldom: bool,
    /// For each number of ranks.
    pub scales: Vec<Slowdown>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// For each work.
    pub works: Vec<AtWork>,
    /// For each number of ranks: index of the work with the largest slowdown.
    pub worst: Vec<usize>,
    /// Index of the work for which causes are left out: the worst for the largest number of ranks.
    pub causes_at: usize,
    /// For each of the [`MOST_CAUSES`] causes with the most time, the forecast without it, from the smallest slowdown at
    /// the largest number of ranks up: the first costs most. If one of them lacks an estimate, the bounds are compared.
    pub without: Vec<Without>,
    /// Number of causes that were seen, and for which there is no forecast, because others took more time.
    pub causes_left_out: usize,
}

/// Answers a question about a recording.
///
/// # Errors
/// Returns an error if the recording is invalid, or if it cannot answer the question.
pub fn forecast(recording: &Recording, question: &Question) -> Result<Forecast, Unanswerable> {
    question.check(recording)?;
    let cpus = question.ranks_per_node as usize;
    let mut delays = Delays::default();
    let timeline = Timeline::new(recording, cpus);
    let node = Node::new(&timeline, question);
    let works: Vec<AtWork> = question.work_ns.iter().map(|work| node.at(*work, &mut delays)).collect();
    let worst_for = |scale: usize| {
        let slowdowns: Vec<Slowdown> = works.iter().map(|at| at.scales[scale]).collect();
        let by = comparable(&slowdowns);
        (0..by.len()).max_by(|one, two| by[*one].total_cmp(&by[*two]).then(two.cmp(one))).unwrap_or(0)
    };
    let worst: Vec<usize> = (0..question.ranks.len()).map(worst_for).collect();
    let largest = (0..question.ranks.len()).max_by_key(|at| question.ranks[*at]).unwrap_or(0);
    let causes_at = worst[largest];
    let mut others = Timeline::default();
    let without = |(cause, seen): (usize, CauseTotal)| {
        let cause = cause as u16;
        timeline.without(cause, &mut others);
        let scales = Node::new(&others, question).at(question.work_ns[causes_at], &mut delays).scales;
        Without { cause, times: seen.times, seldom: seen.times < SELDOM, scales }
    };
    let mut seen: Vec<(usize, CauseTotal)> =
        recording.totals(cpus).into_iter().enumerate().filter(|(_, seen)| seen.times > 0).collect();
    seen.sort_by_key(|(_, seen)| Reverse(seen.sum_ns));
    let causes_left_out = seen.len().saturating_sub(MOST_CAUSES);
    seen.truncate(MOST_CAUSES);
    let without = in_order(seen.into_iter().map(without).collect(), largest);
    Ok(Forecast { works, worst, causes_at, without, causes_left_out })
}

/// Returns the forecasts without a cause, the one that costs most at a number of ranks first.
fn in_order(without: Vec<Without>, scale: usize) -> Vec<Without> {
    let slowdowns: Vec<Slowdown> = without.iter().map(|of| of.scales[scale]).collect();
    let mut ordered: Vec<(f64, Without)> = comparable(&slowdowns).into_iter().zip(without).collect();
    ordered.sort_by(|(one, _), (two, _)| one.total_cmp(two));
    ordered.into_iter().map(|(_, of)| of).collect()
}

/// A node's detours, for all works.
pub(crate) struct Node<'a> {
    question: &'a Question,
    timeline: &'a Timeline,
    instants: Instants,
    seed: u64,
}

impl<'a> Node<'a> {
    pub(crate) fn new(timeline: &'a Timeline, question: &'a Question) -> Node<'a> {
        let mut random = Random::new(question.seed);
        let instants = Instants::new(timeline, &mut random);
        Node { question, timeline, instants, seed: random.number() }
    }

    /// Makes the forecast for a work. It does not depend on the other works. `delays` is space that is used again.
    pub(crate) fn at(&self, work_ns: u64, delays: &mut Delays) -> AtWork {
        let mut random = Random::new(self.seed ^ work_ns);
        replay(self.timeline, work_ns, &mut random, delays);
        let alone = observed::law(delays);
        let bound = Bound::new(&alone);
        let law = NodeLaw::new(alone, &self.instants, self.timeline, work_ns);
        let seed = random.number();
        let largest = Largest::new(law.alone().clone(), &mut Random::new(seed));
        let base = (work_ns + self.question.sync_ns) as f64;
        let slowdown = |largest: &Largest, ranks: u64, nodes: u64| {
            let (kind, estimate) = largest.of(nodes as f64);
            let of = |delay: f64| 1.0 + delay / base;
            let at_least = of(bound.expected_maximum(nodes as f64));
            // The bound holds for any tail, so a fit cannot be below it.
            let of = |delay: f64| of(delay).max(at_least);
            let estimate =
                estimate.map(|delay| Estimate { value: of(delay.value), low: of(delay.low), high: of(delay.high) });
            Slowdown { ranks, nodes, kind, estimate, at_least }
        };
        let scale = |ranks: u64| {
            let nodes = self.question.nodes(ranks);
            match law.among(nodes as f64) {
                Some(among) => slowdown(&Largest::new(among, &mut Random::new(seed)), ranks, nodes),
                None => slowdown(&largest, ranks, nodes),
            }
        };
        let most = self.question.ranks.iter().copied().max().unwrap_or(1);
        let co_scheduled = Slowdown { ranks: most, nodes: self.question.nodes(most), ..slowdown(&largest, 1, 1) };
        let tail_shape = match largest.tail() {
            Tail::Fitted(fit) => Some(fit.best.shape),
            Tail::TooHeavy(shape) => Some(*shape),
            Tail::Unknown => None,
        };
        let scales = self.question.ranks.iter().map(|ranks| scale(*ranks)).collect();
        AtWork { work_ns, phases: law.alone().count(), tail_shape, scales, co_scheduled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slowdown with this estimate, and this bound.
    fn slowdown(estimate: Option<f64>, at_least: f64) -> Slowdown {
        let estimate = estimate.map(|value| Estimate { value, low: value, high: value });
        Slowdown { ranks: 8, nodes: 8, kind: Kind::Measured, estimate, at_least }
    }

    fn order(slowdowns: &[Slowdown]) -> Vec<u16> {
        let without = |(cause, slowdown): (usize, &Slowdown)| Without {
            cause: cause as u16,
            times: 9,
            seldom: false,
            scales: vec![*slowdown],
        };
        let without = slowdowns.iter().enumerate().map(without).collect();
        in_order(without, 0).iter().map(|of| of.cause).collect()
    }

    /// Without the second cause, the slowdown may be 5 or 50. A bound of 1.4 does not say that it costs most.
    #[test]
    fn estimates_are_not_compared_with_bounds() {
        assert_eq!(order(&[slowdown(Some(3.0), 1.1), slowdown(Some(2.0), 1.3)]), [1, 0]);
        assert_eq!(order(&[slowdown(Some(2.0), 1.1), slowdown(None, 1.4), slowdown(Some(1.2), 1.15)]), [0, 2, 1]);
        assert_eq!(comparable(&[slowdown(Some(9.0), 1.2), slowdown(None, 1.4)]), [1.2, 1.4]);
    }
}
