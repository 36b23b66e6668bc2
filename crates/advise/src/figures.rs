//! The figures a verdict may rest on. Each has one name, the one in `docs/figures.md`, and one value,
//! taken from the account or the facts; evidence is made from nothing else.

use ledger::summary::work_ns;

use crate::picture::Picture;
use crate::verdict::{Evidence, Sentence};

/// A figure of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Threads, over all processes.
    Threads,
    /// Threads that carry the program.
    CrewThreads,
    /// Σ wall of all threads.
    ThreadNs,
    /// Wall time of the longest program.
    WallNs,
    /// Σ work.
    WorkNs,
    /// Work of the thread that worked most.
    LargestWorkNs,
    /// Σ run.
    RunNs,
    /// Σ spin.
    SpinNs,
    /// Σ hypervisor steal.
    StealNs,
    /// Spin, yield wait and futex sleep together.
    WaitingForThreadsNs,
    /// Σ wake delay and preempt wait, without yields.
    WaitingForCpuNs,
    /// Σ wake delay.
    WakeDelayNs,
    /// Σ preempt wait.
    PreemptWaitNs,
    /// Σ yield wait.
    YieldWaitNs,
    /// Σ blocked.
    BlockedNs,
    /// Σ blocked by a cause.
    BlockedBy(&'static str),
    /// Σ unknown.
    UnknownNs,
    /// Thread-time waited behind siblings.
    TookSiblingNs,
    /// … behind others.
    TookOtherNs,
    /// … on idle CPUs.
    TookIdleNs,
    /// Idle time of all CPUs.
    CpuIdleNs,
    /// Idle time of all CPUs while an allowed member waited.
    CpuIdleWhileWaitingNs,
    /// Time all CPUs ran others.
    CpuBusyOthersNs,
    /// Scheduler events.
    Events,
    /// Events and records lost.
    LostEvents,
    /// How many CPUs the program may use.
    ProgramCpus,
    /// How many CPUs are online.
    OnlineCpus,
    /// The control group's quota in CPUs.
    CpuQuota,
    /// Throttled CPU time.
    ThrottledNs,
    /// Throttled periods.
    NrThrottled,
}

impl Figure {
    /// Every figure.
    pub fn all() -> Vec<Figure> {
        let mut all = vec![
            Figure::Threads,
            Figure::CrewThreads,
            Figure::ThreadNs,
            Figure::WallNs,
            Figure::WorkNs,
            Figure::LargestWorkNs,
            Figure::RunNs,
            Figure::SpinNs,
            Figure::StealNs,
            Figure::WaitingForThreadsNs,
            Figure::WaitingForCpuNs,
            Figure::WakeDelayNs,
            Figure::PreemptWaitNs,
            Figure::YieldWaitNs,
            Figure::BlockedNs,
            Figure::UnknownNs,
            Figure::TookSiblingNs,
            Figure::TookOtherNs,
            Figure::TookIdleNs,
            Figure::CpuIdleNs,
            Figure::CpuIdleWhileWaitingNs,
            Figure::CpuBusyOthersNs,
            Figure::Events,
            Figure::LostEvents,
            Figure::ProgramCpus,
            Figure::OnlineCpus,
            Figure::CpuQuota,
            Figure::ThrottledNs,
            Figure::NrThrottled,
        ];
        all.extend(wire::Cause::ALL.map(|cause| Figure::BlockedBy(cause.name())));
        all
    }

    /// Its name in evidence.
    pub fn name(self) -> String {
        let name = match self {
            Figure::Threads => "threads",
            Figure::CrewThreads => "crew_threads",
            Figure::ThreadNs => "thread_ns",
            Figure::WallNs => "wall_ns",
            Figure::WorkNs => "work_ns",
            Figure::LargestWorkNs => "largest_work_ns",
            Figure::RunNs => "run_ns",
            Figure::SpinNs => "spin_ns",
            Figure::StealNs => "steal_ns",
            Figure::WaitingForThreadsNs => "waiting_for_threads_ns",
            Figure::WaitingForCpuNs => "waiting_for_cpu_ns",
            Figure::WakeDelayNs => "wake_delay_ns",
            Figure::PreemptWaitNs => "preempt_wait_ns",
            Figure::YieldWaitNs => "yield_wait_ns",
            Figure::BlockedNs => "blocked_ns",
            Figure::BlockedBy(cause) => return format!("blocked_by.{cause}"),
            Figure::UnknownNs => "unknown_ns",
            Figure::TookSiblingNs => "took_cpu.sibling",
            Figure::TookOtherNs => "took_cpu.other",
            Figure::TookIdleNs => "took_cpu.idle",
            Figure::CpuIdleNs => "cpus.idle_ns",
            Figure::CpuIdleWhileWaitingNs => "cpus.idle_while_waiting_ns",
            Figure::CpuBusyOthersNs => "cpus.busy_others_ns",
            Figure::Events => "events",
            Figure::LostEvents => "lost_events",
            Figure::ProgramCpus => "facts.program_cpus",
            Figure::OnlineCpus => "facts.online_cpus",
            Figure::CpuQuota => "facts.cpu_quota",
            Figure::ThrottledNs => "facts.throttled_ns",
            Figure::NrThrottled => "facts.nr_throttled",
        };
        name.to_owned()
    }

    /// Its value.
    pub fn value(self, picture: &Picture) -> f64 {
        let (sums, account, facts) = (&picture.sums, picture.account, picture.facts);
        let cpus = |part: fn(&ledger::CpuAccount) -> u64| account.cpus.iter().map(part).fold(0, u64::saturating_add);
        let whole = match self {
            Figure::Threads => sums.threads,
            Figure::CrewThreads => picture.crew.len() as u64,
            Figure::ThreadNs => sums.wall_ns,
            Figure::WallNs => return picture.wall_ns,
            Figure::WorkNs => sums.work_ns,
            Figure::LargestWorkNs => picture.busiest().map_or(0, work_ns),
            Figure::RunNs => sums.run_ns,
            Figure::SpinNs => sums.spin_ns,
            Figure::StealNs => sums.steal_ns,
            Figure::WaitingForThreadsNs => sums.waiting_for_threads_ns(),
            Figure::WaitingForCpuNs => sums.waiting_for_cpu_ns(),
            Figure::WakeDelayNs => sums.wake_delay_ns,
            Figure::PreemptWaitNs => sums.preempt_wait_ns,
            Figure::YieldWaitNs => sums.yield_wait_ns,
            Figure::BlockedNs => sums.blocked_ns,
            Figure::BlockedBy(cause) => sums.cause_ns(cause),
            Figure::UnknownNs => sums.unknown_ns,
            Figure::TookSiblingNs => picture.behind.siblings_ns,
            Figure::TookOtherNs => picture.behind.others_ns,
            Figure::TookIdleNs => picture.behind.idle_ns,
            Figure::CpuIdleNs => cpus(|cpu| cpu.idle_ns),
            Figure::CpuIdleWhileWaitingNs => cpus(|cpu| cpu.idle_while_waiting_ns),
            Figure::CpuBusyOthersNs => cpus(|cpu| cpu.busy_others_ns),
            Figure::Events => account.events,
            Figure::LostEvents => account.lost.total(),
            Figure::ProgramCpus => facts.program_cpus().len() as u64,
            Figure::OnlineCpus => facts.online_cpus.len() as u64,
            Figure::CpuQuota => return facts.quota().unwrap_or(0.0),
            Figure::ThrottledNs => facts.throttled_ns,
            Figure::NrThrottled => facts.nr_throttled,
        };
        whole as f64
    }
}

/// A sentence with the figures it rests on, and no next step yet.
pub(crate) fn say(picture: &Picture, text: String, figures: &[Figure]) -> Sentence {
    let evidence = figures.iter().map(|figure| Evidence { figure: figure.name(), value: figure.value(picture) });
    Sentence { text, evidence: evidence.collect(), next: Vec::new() }
}
