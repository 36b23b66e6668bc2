//! What an account can tell. Rules and reports ask this, and not which backend observed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Backend;

/// What could be seen of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sees {
    /// Why threads blocked.
    pub causes: bool,
    /// Who held the CPUs that members waited for, and what the CPUs did.
    pub takers: bool,
    /// Where wake delay is.
    pub delays: Delays,
    /// Spinning, on at least one thread.
    pub spin: bool,
}

/// Where the time from a wake-up to the switch-in is booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delays {
    /// In `wake_delay_ns`.
    Apart,
    /// In blocked time: wake-ups are not seen.
    #[default]
    InBlocked,
    /// In preempt wait: the kernel's `run_delay` is the sum of both.
    InPreemptWait,
}

impl Sees {
    /// What a backend sees; `spin`: whether spinning was seen on at least one thread.
    pub fn of(backend: Backend, spin: bool) -> Sees {
        let traced = backend == Backend::Bpf;
        let delays = match backend {
            Backend::Bpf | Backend::PerfData => Delays::Apart,
            Backend::Perf => Delays::InBlocked,
            Backend::Proc => Delays::InPreemptWait,
        };
        Sees { causes: traced, takers: traced, delays, spin }
    }
}
