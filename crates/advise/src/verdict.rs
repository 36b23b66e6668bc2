//! The verdict: what the report and the JSON show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::expected::Expected;

/// What cost a program its time, and what to try next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The situation that costs most.
    pub headline: Kind,
    /// How sure the headline is.
    pub confidence: Confidence,
    /// Three to six sentences, most important first; fewer when there is nothing to say.
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
    /// Threads wait for one that has more work.
    Imbalance,
    /// Another program takes the CPUs.
    CpuHog,
    /// Threads wait for storage.
    DiskBound,
    /// Threads queue for a lock.
    LockConvoy,
    /// The program may use fewer CPUs than it needs and the machine has.
    PinnedTooFew,
    /// The control group's CPU quota stops the program.
    QuotaThrottled,
    /// Threads wait for pages to be read in.
    PageFaults,
    /// Threads wait for sockets.
    NetworkBound,
    /// Threads wait for file locks.
    FileLock,
    /// Threads wait for one another, for a reason that is not seen.
    WaitingForThreads,
    /// Threads sleep so briefly that waking up costs more than the wait.
    SlowWakeups,
    /// The hypervisor gives the CPUs to other machines.
    HypervisorSteal,
    /// The program waits for input: pipes, poll.
    WaitingForInput,
    /// The program waits for child processes that are not part of the account.
    ChildWait,
    /// The program sleeps by its own wish.
    Sleeping,
    /// Threads were blocked, and why is not seen.
    Blocked,
    /// Nothing that scheduling or waiting could give back.
    NothingToGain,
    /// Too short, or too much lost, to judge.
    TooLittleEvidence,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 20] = [
        Kind::TooManyThreadsSpinning,
        Kind::TooManyThreadsSleeping,
        Kind::Imbalance,
        Kind::CpuHog,
        Kind::DiskBound,
        Kind::LockConvoy,
        Kind::PinnedTooFew,
        Kind::QuotaThrottled,
        Kind::PageFaults,
        Kind::NetworkBound,
        Kind::FileLock,
        Kind::WaitingForThreads,
        Kind::SlowWakeups,
        Kind::HypervisorSteal,
        Kind::WaitingForInput,
        Kind::ChildWait,
        Kind::Sleeping,
        Kind::Blocked,
        Kind::NothingToGain,
        Kind::TooLittleEvidence,
    ];

    /// The name in JSON, and of the page in docs/advice that explains it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::TooManyThreadsSpinning => "too_many_threads_spinning",
            Kind::TooManyThreadsSleeping => "too_many_threads_sleeping",
            Kind::Imbalance => "imbalance",
            Kind::CpuHog => "cpu_hog",
            Kind::DiskBound => "disk_bound",
            Kind::LockConvoy => "lock_convoy",
            Kind::PinnedTooFew => "pinned_too_few",
            Kind::QuotaThrottled => "quota_throttled",
            Kind::PageFaults => "page_faults",
            Kind::NetworkBound => "network_bound",
            Kind::FileLock => "file_lock",
            Kind::WaitingForThreads => "waiting_for_threads",
            Kind::SlowWakeups => "slow_wakeups",
            Kind::HypervisorSteal => "hypervisor_steal",
            Kind::WaitingForInput => "waiting_for_input",
            Kind::ChildWait => "child_wait",
            Kind::Sleeping => "sleeping",
            Kind::Blocked => "blocked",
            Kind::NothingToGain => "nothing_to_gain",
            Kind::TooLittleEvidence => "too_little_evidence",
        }
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// One reading of several.
    Low,
    /// The best reading, with something unseen or estimated.
    Medium,
    /// Every part of it was measured.
    High,
}

impl Confidence {
    /// One step less.
    pub fn lowered(self) -> Confidence {
        match self {
            Confidence::High => Confidence::Medium,
            _ => Confidence::Low,
        }
    }
}

/// One statement with what it rests on and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sentence {
    /// Plain English with its number inside.
    pub text: String,
    /// The figures it rests on.
    pub evidence: Vec<Evidence>,
    /// What to try, best first.
    pub next: Vec<NextStep>,
}

/// A figure of the same report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Its name, as in `docs/figures.md`.
    pub figure: String,
    /// Its value, in the unit of its name.
    #[serde(serialize_with = "whole_without_fraction")]
    pub value: f64,
}

/// Nearly all figures are counts of something: `16120000000`, not `16120000000.0`.
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
    /// A command, a setting, or what to change.
    pub action: String,
    /// At least this factor faster is to be expected; absent when no number can be given.
    pub expected_low: Option<f64>,
    /// At most this factor faster is to be expected.
    pub expected_high: Option<f64>,
    /// No way of removing this loss can give more than this factor.
    pub bound: Option<f64>,
    /// What would have to go away for the bound to be reached, as in "bound 9× without any waiting for storage"; named
    /// where the bound is larger than the number of CPUs that the program may use.
    #[serde(default)]
    pub bound_without: Option<String>,
    /// The topic that explains it, for `cox explain`: the name of a page in docs/advice.
    pub topic: String,
}

impl NextStep {
    /// A step without a forecast.
    pub fn plain(action: impl Into<String>, kind: Kind) -> NextStep {
        NextStep {
            action: action.into(),
            expected_low: None,
            expected_high: None,
            bound: None,
            bound_without: None,
            topic: kind.name().to_owned(),
        }
    }

    /// A step with what to expect of it; without a number when that is too little to promise.
    pub fn expecting(action: impl Into<String>, expected: &Expected, kind: Kind) -> NextStep {
        let mut step = NextStep::plain(action, kind);
        if expected.is_worth_trying() {
            step.expected_low = Some(expected.low());
            step.expected_high = Some(expected.high());
            step.bound = Some(expected.bound());
        }
        step
    }

    /// Names what would have to go away for the bound to be reached, if there is one beyond a factor of `cpus`:
    /// that much more than all CPUs used fully for the work there is.
    pub(crate) fn without(mut self, what: &str, cpus: f64) -> NextStep {
        self.bound_without = self.bound.filter(|bound| *bound > cpus).map(|_| what.to_owned());
        self
    }
}
