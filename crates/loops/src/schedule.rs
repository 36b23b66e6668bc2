//! A schedule as a user writes it: `name[,chunk][,parameter=value]...`, as `fac2`, `gss,16` or `tap,4,alpha=1.3`.
//!
//! The chunk is the smallest size that the schedule hands out; only the last chunk of a loop may be smaller. For
//! `static`, it is the size of chunks that are distributed round robin.
//!
//! | parameter | of | range | default |
//! |---|---|---|---|
//! | `alpha` | `tap` | from 0 | 1 |
//! | `stages` | `fiss` | from 1 | threads − 1 |
//! | `divisor` | `viss` | from 1 | number of threads |
//! | `low`, `high` | `rnd` | from 1 | ⌈N/100P⌉, ⌈N/2P⌉ |
//! | `seed` | `rnd` | from 0 | 0 |
//! | `static` | `pls`, `hybrid` | 0 to 1 | 0.5, 0.8 |

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::inputs::Need;
use crate::invalid::Invalid;
use crate::kind::Kind;

/// A kind of schedule with its chunk and parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The rule.
    pub kind: Kind,
    /// Smallest size that is handed out, if it was given.
    pub chunk: Option<NonZeroU64>,
    /// Parameters beside the chunk.
    pub parameters: Parameters,
}

/// Parameters of single schedules; the others ignore them. `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parameters {
    /// `tap`: factor of the coefficient of variation.
    pub alpha: Option<f64>,
    /// `fiss`: number of batches until the loop ends.
    pub stages: Option<NonZeroU64>,
    /// `viss`: the first batch is this part of the loop.
    pub divisor: Option<NonZeroU64>,
    /// `rnd`: smallest size.
    pub low: Option<NonZeroU64>,
    /// `rnd`: largest size.
    pub high: Option<NonZeroU64>,
    /// `rnd`: seed of the random numbers.
    pub seed: Option<u64>,
    /// `pls`, `hybrid`: share of the loop that is distributed before the first request, 0 to 1.
    pub static_part: Option<f64>,
}

impl Schedule {
    /// Returns a kind with its defaults.
    #[must_use]
    pub fn new(kind: Kind) -> Schedule {
        Schedule { kind, chunk: None, parameters: Parameters::default() }
    }

    /// Returns the schedule with a smallest size that is at least `chunk`. A chunk of 0 changes nothing.
    #[must_use]
    pub fn at_least(mut self, chunk: u64) -> Schedule {
        self.chunk = self.chunk.max(NonZeroU64::new(chunk));
        self
    }

    /// Returns the inputs without which there is no plan.
    #[must_use]
    pub fn needs(&self) -> &'static [Need] {
        match self.kind {
            Kind::Fsc => &[Need::Deviation, Need::Overhead],
            Kind::Fac | Kind::Tap => &[Need::Mean, Need::Deviation],
            Kind::Bold => &[Need::Mean, Need::Deviation, Need::Overhead],
            Kind::Wf => &[Need::Weights],
            _ => &[],
        }
    }

    /// Returns true if the caller must measure the time of each chunk.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        use Kind::{Af, Awf, AwfB, AwfC, AwfD, AwfE, Bold, Maf, Profile, StaticWeighted};
        matches!(self.kind, Profile | StaticWeighted | Bold | Awf | AwfB | AwfC | AwfD | AwfE | Af | Maf)
    }
}

impl FromStr for Schedule {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Schedule, Invalid> {
        let mut parts = text.split(',').map(str::trim);
        let mut schedule = Schedule::new(Kind::find(parts.next().unwrap_or_default())?);
        for (at, part) in parts.enumerate() {
            match part.split_once('=') {
                Some((name, value)) => schedule.set(name.trim(), value.trim())?,
                None if at == 0 => {
                    schedule.chunk = Some(part.parse().map_err(|_| Invalid::Chunk(part.to_owned()))?);
                }
                None => return Err(schedule.no_parameter(part)),
            }
        }
        let Parameters { low, high, .. } = schedule.parameters;
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            return Err(Invalid::Value { parameter: "low", value: low.to_string(), range: "at most high" });
        }
        Ok(schedule)
    }
}

impl Schedule {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        if !self.kind.parameters().contains(&name) {
            return Err(self.no_parameter(name));
        }
        let parameters = &mut self.parameters;
        match name {
            "alpha" => parameters.alpha = Some(number("alpha", value, "a number from 0", 0.0..=f64::MAX)?),
            "static" => parameters.static_part = Some(number("static", value, "a number from 0 to 1", 0.0..=1.0)?),
            "stages" => parameters.stages = Some(whole("stages", value)?),
            "divisor" => parameters.divisor = Some(whole("divisor", value)?),
            "low" => parameters.low = Some(whole("low", value)?),
            "high" => parameters.high = Some(whole("high", value)?),
            _ => {
                let invalid =
                    |_| Invalid::Value { parameter: "seed", value: value.to_owned(), range: "a whole number" };
                parameters.seed = Some(value.parse().map_err(invalid)?);
            }
        }
        Ok(())
    }

    fn no_parameter(&self, name: &str) -> Invalid {
        Invalid::Parameter(self.kind.name(), name.to_owned(), self.kind.parameters())
    }
}

fn whole(parameter: &'static str, value: &str) -> Result<NonZeroU64, Invalid> {
    value.parse().map_err(|_| Invalid::Value { parameter, value: value.to_owned(), range: "a whole number from 1" })
}

fn number(
    parameter: &'static str,
    value: &str,
    range: &'static str,
    allowed: std::ops::RangeInclusive<f64>,
) -> Result<f64, Invalid> {
    let number = value.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| Invalid::Value { parameter, value: value.to_owned(), range })
}

impl fmt::Display for Schedule {
    /// Writes the schedule as a user would.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Parameters { alpha, stages, divisor, low, high, seed, static_part } = self.parameters;
        f.write_str(self.kind.name())?;
        self.chunk.map_or(Ok(()), |chunk| write!(f, ",{chunk}"))?;
        alpha.map_or(Ok(()), |alpha| write!(f, ",alpha={alpha}"))?;
        stages.map_or(Ok(()), |stages| write!(f, ",stages={stages}"))?;
        divisor.map_or(Ok(()), |divisor| write!(f, ",divisor={divisor}"))?;
        low.map_or(Ok(()), |low| write!(f, ",low={low}"))?;
        high.map_or(Ok(()), |high| write!(f, ",high={high}"))?;
        seed.map_or(Ok(()), |seed| write!(f, ",seed={seed}"))?;
        static_part.map_or(Ok(()), |part| write!(f, ",static={part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_schedules_and_texts_again() {
        for (text, again) in [
            ("fac2", "fac2"),
            (" GSS , 16 ", "gss,16"),
            ("dynamic,4", "ss,4"),
            ("awf-b", "awf_b"),
            ("tap,4,alpha=1.3", "tap,4,alpha=1.3"),
            ("rnd,low=2,high=5,seed=7", "rnd,low=2,high=5,seed=7"),
            ("hybrid,static=0.9", "hybrid,static=0.9"),
            ("fiss,stages=3", "fiss,stages=3"),
            ("viss,18446744073709551615,divisor=2", "viss,18446744073709551615,divisor=2"),
        ] {
            let schedule: Schedule = text.parse().unwrap();
            assert_eq!(schedule.to_string(), again);
            assert_eq!(again.parse(), Ok(schedule));
        }
    }

    #[test]
    fn mistakes_get_one_line() {
        for (text, message) in [
            ("fac2,0", "invalid chunk '0': use a whole number from 1"),
            ("fac2,-1", "invalid chunk '-1': use a whole number from 1"),
            ("fac2,", "invalid chunk '': use a whole number from 1"),
            ("fac2,1.5", "invalid chunk '1.5': use a whole number from 1"),
            ("fac2,alpha=1", "schedule 'fac2' has no parameter 'alpha', only a chunk"),
            ("fac2,1,2", "schedule 'fac2' has no parameter '2', only a chunk"),
            ("rnd,mean=1", "schedule 'rnd' has no parameter 'mean': use low, high, seed"),
            ("rnd,low=0", "invalid low '0': use a whole number from 1"),
            ("rnd,low=3,high=2", "invalid low '3': use at most high"),
            ("rnd,seed=x", "invalid seed 'x': use a whole number"),
            ("tap,alpha=-1", "invalid alpha '-1': use a number from 0"),
            ("tap,alpha=nan", "invalid alpha 'nan': use a number from 0"),
            ("pls,static=1.1", "invalid static '1.1': use a number from 0 to 1"),
            ("", "unknown schedule '': use af, ss, wf"),
        ] {
            let error = text.parse::<Schedule>().unwrap_err().to_string();
            assert_eq!(error, message, "{text}");
        }
    }

    #[test]
    fn a_programs_chunk_is_a_minimum() {
        let schedule: Schedule = "fac2,8".parse().unwrap();
        assert_eq!(schedule.clone().at_least(16).to_string(), "fac2,16");
        assert_eq!(schedule.clone().at_least(0), schedule);
        assert_eq!(schedule.clone().at_least(4), schedule);
    }
}
