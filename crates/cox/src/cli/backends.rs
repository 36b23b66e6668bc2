//! Ways to observe, and to notice blocked threads, as they are named on the command line.

use clap::ValueEnum;

/// Which backend the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The best that works: bpf, then perf, then proc.
    #[default]
    Auto,
    /// eBPF on the scheduler's tracepoints: everything is seen.
    Bpf,
    /// perf context-switch records: no wake-ups, no causes.
    Perf,
    /// /proc, polled: sums only.
    Proc,
}

impl From<Backend> for observe::Choice {
    fn from(backend: Backend) -> observe::Choice {
        match backend {
            Backend::Auto => observe::Choice::Auto,
            Backend::Bpf => observe::Choice::Bpf,
            Backend::Perf => observe::Choice::Perf,
            Backend::Proc => observe::Choice::Proc,
        }
    }
}

/// How blocked threads are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OverlapBackend {
    /// The best that works
    #[default]
    Auto,
    /// eBPF rings a doorbell when a thread blocks while tasks are pending
    Bpf,
    /// The kernel's records of the program's own switches wake one of those that wait for work: without privileges
    Perf,
    /// A thread of the idle class on each CPU notices when nobody else wants it: without privileges
    StandbyIdle,
    /// One thread is woken at every switch and rings, as in the UMT paper: for comparison
    Leader,
    /// They are not: tasks are run by cox's runtime instead of libgomp's, and nothing more
    Off,
}

impl From<OverlapBackend> for overlap::Backend {
    fn from(backend: OverlapBackend) -> overlap::Backend {
        match backend {
            OverlapBackend::Auto => overlap::Backend::Auto,
            OverlapBackend::Bpf => overlap::Backend::Bpf,
            OverlapBackend::Perf => overlap::Backend::Perf,
            OverlapBackend::StandbyIdle => overlap::Backend::StandbyIdle,
            OverlapBackend::Leader => overlap::Backend::Leader,
            OverlapBackend::Off => overlap::Backend::Off,
        }
    }
}
