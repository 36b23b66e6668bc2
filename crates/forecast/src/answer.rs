//! The forecast: what noise costs a bulk-synchronous program for each work and number of ranks, and which cause costs
//! most.
//!
//! A program that synchronises N nodes after a work W takes S(N, W) = 1 + E\[largest of N delays\] / (W + C) times as long
//! as without noise, where C is the cost of a synchronisation.

use random::Random;

use crate::bound::Bound;
use crate::largest::{Estimate, Kind, Largest};
use crate::nodes::{Instants, NodeLaw};
use crate::observed;
use crate::question::{Question, Unanswerable};
use crate::recording::Recording;
use crate::replay::{Delays, replay};
use crate::tail::Tail;
use crate::timeline::Timeline;

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

impl Slowdown {
    /// Returns the number by which slowdowns are compared: the estimate, or the bound if there is none.
    #[must_use]
    pub fn known(&self) -> f64 {
        self.estimate.map_or(self.at_least, |estimate| estimate.value)
    }
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
    /// For each cause that was seen, the forecast without it, from the smallest slowdown at the largest number of ranks
    /// up: the first costs most.
    pub without: Vec<Without>,
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
        let known = |at: usize| works[at].scales[scale].known();
        (0..works.len()).max_by(|one, two| known(*one).total_cmp(&known(*two)).then(two.cmp(one))).unwrap_or(0)
    };
    let worst: Vec<usize> = (0..question.ranks.len()).map(worst_for).collect();
    let largest = (0..question.ranks.len()).max_by_key(|at| question.ranks[*at]).unwrap_or(0);
    let causes_at = worst[largest];
    let mut others = Timeline::default();
    let without = |(cause, seen): (usize, u64)| {
        let cause = cause as u16;
        timeline.without(cause, &mut others);
        let scales = Node::new(&others, question).at(question.work_ns[causes_at], &mut delays).scales;
        Without { cause, times: seen, seldom: seen < SELDOM, scales }
    };
    let seen = recording.times_seen(cpus).into_iter().enumerate().filter(|(_, seen)| *seen > 0);
    let mut without: Vec<Without> = seen.map(without).collect();
    without.sort_by(|one, two| one.scales[largest].known().total_cmp(&two.scales[largest].known()));
    Ok(Forecast { works, worst, causes_at, without })
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
