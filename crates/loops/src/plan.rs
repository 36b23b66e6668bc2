//! How the threads of a team get the iterations of a loop: made once for a number of iterations and threads.

use crate::adaptive::Adaptive;
use crate::blocks::{Blocks, Cyclic};
use crate::fixed::Fixed;
use crate::hybrid::Hybrid;
use crate::inputs::{Inputs, Need};
use crate::invalid::Invalid;
use crate::kind::Kind;
use crate::rules::size::Size;
use crate::rules::{constant, factoring, guided, increasing, random, trapezoid};
use crate::schedule::Schedule;
use crate::steal::Steal;
use crate::table::Table;

/// Share of the loop in the static part of `pls`, as in LB4OMP.
const PLS_STATIC: f64 = 0.5;

/// Share of the loop in the blocks of `hybrid`. Donfack et al. found 10 to 20 % of self-scheduling to be enough.
const HYBRID_STATIC: f64 = 0.8;

/// The way of a schedule to give out iterations. What a request does is said in the documentation of the crate.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// `static`: one block per thread, no request.
    Blocks(Blocks),
    /// `static` with a chunk: chunks round robin, no request.
    Cyclic(Cyclic),
    /// Chunks of one size, by number.
    Fixed(Fixed),
    /// Chunks of different sizes, by number.
    Table(Table),
    /// A block per thread, then chunks by number.
    Hybrid(Hybrid),
    /// Chunks that are stolen.
    Steal(Steal),
    /// Sizes that are computed at each request.
    Adaptive(Adaptive),
}

impl Plan {
    /// Returns true if each thread gets its chunks in ascending order, as OpenMP's `monotonic` requires.
    #[must_use]
    pub fn is_monotonic(&self) -> bool {
        !matches!(self, Plan::Steal(_))
    }
}

impl Schedule {
    /// Makes the plan for `trips` iterations and a number of threads, or returns why that is impossible.
    ///
    /// With weights, the blocks of `static` without a chunk are in proportion to them. Those of `static_weighted` are so
    /// before anything is measured; then the caller cuts others ([`crate::blocks::cut_by_speeds`]).
    pub fn plan(&self, trips: u64, threads: usize, inputs: &Inputs) -> Result<Plan, Invalid> {
        if threads == 0 {
            return Err(Invalid::NoThreads);
        }
        let kind = self.kind;
        let weights = inputs.weights(threads)?;
        let minimum = self.chunk.map_or(1, u64::from);
        let size = Size { trips, threads: threads as u64, minimum };
        let parameters = &self.parameters;
        let static_part = |default: f64| parameters.static_part.unwrap_or(default).clamp(0.0, 1.0);
        Ok(match kind {
            Kind::Static if self.chunk.is_some() => Plan::Cyclic(Cyclic::new(trips, threads, minimum)),
            Kind::Static => Plan::Blocks(match weights {
                Some(weights) => Blocks::weighted(trips, &weights),
                None => Blocks::even(trips, threads),
            }),
            Kind::StaticWeighted => Plan::Blocks(match weights {
                Some(weights) => {
                    Blocks::by_speeds(trips, minimum, &weights.iter().copied().map(Some).collect::<Vec<_>>())
                }
                None => Blocks::by_speeds(trips, minimum, &vec![None; threads]),
            }),
            Kind::StaticSteal => Plan::Steal(Steal::new(trips, threads, minimum)),
            Kind::Ss | Kind::Profile => Plan::Fixed(Fixed::new(trips, minimum)),
            Kind::Fsc => {
                let (deviation_ns, overhead_ns) = (inputs.deviation_ns(kind)?, inputs.overhead_ns(kind)?);
                Plan::Fixed(Fixed::new(trips, constant::fsc(size, deviation_ns, overhead_ns)))
            }
            Kind::Mfsc => Plan::Fixed(Fixed::new(trips, constant::mfsc(size))),
            Kind::Gss => Plan::Table(guided::gss(size)),
            Kind::GssLlvm => Plan::Table(guided::gss_llvm(size)),
            Kind::Tss => Plan::Table(trapezoid::tss(size)),
            Kind::Tfss => Plan::Table(trapezoid::tfss(size)),
            Kind::Fac => Plan::Table(factoring::fac(size, inputs.mean_ns(kind)?, inputs.deviation_ns(kind)?)),
            Kind::Fac2 => Plan::Table(factoring::fac2(size)),
            Kind::Tap => {
                let variation = inputs.deviation_ns(kind)? / inputs.mean_ns(kind)?;
                Plan::Table(guided::tap(size, parameters.alpha.unwrap_or(1.0) * variation))
            }
            Kind::Fiss => {
                let stages = parameters.stages.map_or(size.threads.saturating_sub(1), u64::from);
                Plan::Table(increasing::fiss(size, stages))
            }
            Kind::Viss => Plan::Table(increasing::viss(size, parameters.divisor.map_or(size.threads, u64::from))),
            Kind::Rnd => {
                let (low, high) = (parameters.low.map(u64::from), parameters.high.map(u64::from));
                Plan::Table(random::rnd(size, low, high, parameters.seed.unwrap_or(0)))
            }
            Kind::Pls => Plan::Table(guided::pls(size, static_part(PLS_STATIC))),
            Kind::Hybrid => {
                let start = ((trips as f64 * static_part(HYBRID_STATIC)) as u64).min(trips);
                let rest = factoring::fac2(Size { trips: trips - start, ..size });
                Plan::Hybrid(Hybrid::new(Blocks::even(start, threads), start, rest))
            }
            Kind::Wf if weights.is_none() => {
                return Err(Need::Weights.missing(kind));
            }
            Kind::Wf
            | Kind::Bold
            | Kind::Awf
            | Kind::AwfB
            | Kind::AwfC
            | Kind::AwfD
            | Kind::AwfE
            | Kind::Af
            | Kind::Maf => Plan::Adaptive(Adaptive::new(kind, trips, threads, minimum, inputs)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, inputs: &Inputs) -> Result<Plan, String> {
        text.parse::<Schedule>().unwrap().plan(100, 4, inputs).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn what_a_schedule_needs_is_what_its_plan_requires() {
        let all = Inputs {
            mean_ns: Some(10.0),
            deviation_ns: Some(3.0),
            overhead_ns: Some(1.0),
            weights: Some(vec![1.0, 2.0, 3.0, 4.0]),
        };
        for kind in Kind::all() {
            let schedule = Schedule::new(kind);
            assert!(schedule.plan(100, 4, &all).is_ok(), "{schedule}");
            let needs = schedule.needs();
            assert_eq!(schedule.plan(100, 4, &Inputs::default()).is_err(), !needs.is_empty(), "{schedule}");
            for need in needs {
                let mut without = all.clone();
                match need {
                    Need::Mean => without.mean_ns = None,
                    Need::Deviation => without.deviation_ns = None,
                    Need::Overhead => without.overhead_ns = None,
                    Need::Weights => without.weights = None,
                }
                assert_eq!(schedule.plan(100, 4, &without), Err(need.missing(kind)));
            }
        }
    }

    #[test]
    fn bad_inputs_get_one_line() {
        let weights = |weights: &[f64]| Inputs { weights: Some(weights.to_vec()), ..Inputs::default() };
        assert_eq!(
            plan("wf", &weights(&[1.0; 3])).unwrap_err(),
            "the number of weights (3) is not the number of threads (4)"
        );
        assert_eq!(
            plan("wf", &weights(&[1.0, 0.0, 1.0, 1.0])).unwrap_err(),
            "invalid value 0 for the weights of the threads"
        );
        assert_eq!(
            plan("wf", &Inputs::default()).unwrap_err(),
            "schedule 'wf' needs the weights of the threads: give one for each thread"
        );
        let negative = Inputs { mean_ns: Some(-1.0), deviation_ns: Some(1.0), ..Inputs::default() };
        assert_eq!(plan("fac", &negative).unwrap_err(), "invalid value -1 for the mean time of an iteration");
        let none = Schedule::new(Kind::Ss).plan(1, 0, &Inputs::default()).unwrap_err();
        assert_eq!(none.to_string(), "a loop needs at least one thread");
    }

    #[test]
    fn weights_change_the_blocks_of_static() {
        let weighted = Inputs { weights: Some(vec![1.0, 1.0, 1.0, 2.0]), ..Inputs::default() };
        let Ok(Plan::Blocks(blocks)) = plan("static", &weighted) else { panic!("no blocks") };
        assert_eq!(blocks.of(3), 60..100);
        assert!(matches!(plan("static,3", &weighted), Ok(Plan::Cyclic(_))));
    }

    #[test]
    fn hybrid_is_blocks_and_then_chunks() {
        let Ok(Plan::Hybrid(hybrid)) = plan("hybrid,static=0.5", &Inputs::default()) else { panic!("not hybrid") };
        assert_eq!((hybrid.block(0), hybrid.block(3)), (0..13, 38..50));
        assert_eq!([0, 1].map(|k| hybrid.chunk(k)), [Some(50..57), Some(57..64)]);
        assert!(plan("hybrid", &Inputs::default()).unwrap().is_monotonic());
        assert!(!plan("static_steal", &Inputs::default()).unwrap().is_monotonic());
    }
}
