//! What an account can tell. Rules and reports ask this, and not which backend observed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Backend;

use crate::account::{Account, SpinBasis, Thread};
use crate::summary::threads;

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
    /// What a backend sees, of these threads.
    pub fn of<'a>(backend: Backend, threads: impl IntoIterator<Item = &'a Thread>) -> Sees {
        let spin = threads.into_iter().any(|thread| thread.spin_basis != SpinBasis::None);
        let traced = backend == Backend::Bpf;
        let delays = match backend {
            Backend::Bpf | Backend::PerfData => Delays::Apart,
            Backend::Perf => Delays::InBlocked,
            Backend::Proc => Delays::InPreemptWait,
        };
        Sees { causes: traced, takers: traced, delays, spin }
    }
}

impl Account {
    /// What could be seen. Reports of older versions do not say it themselves: there it follows from the backend.
    pub fn sees(&self) -> Sees {
        self.sees.unwrap_or_else(|| Sees::of(self.backend, threads(self)))
    }
}
