//! What a forecast is asked, and why it cannot be answered.

use std::fmt;

use crate::recording::{Invalid, Recording};

/// What a forecast is asked. All times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Numbers of ranks of the program.
    pub ranks: Vec<u64>,
    /// Ranks of a node. They have the first CPUs of the recording, one each.
    pub ranks_per_node: u32,
    /// Work of the program between two synchronisations.
    pub work_ns: Vec<u64>,
    /// Cost of a synchronisation without noise.
    pub sync_ns: u64,
    /// Seed of the random numbers. The same seed gives the same answer.
    pub seed: u64,
}

/// Shortest and longest work of [`Question::default_work`], and how many there are.
const SHORTEST_NS: f64 = 10e3;
const LONGEST_NS: f64 = 1e9;
const WORKS: u32 = 20;

impl Question {
    /// Returns 20 works from 10 µs to 1 s, evenly distributed over the logarithm, as far as the recording is ten times
    /// as long.
    #[must_use]
    pub fn default_work(length_ns: u64) -> Vec<u64> {
        let step = (LONGEST_NS / SHORTEST_NS).ln() / f64::from(WORKS - 1);
        let works = (0..WORKS).map(|at| (SHORTEST_NS * (step * f64::from(at)).exp()).round() as u64);
        works.filter(|work| *work <= length_ns / 10).collect()
    }

    /// Returns the number of nodes for a number of ranks.
    #[must_use]
    pub fn nodes(&self, ranks: u64) -> u64 {
        ranks.div_ceil(u64::from(self.ranks_per_node.max(1)))
    }

    /// Checks the question and the recording that it is about.
    pub(crate) fn check(&self, recording: &Recording) -> Result<(), Unanswerable> {
        recording.check().map_err(Unanswerable::Recording)?;
        let recorded = recording.cpus.len();
        if self.ranks.is_empty() || self.ranks.contains(&0) {
            return Err(Unanswerable::NoRanks);
        }
        if self.ranks_per_node == 0 || self.ranks_per_node as usize > recorded {
            return Err(Unanswerable::RanksPerNode { asked: self.ranks_per_node, recorded });
        }
        if self.work_ns.is_empty() || self.work_ns.contains(&0) {
            return Err(Unanswerable::NoWork);
        }
        let length_ns = recording.length_ns;
        let long = self.work_ns.iter().find(|work| **work > length_ns);
        long.map_or(Ok(()), |work| Err(Unanswerable::WorkTooLong { work_ns: *work, length_ns }))
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswerable {
    /// The recording is invalid.
    Recording(Invalid),
    /// There is no number of ranks, or it is 0.
    NoRanks,
    /// A node has no rank, or more ranks than CPUs in the recording.
    RanksPerNode {
        /// Ranks of a node.
        asked: u32,
        /// CPUs in the recording.
        recorded: usize,
    },
    /// There is no work, or it is 0.
    NoWork,
    /// The work is longer than the recording.
    WorkTooLong {
        /// The work.
        work_ns: u64,
        /// Length of the recording.
        length_ns: u64,
    },
    /// All CPUs of a node are left to the system, or the recordings are of nodes of different size.
    CpusLeft(u32),
    /// Two recordings have the same number of CPUs left to the system, so they cannot say which number is better.
    SameCpusLeft(u32),
    /// There are no recordings.
    NoRecordings,
}

/// Formats a number with its noun: `1 CPU`, `2 CPUs`.
fn counted<N: Into<u64>>(number: N, noun: &str) -> String {
    let number = number.into();
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

impl fmt::Display for Unanswerable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswerable::Recording(invalid) => write!(f, "invalid recording: {invalid}"),
            Unanswerable::NoRanks => write!(f, "the number of ranks must be at least 1"),
            Unanswerable::RanksPerNode { asked, recorded } => {
                let (ranks, cpus) = (counted(*asked, "rank"), counted(*recorded as u64, "CPU"));
                write!(f, "a node with {ranks}: the recording has {cpus}; ask for at most {recorded}")
            }
            Unanswerable::NoWork => write!(f, "the work of a phase must be at least 1 ns"),
            Unanswerable::WorkTooLong { work_ns, length_ns } => {
                write!(f, "the work of {work_ns} ns is longer than the recording of {length_ns} ns; record for longer")
            }
            Unanswerable::CpusLeft(left) => {
                write!(
                    f,
                    "with {} left to the system: each recording must be of a node with the same number of CPUs, and more than are left",
                    counted(*left, "CPU")
                )
            }
            Unanswerable::SameCpusLeft(left) => {
                write!(
                    f,
                    "two recordings have {} left to the system: give one recording for each number of CPUs that are left",
                    counted(*left, "CPU")
                )
            }
            Unanswerable::NoRecordings => write!(f, "there are no recordings to compare"),
        }
    }
}

impl std::error::Error for Unanswerable {}
