//! How long a program computes between two synchronisations: a part of `noise` in the document of `cox run --noise`.

use advise::numbers::{count, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a program computes between two synchronisations, without its waits. One thread of each process is measured. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phases {
    /// Why none are known; null if some are.
    pub unknown: Option<String>,
    /// What ends a phase: `MPI` (collective operations in which all ranks wait), or else `OpenMP` and `pthread` (barriers).
    pub between: Vec<String>,
    /// Processes with phases.
    pub processes: u32,
    /// Number of phases.
    pub count: u64,
    /// Mean length.
    pub mean_ns: u64,
    /// Longest length.
    pub longest_ns: u64,
    /// Lengths in ascending order, each within 7 %, with the number of phases.
    pub lengths: Vec<(u64, u64)>,
}

impl Phases {
    /// Returns the smallest length that at least `percent` % of the phases do not exceed; 0 if there are none.
    #[must_use]
    pub fn quantile_ns(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = self.lengths.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= wanted
        });
        reached.map_or(0, |length| length.0)
    }

    /// Returns the works for which a forecast is made: lengths that a tenth, half and nine tenths of the phases do not exceed. The forecast
    /// of a work below 1 ns does not exist.
    #[must_use]
    pub fn works_ns(&self) -> Vec<u64> {
        let mut works: Vec<u64> = [10, 50, 90].into_iter().map(|percent| self.quantile_ns(percent).max(1)).collect();
        works.dedup();
        works
    }

    /// Returns one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        if let Some(why) = &self.unknown {
            return format!("phases between synchronisations not known: {why}");
        }
        format!(
            "phases: {} between synchronisations ({}), {} in the median, {} to {} in the middle four fifths",
            count(self.count),
            self.between.join(", "),
            duration(self.quantile_ns(50)),
            duration(self.quantile_ns(10)),
            duration(self.quantile_ns(90))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_are_quantiles_of_the_phases() {
        let phases = |lengths: &[(u64, u64)]| Phases {
            unknown: None,
            between: vec!["MPI".to_owned()],
            processes: 1,
            count: lengths.iter().map(|length| length.1).sum(),
            mean_ns: 0,
            longest_ns: 0,
            lengths: lengths.to_vec(),
        };
        assert_eq!(phases(&[(1_000, 30), (20_000, 40), (300_000, 30)]).works_ns(), [1_000, 20_000, 300_000]);
        assert_eq!(phases(&[(1_000, 5), (20_000, 94), (300_000, 1)]).works_ns(), [20_000]);
        assert_eq!(phases(&[(1_000, 10), (20_000, 90)]).quantile_ns(10), 1_000);
        assert_eq!(phases(&[]).quantile_ns(50), 0);
    }
}
