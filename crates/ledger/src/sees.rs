//! What the backend of an account could see. Rules and reports ask this instead of the backend's name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Backend;

/// What could be seen in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sees {
    /// True if the causes of blocking are known.
    pub causes: bool,
    /// True if it is known which threads held the CPUs that tracked threads waited for, and what each CPU did.
    #[serde(alias = "takers")]
    pub preemptors: bool,
    /// Where wake delay is booked.
    pub delays: Delays,
    /// True if spinning was seen on at least one thread.
    pub spin: bool,
    /// True if it is known how many CPUs were busy with the program at the same time.
    #[serde(default)]
    pub busy_cpus: bool,
    /// True if the length of each interval is known: of each wake delay, preempt wait, block and time slice.
    #[serde(default)]
    pub latencies: bool,
    /// True if latency quantiles of each process and thread were requested (`--latency`).
    #[serde(default)]
    pub latencies_of_threads: bool,
    /// Why cox took no samples although the backend can; null if it took samples, or if the backend cannot.
    #[serde(default)]
    pub unsampled: Option<Unsampled>,
}

/// Why cox took no samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unsampled {
    /// Noise was measured (`--noise`): the timer that takes samples would be a part of it.
    Noise,
}

/// Where the time from a wake-up to the switch-in is booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delays {
    /// Wake delay is booked in `wake_delay_ns`, separate from all other time.
    Apart,
    /// Wake delay is part of the blocked time, because this backend does not see wake-ups.
    #[default]
    InBlocked,
    /// Wake delay is part of the preempt wait, because the kernel reports only the sum of the two (`run_delay`).
    InPreemptWait,
}

impl Sees {
    /// Returns what a backend can see. For a recording of perf, assumes that it contains all events. `spin` says whether spinning was seen on at
    /// least one thread. `latencies_of_threads` is false in the result, and `unsampled` null.
    pub fn of(backend: Backend, spin: bool) -> Sees {
        let traced = backend == Backend::Bpf;
        let delays = match backend {
            Backend::Bpf | Backend::PerfData => Delays::Apart,
            Backend::Perf => Delays::InBlocked,
            Backend::Proc => Delays::InPreemptWait,
        };
        let events = backend != Backend::Proc;
        Sees {
            causes: traced,
            preemptors: traced,
            delays,
            spin,
            busy_cpus: events,
            latencies: events,
            latencies_of_threads: false,
            unsampled: None,
        }
    }
}
