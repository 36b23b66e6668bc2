//! The verdict: what the report and the JSON show.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::evidence::{Evidence, share};
use crate::expected::Expected;
use crate::thresholds::{TURNS_COST, WAKEUPS_COST, WIDEST_RANGE};

/// What cost a program its time, and what to try next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The situation that costs most.
    pub headline: Kind,
    /// How sure the headline is.
    pub confidence: Confidence,
    /// What the situations cost, largest first. They can overlap: the same waiting can have two causes, and removing either would end it.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// Three to six sentences, most important first; fewer if there is nothing to report.
    pub sentences: Vec<Sentence>,
}

/// A situation a program can be in. `docs/advice/<name>.md` (`cox explain <name>`) explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// More threads than CPUs, and the waiting ones spin.
    TooManyThreadsSpinning,
    /// More threads than CPUs, and the waiting ones sleep.
    TooManyThreadsSleeping,
    /// One thread works alone for much of the run, in code that only it runs.
    Serial,
    /// Threads wait for a thread that has more work.
    Imbalance,
    /// Another program takes the CPUs.
    CpuHog,
    /// Threads wait for storage.
    DiskBound,
    /// Threads queue for a lock.
    LockConvoy,
    /// The program may use fewer CPUs than it needs, although the machine has more.
    PinnedTooFew,
    /// The control group's CPU quota stops the program.
    QuotaThrottled,
    /// Threads wait for pages to be read in.
    PageFaults,
    /// Threads wait for sockets.
    NetworkBound,
    /// Threads wait for file locks.
    FileLock,
    /// Threads wait for one another, for a reason that the backend does not see.
    WaitingForThreads,
    /// Threads sleep so briefly that waking up costs more than the wait.
    SlowWakeups,
    /// The hypervisor gives the CPUs to other virtual machines.
    HypervisorSteal,
    /// The program waits for input: pipes, poll.
    WaitingForInput,
    /// The program waits for child processes that are not part of the account.
    ChildWait,
    /// The program sleeps intentionally.
    Sleeping,
    /// Threads were blocked, for a reason that the backend does not see.
    Blocked,
    /// No change of scheduling or waiting can save time.
    NothingToGain,
    /// The run is too short, or too many events were lost, for a verdict.
    TooLittleEvidence,
}

impl Kind {
    /// Returns whether removing the loss lets threads of the program switch and sleep less.
    fn ends_switching(self) -> bool {
        use Kind::{LockConvoy, PinnedTooFew, QuotaThrottled, SlowWakeups};
        use Kind::{TooManyThreadsSleeping, TooManyThreadsSpinning, WaitingForThreads};
        matches!(self, LockConvoy | PinnedTooFew | QuotaThrottled | SlowWakeups)
            || matches!(self, TooManyThreadsSleeping | TooManyThreadsSpinning | WaitingForThreads)
    }

    /// Returns by what factor the work itself can take less CPU time once the loss is removed, which makes the forecast `factor` larger; `None` if it takes
    /// the same time. A program that shares its CPUs with others refills its caches each time.
    fn shrinks_by(self, evidence: &Evidence, factor: f64) -> Option<f64> {
        match self {
            Kind::CpuHog => Some(TURNS_COST),
            _ if !self.ends_switching() || !evidence.work_can_shrink() => None,
            Kind::SlowWakeups => Some(1.0 + WAKEUPS_COST * (factor - 1.0)),
            _ => Some(TURNS_COST),
        }
    }
}

/// Writes the name in JSON, which is also the name of the page in docs/advice that explains the situation.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The verdict is only one of several possible explanations.
    Low,
    /// The verdict is the most likely explanation, but a part of it was not seen or is estimated.
    Medium,
    /// Every part of the verdict was measured.
    High,
}

/// Writes the name in JSON.
impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Confidence {
    /// Returns the next lower confidence.
    pub fn lowered(self) -> Confidence {
        match self {
            Confidence::High => Confidence::Medium,
            _ => Confidence::Low,
        }
    }
}

/// What a situation costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// The situation.
    pub kind: Kind,
    /// The thread time that it costs, estimated, ns: the time spent in it, and the time for which other threads waited because of it.
    pub cost_ns: u64,
    /// `cost_ns` as a part of all thread time, from 0 to 1.
    pub cost_share: f64,
}

impl Loss {
    /// Returns the loss of `cost_ns` out of all thread time, `all_ns`.
    pub(crate) fn new(kind: Kind, cost_ns: f64, all_ns: f64) -> Loss {
        Loss { kind, cost_ns: cost_ns as u64, cost_share: share(cost_ns, all_ns) }
    }
}

/// One statement with its evidence and the steps to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    /// Plain English, including the number.
    pub text: String,
    /// The figures that support the sentence.
    pub evidence: Vec<CitedFigure>,
    /// What to try, best first.
    pub next: Vec<NextStep>,
}

/// A figure that a sentence cites, from the report that the verdict is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CitedFigure {
    /// Name of the figure, as in `docs/figures.md`.
    pub figure: String,
    /// Value of the figure, in the unit that its name gives.
    #[serde(serialize_with = "whole_without_fraction")]
    pub value: f64,
}

/// Serializes whole numbers without a fraction, since nearly all figures are counts: `16120000000`, not `16120000000.0`.
fn whole_without_fraction<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = *value as i64;
    if whole as f64 == *value && whole.unsigned_abs() < 1 << 53 {
        serializer.serialize_i64(whole)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// Something to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// A command, a setting, or a change of the program.
    pub action: String,
    /// Lower end of the expected speed-up, a factor; absent if no number can be given.
    pub expected_low: Option<f64>,
    /// Upper end of the expected speed-up, a factor.
    pub expected_high: Option<f64>,
    /// Upper bound of the speed-up, a factor: no way of removing this loss can give more. Absent if the threads took turns on CPUs, or
    /// slept very often: their work took more CPU time because of that, and nothing in the account shows how much more.
    pub bound: Option<f64>,
    /// What would have to disappear to reach the bound, as in "bound 9× without any waiting for storage". Present only if the bound is larger than
    /// the number of CPUs that the program may use.
    #[serde(default)]
    pub bound_without: Option<String>,
    /// Topic of `cox explain` for this step: the name of a page in docs/advice.
    pub topic: String,
}

impl NextStep {
    /// Returns a step without a forecast.
    pub fn plain(action: impl Into<String>, kind: Kind) -> NextStep {
        NextStep {
            action: action.into(),
            expected_low: None,
            expected_high: None,
            bound: None,
            bound_without: None,
            topic: kind.to_string(),
        }
    }

    /// Returns the expected speed-up, lower and upper end.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.expected_low.zip(self.expected_high)
    }

    /// Returns a step with a forecast, but without numbers if the gain is too small to promise, or if the range is so wide that it says little.
    ///
    /// If the scheduling made the work itself take more CPU time (threads took turns on CPUs, with one another or with other programs, or slept very
    /// often), the range has no bound: refilling caches, and the kernel's part of a switch, count as work, and less of them is left after the step (see
    /// [`TURNS_COST`] and [`WAKEUPS_COST`]).
    ///
    /// `without` says what must disappear to reach the upper
    /// bound of the speed-up, for example "any waiting for storage". The report shows it only if the bound is larger than the number of CPUs, because
    /// better use of the CPUs alone cannot give such a speed-up.
    pub(crate) fn expecting(
        evidence: &Evidence,
        action: impl Into<String>,
        expected: Expected,
        kind: Kind,
        without: &str,
    ) -> NextStep {
        let mut step = NextStep::plain(action, kind);
        let shrinks_by = kind.shrinks_by(evidence, expected.high());
        let range = shrinks_by.map_or(expected, |times| expected.stretched(times));
        if expected.is_worth_trying() && range.high() <= WIDEST_RANGE * range.low() {
            step.expected_low = Some(range.low());
            step.expected_high = Some(range.high());
            step.bound = shrinks_by.is_none().then(|| range.bound());
            step.bound_without = step.bound.filter(|bound| *bound > evidence.cpus).map(|_| without.to_owned());
        }
        step
    }

    /// Returns a step with a forecast as [`expecting`](NextStep::expecting) does; `None` if the gain is too small to promise.
    pub(crate) fn if_worth(
        evidence: &Evidence,
        action: impl Into<String>,
        expected: Expected,
        kind: Kind,
        without: &str,
    ) -> Option<NextStep> {
        expected.is_worth_trying().then(|| NextStep::expecting(evidence, action, expected, kind, without))
    }
}
