//! What was selected, and why.

/// Why a schedule was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// By the evidence of the trials, all others are slower.
    Fastest,
    /// Imbalance and requests cost little with it; those with more overhead were not tried.
    Balanced,
    /// No other is clearly faster, and some are so similar that more trials would cost more than they gain.
    Similar,
    /// Trials go on. It is the best so far.
    Leading,
    /// Rules from imbalance and the cost of requests have led to it.
    Rules,
    /// Chance has.
    Chance,
}

impl Reason {
    /// All reasons. The number of one is its place here.
    pub const ALL: [Reason; 6] =
        [Reason::Fastest, Reason::Balanced, Reason::Similar, Reason::Leading, Reason::Rules, Reason::Chance];

    /// Returns its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Fastest => "fastest",
            Reason::Balanced => "balanced",
            Reason::Similar => "similar",
            Reason::Leading => "leading",
            Reason::Rules => "rules",
            Reason::Chance => "chance",
        }
    }
}

/// What was selected, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The schedule.
    pub schedule: usize,
    /// Why.
    pub reason: Reason,
    /// Rounds of trials; 0 if there are none.
    pub rounds: usize,
    /// The second, and by which factor its median is larger; `None` if no other was tried.
    pub second: Option<(usize, f64)>,
    /// Selections so far: more than one if the loop has changed, or if a rule or chance has led from one schedule to another.
    pub selections: u64,
}
