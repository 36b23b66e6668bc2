//! Adaptive schedules: the size of a chunk depends on who asks, and on what was measured.
//!
//! All threads share one word per instance, the number of iterations *given out*. A request:
//!
//!  1. The thread calls [`Adaptive::request`] once. That reads what the threads of the team have published ([`Team`]),
//!     and costs time in proportion to their number.
//!  2. It reads the shared word, and [`Adaptive::size`] computes the size. If the size is 0, the loop has ended.
//!  3. It adds the size to the word by compare-and-swap. If that fails, it continues with step 2. The old value of the
//!     word and the size are the chunk.
//!
//! No second counter is needed: the number of a batch follows from the iterations given out ([`batches`]). The word
//! never exceeds N, so it cannot overflow. What other threads have published may be a little old, or a mean of one
//! time with a variance of another. Any such value gives a size from the smallest one to what remains, so each
//! iteration is given out exactly once.
//!
//! [`weighted`]: `wf`, `awf`, `awf_b` to `awf_e`; [`factoring`]: `af`, `maf`; [`bold`]: `bold`.

pub mod ahead;
pub mod batches;
pub mod bold;
mod convert;
pub mod factoring;
pub mod team;
pub mod weighted;

use self::ahead::Ahead;
use self::batches::Batches;
use self::bold::{Bold, Outlook};
use self::factoring::Spreads;
use self::team::Team;
use crate::inputs::Inputs;
use crate::invalid::Invalid;
use crate::kind::Kind;
use crate::statistics::{Measure, Pace, Statistics, Timing};

/// The plan of an adaptive schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptive {
    kind: Kind,
    trips: u64,
    threads: usize,
    minimum: u64,
    batches: Batches,
    /// Sizes of `af` and `maf`: before there is a variance, and the largest one.
    warm_up: u64,
    largest: u64,
    /// One for each thread, with a mean of 1.
    weights: Box<[f64]>,
    bold: Option<Bold>,
}

/// What a request knows about the team; valid for as many attempts as the compare-and-swap needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request(Basis);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Basis {
    /// Weight times the size of the batch.
    Batch(f64),
    /// Weight times the half of a P-th of what remains.
    Chunk(f64),
    /// The thread's mean, and sums over the team.
    Spreads(Spreads),
    /// The thread has not measured enough.
    WarmUp,
    /// What the team is expected to have finished.
    Outlook(Outlook),
}

impl Adaptive {
    /// Makes the plan of an adaptive kind, or returns which input is missing. Zero threads are an error.
    pub(crate) fn new(
        kind: Kind,
        trips: u64,
        threads: usize,
        minimum: u64,
        inputs: &Inputs,
    ) -> Result<Adaptive, Invalid> {
        let bold = match kind {
            Kind::Bold => Some(Bold::new(inputs.mean_ns(kind)?, inputs.deviation_ns(kind)?, inputs.overhead_ns(kind)?)),
            _ => None,
        };
        let weights = inputs.weights(threads)?.unwrap_or_else(|| vec![1.0; threads].into_boxed_slice());
        let batches = Batches::new(trips, threads as u64, minimum);
        let (warm_up, largest) = (factoring::warm_up(trips, threads as u64), factoring::largest(trips, threads as u64));
        Ok(Adaptive { kind, trips, threads, minimum: minimum.max(1), batches, warm_up, largest, weights, bold })
    }

    /// Returns the number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the number of iterations of the loop.
    #[must_use]
    pub fn trips(&self) -> u64 {
        self.trips
    }

    /// Returns empty statistics of one thread for this schedule.
    #[must_use]
    pub fn statistics(&self, timing: Timing) -> Statistics {
        let measure = if matches!(self.kind, Kind::Af | Kind::Maf) { Measure::Spread } else { Measure::Recent };
        let dispatch = matches!(self.kind, Kind::AwfD | Kind::AwfE | Kind::Maf);
        Statistics::new(measure, timing, dispatch)
    }

    /// Replaces the weights, one for each thread, of `wf` and `awf`: between two instances, while no thread asks.
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<(), Invalid> {
        let inputs = Inputs { weights: Some(weights.to_vec()), ..Inputs::default() };
        if let Some(weights) = inputs.weights(self.threads)? {
            self.weights = weights;
        }
        Ok(())
    }

    /// Returns the request of a thread if it is the same whatever the team publishes: with `wf`. Then nothing needs to be
    /// measured.
    #[must_use]
    pub fn constant_request(&self, thread: usize) -> Option<Request> {
        (self.kind == Kind::Wf).then(|| self.request(thread, &[] as &[Pace]))
    }

    /// Returns what a thread needs to know for its next size. Threads outside the team are treated as the last thread.
    #[inline]
    pub fn request(&self, thread: usize, team: &(impl Team + ?Sized)) -> Request {
        let thread = thread.min(self.threads - 1);
        let given = self.weights[thread];
        Request(match self.kind {
            Kind::AwfB | Kind::AwfD => Basis::Batch(weighted::weight(thread, self.threads, given, team)),
            Kind::AwfC | Kind::AwfE => Basis::Chunk(weighted::weight(thread, self.threads, given, team)),
            Kind::Af | Kind::Maf => match Spreads::new(thread, self.threads, team) {
                Some(spreads) => Basis::Spreads(spreads),
                None => Basis::WarmUp,
            },
            Kind::Bold => match &self.bold {
                Some(bold) => Basis::Outlook(bold.outlook(self.threads, team)),
                None => Basis::WarmUp,
            },
            _ => Basis::Batch(given),
        })
    }

    /// Computes the sizes after `given_out` iterations in advance, if they depend on nothing but the iterations given out; else, no size.
    #[inline]
    pub fn look_ahead(&self, request: &Request, given_out: u64, ahead: &mut Ahead) {
        match &request.0 {
            Basis::Batch(weight) => {
                ahead.set(&self.batches, given_out, |size| weighted::scaled(*weight, size).max(self.minimum));
            }
            _ => ahead.clear(),
        }
    }

    /// Returns the next size after `given_out` iterations: at least the smallest size, unless less remains. 0: the loop
    /// has ended.
    #[inline]
    #[must_use]
    pub fn size(&self, request: &Request, given_out: u64) -> u64 {
        let remaining = self.trips.saturating_sub(given_out);
        if remaining == 0 {
            return 0;
        }
        let threads = self.threads as u64;
        let size = match &request.0 {
            Basis::Batch(weight) => self.batches.weighted(given_out, |size| weighted::scaled(*weight, size)),
            Basis::Chunk(weight) => weighted::scaled(*weight, batches::half(remaining, threads)),
            Basis::Spreads(spreads) => self.largest.min(spreads.size(remaining)),
            Basis::WarmUp => self.warm_up,
            Basis::Outlook(outlook) => self.bold.as_ref().map_or(1, |bold| bold.size(outlook, remaining, threads)),
        };
        size.max(self.minimum).min(remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills in sizes of another plan.
    fn adaptive_sizes(ahead: &mut Ahead) {
        let adaptive = Adaptive::new(Kind::AwfB, 200, 2, 1, &Inputs::default()).unwrap();
        adaptive.look_ahead(&Request(Basis::Batch(1.0)), 0, ahead);
        assert_eq!(ahead.size(0), Some(50));
    }

    /// Also with weights for which a chunk is longer than its batch.
    #[test]
    fn sizes_in_advance_are_the_sizes() {
        for (trips, threads, minimum) in [(200, 2, 1), (1000, 3, 1), (1000, 4, 7), (5, 8, 1), (u64::MAX, 2, 1)] {
            for weight in [0.01, 0.3, 1.0, 1.7, 5.0, 64.0] {
                let adaptive = Adaptive::new(Kind::AwfB, trips, threads, minimum, &Inputs::default()).unwrap();
                let request = Request(Basis::Batch(weight));
                for from in [0, trips / 3, trips / 2, trips - 1] {
                    let mut ahead = Ahead::default();
                    adaptive.look_ahead(&request, from, &mut ahead);
                    let mut known = 0;
                    let step = (trips / 1000).max(1);
                    for given_out in (0..1000).map(|k| from.saturating_add(k * step)).take_while(|at| *at < trips) {
                        let Some(size) = ahead.size(given_out) else { break };
                        known += 1;
                        let remaining = trips - given_out;
                        assert_eq!(size.min(remaining), adaptive.size(&request, given_out), "{weight} {given_out}");
                    }
                    assert!(known > 0, "{trips} {threads} {weight} {from}");
                }
            }
        }
        let other = Adaptive::new(Kind::Af, 100, 2, 1, &Inputs::default()).unwrap();
        let mut ahead = Ahead::default();
        adaptive_sizes(&mut ahead);
        other.look_ahead(&Request(Basis::WarmUp), 0, &mut ahead);
        assert_eq!(ahead.size(0), None);
    }

    #[test]
    fn a_constant_request_is_the_one_of_every_pace() {
        let weights = Some(vec![1.0, 2.0, 3.0]);
        let inputs = Inputs { weights, mean_ns: Some(1.0), deviation_ns: Some(1.0), overhead_ns: Some(1.0) };
        let teams = [[0.0; 3], [0.1; 3], [7.3, 0.0, 1e-9], [3.0, 1e300, 5.0]];
        for kind in [Kind::Wf, Kind::AwfB, Kind::AwfC, Kind::AwfD, Kind::AwfE, Kind::Af, Kind::Maf] {
            let adaptive = Adaptive::new(kind, 1000, 3, 1, &inputs).unwrap();
            let pace = |mean_ns| Pace { mean_ns, variance_ns2: 2.0 * mean_ns };
            let requests = teams.map(|team| adaptive.request(0, &team.map(pace)[..]));
            match adaptive.constant_request(0) {
                Some(request) => assert_eq!(requests, [request; 4], "{kind:?}"),
                None => assert!(requests.iter().any(|other| *other != requests[0]), "{kind:?}"),
            }
        }
    }
}
