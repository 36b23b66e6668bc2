//! What is kept of one situation: the report's verdict, and the measured changes.

use advise::{Confidence, Kind};
use serde::{Deserialize, Serialize};

/// One finished situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The situation, as `Situation::key` returns it.
    pub key: String,
    /// Name of the program.
    pub program: String,
    /// Whether the experiment ran another program at the same time.
    pub loaded: bool,
    /// Why the situation could not be measured; the other fields are then empty.
    pub failed: Option<String>,
    /// Headline and confidence of the report.
    pub verdict: Option<Told>,
    /// The steps of the report, in its order.
    pub arrows: Vec<Arrow>,
    /// The measured changes: those to which steps lead, and those that are known to matter.
    pub tried: Vec<Tried>,
}

/// What the report says, without its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The headline.
    pub headline: Kind,
    /// The confidence in the headline.
    pub confidence: Confidence,
    /// Upper bound of the speed-up by any scheduling, as the report prints it; absent if it prints none.
    pub bound: Option<Printed>,
    /// Wall time of the observed run, s.
    pub wall_s: f64,
    /// Share of the CPUs' time that programs outside the run used.
    pub others: f64,
}

/// A factor that is printed with few digits, and rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// The printed value.
    pub value: f64,
    /// The unit of the last digit: the factor is less than `value + unit`.
    pub unit: f64,
}

/// One step of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrow {
    /// The action, as printed.
    pub action: String,
    /// Lower and upper end of the expected speed-up.
    pub expected: Option<(f64, f64)>,
    /// Upper bound of the speed-up.
    pub bound: Option<f64>,
    /// How the step was followed.
    pub outcome: Outcome,
}

/// How a step was followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// By the measured change with this index.
    Tried(usize),
    /// Not followed, with the reason.
    NotFollowed(String),
    /// The experiment does not know the action.
    Unknown,
}

/// A measured change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The change, in words.
    pub change: String,
    /// Whether the change is one of those that are tried in every situation.
    pub known: bool,
    /// Whether the change is scheduling on the same CPUs, with no more threads: the report's bound is for such changes.
    pub scheduling: bool,
    /// Wall times without the change, s, by round.
    pub base_s: Vec<f64>,
    /// Wall times with the change, s, by round.
    pub change_s: Vec<f64>,
    /// Whether a run with the change was ended at the time limit, so that its time is a lower bound.
    pub cut_short: bool,
    /// The speed-up by the change; absent if the program failed with the change.
    pub speedup: Option<Speedup>,
    /// Why the program failed with the change.
    pub failed: Option<String>,
}

impl Tried {
    /// Returns whether the change is packing by cox.
    pub fn is_packing(&self) -> bool {
        self.change.starts_with("cox pack")
    }
}

/// Median time without a change ÷ median time with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    /// The ratio of the medians.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

impl Speedup {
    /// Returns the width of the interval, relative to the ratio.
    pub fn width(&self) -> f64 {
        (self.high - self.low) / self.ratio
    }
}
