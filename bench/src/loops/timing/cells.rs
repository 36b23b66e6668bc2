//! The cells of the table, and what is compared in each.

use loops::Timing;
use loops::sim::cpus::CoRunner;

use crate::stats::median_estimate;
use crate::verdict::{Outcome, at_most};

/// How long a co-runner that wanders stays on a CPU, milliseconds.
const STAY_MS: u32 = 250;

/// How many times slower the slower half of the team is.
pub const SLOW: f64 = 2.0;

/// A situation in which the same program runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// What runs on the CPUs beside it.
    pub co_runner: CoRunner,
    /// Whether half of the threads are slower.
    pub is_unequal: bool,
}

impl Cell {
    /// Returns all cells.
    pub fn all() -> impl Iterator<Item = Cell> {
        let co_runners = [CoRunner::None, CoRunner::Bursts, CoRunner::Stays, CoRunner::Wanders(STAY_MS)];
        [false, true].into_iter().flat_map(move |is_unequal| co_runners.map(|co_runner| Cell { co_runner, is_unequal }))
    }

    /// Returns the cell in words.
    pub fn name(self) -> String {
        let co_runner = match self.co_runner {
            CoRunner::None => "quiet",
            CoRunner::Bursts => "random bursts",
            CoRunner::Stays => "a co-runner stays",
            CoRunner::Wanders(_) => "a co-runner wanders",
        };
        format!("{co_runner}, {} speeds", if self.is_unequal { "unequal" } else { "equal" })
    }

    /// Returns the speeds of a team in the simulator.
    pub fn speeds(self, threads: usize) -> Vec<f64> {
        let is_slow = |thread: usize| self.is_unequal && 2 * thread >= threads;
        (0..threads).map(|thread| if is_slow(thread) { 1.0 / SLOW } else { 1.0 }).collect()
    }

    /// Returns the largest ratio of the default's time to that of wall time: less, where a co-runner wanders.
    pub fn limit(self) -> f64 {
        if matches!(self.co_runner, CoRunner::Wanders(_)) { 0.95 } else { 1.02 }
    }

    /// Judges the ratios of the default's times to those of wall time.
    pub fn judge(self, ratios: &[f64]) -> Outcome {
        at_most(&median_estimate(ratios), self.limit())
    }
}

/// What is compared in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Even blocks.
    Static,
    /// The schedule, with this timing.
    With(Timing),
}

impl Treatment {
    /// All of them.
    pub const ALL: [Treatment; 4] =
        [Treatment::Static, Treatment::With(Timing::Wall), Treatment::With(Timing::Cpu), Treatment::With(Timing::Both)];

    /// Number of the one with which the others are compared.
    pub const WALL: usize = 1;

    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Treatment::Static => "static",
            Treatment::With(timing) => timing.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_co_runner_wanders_the_default_must_win() {
        let cells: Vec<Cell> = Cell::all().collect();
        assert_eq!(cells.len(), 8);
        let (quiet, wanders) = (cells[0], cells[7]);
        assert_eq!((quiet.speeds(2), wanders.speeds(3)), (vec![1.0; 2], vec![1.0, 1.0, 0.5]));
        assert_eq!(wanders.name(), "a co-runner wanders, unequal speeds");
        let judged = |ratio: f64| [quiet, wanders].map(|cell| cell.judge(&[ratio; 9]));
        assert_eq!(judged(1.01), [Outcome::Pass, Outcome::Fail]);
        assert_eq!((judged(0.94), judged(1.03)), ([Outcome::Pass; 2], [Outcome::Fail; 2]));
        assert_eq!(Treatment::ALL[Treatment::WALL], Treatment::With(Timing::Wall));
    }
}
