//! Accounts: where each thread's time went, by thread, process, program and CPU.
//!
//! These structs *are* the JSON of `cox run --json`: users read the names, units and definitions of the fields. Times are in nanoseconds. The tables of
//! `docs/figures.md` are generated from these definitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Backend, Cause, Waiting};

use crate::co_run::CoRun;
use crate::figures;
use crate::figures::{ByCause, ByMigration, RunByCpu, Seen, Value};
use crate::latency::Latencies;
use crate::provenance::Provenance;
use crate::sees::Sees;

/// The result of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// `bpf`, `perf` or `proc`; `perf-data`: a recording of perf.
    #[schemars(with = "String")]
    pub backend: Backend,
    /// What the backend could see; absent in reports of older versions.
    #[serde(default)]
    pub sees: Option<Sees>,
    /// Where and when the account was measured, and of which program; absent in reports of older versions.
    #[serde(default)]
    pub provenance: Option<Provenance>,
    /// Length of the window: from the start of the session to its end.
    pub window_ns: u64,
    /// Number of scheduler events.
    pub events: u64,
    /// Losses, by kind; all zero if nothing was lost.
    pub lost: Lost,
    /// The overhead of observing.
    pub own_cost: OwnCost,
    /// One entry per observed program.
    pub programs: Vec<Program>,
    /// One entry per CPU; empty if the backend cannot see CPUs.
    pub cpus: Vec<CpuAccount>,
    /// Preemptors: the threads that held CPUs while tracked threads waited for them; longest wait first.
    #[serde(alias = "took_cpu")]
    pub preemptors: Vec<Preemptor>,
    /// Hot user functions, largest first.
    #[serde(alias = "hot")]
    pub hot_functions: Vec<HotFunction>,
    /// How co-run programs shared the CPUs, and how long they waited for one another; absent if there was only one program.
    #[serde(default, alias = "beside")]
    pub co_run: Option<CoRun>,
}

/// Losses of a session, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Number of scheduler events that were not handled.
    pub events: u64,
    /// Number of threads that could not be tracked at all.
    pub members: u64,
    /// Number of threads for whose final account there was no space: their times are in `unlisted`.
    pub finals: u64,
    /// Number of instruction-pointer samples for which there was no space.
    pub samples: u64,
    /// Number of wake-ups whose waker was not recorded, because there was no space.
    pub pairs: u64,
    /// Thread time of waits behind untracked threads whose names were not recorded, because there was no space.
    #[serde(alias = "takers_ns")]
    pub preemptors_ns: u64,
    /// Number of updates of `idle_while_waiting_ns` and `idle_while_blocked_ns` that were given up because CPUs contended for a counter, or that are
    /// inexact because threads had too many different affinity masks.
    pub idle_split: u64,
    /// Number of trace events for which there was no space: the trace has gaps, the account has none.
    #[serde(default, alias = "moments")]
    pub trace_events: u64,
}

impl Lost {
    /// Returns the number of lost events and records: the report's "N lost".
    pub fn total(&self) -> u64 {
        [self.events, self.members, self.finals, self.samples, self.pairs, self.idle_split, self.trace_events]
            .iter()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Returns whether, because of these losses, a thread's times may be wrong or a thread may have no entry.
    pub fn spoil_accounts(&self) -> bool {
        self.events > 0 || self.members > 0 || self.finals > 0
    }
}

/// Overhead of observing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCost {
    /// CPU time of cox itself.
    pub user_ns: u64,
    /// Time of the BPF programs, estimated from timed events; absent if it cannot be measured.
    pub kernel_ns: Option<u64>,
}

/// A program that was started or attached to, with all processes that it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Command line, or the target that was attached to.
    pub command: Vec<String>,
    /// Exit code as a shell shows it; absent while the program runs.
    pub exit_code: Option<i32>,
    /// Time from the start of the program (or attaching) to its end (or the end of the window).
    pub wall_ns: u64,
    /// Processes of the program, in order of creation.
    pub processes: Vec<Process>,
    /// Sum over the threads for whose final account there was no space.
    pub unlisted: Option<Thread>,
    /// Wall time in which 0, 1, 2, … CPUs were busy with the program's threads. Absent if that is not known, or if there are several programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus_ns: Option<Vec<u64>>,
    /// Quantiles of the interval lengths of all the program's threads. Absent if the backend does not see intervals, or if the memory for histograms
    /// was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Latencies>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process id of the creator.
    pub parent_pid: u32,
    /// Most recent name of the main thread.
    pub comm: String,
    /// Exit code as a shell shows it; absent while the process runs.
    pub exit_code: Option<i32>,
    /// The process's threads, in order of creation.
    pub threads: Vec<Thread>,
    /// With `--latency`: quantiles of the interval lengths of the process's threads, also of those that have ended. Threads without `latencies` of
    /// their own are not included; absent if no thread has `latencies`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Latencies>,
}

figures! {
    /// A thread. `run + wake_delay + preempt_wait + blocked + unknown = wall`.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Thread {
        /// Thread id in the PID namespace of cox.
        pub tid: u32,
        /// Thread id on the host, if it differs because cox ran in a container. Known to eBPF only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub host_tid: Option<u32>,
        /// Thread id in the thread's own PID namespace, if it differs because the thread is in an inner container. Known to eBPF only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub inner_tid: Option<u32>,
        /// Most recent name of the thread.
        pub comm: String,
        /// Time from the start of the window to the thread's creation, or to when it was first seen.
        pub born_ns: u64,
        /// True if the thread lived at the end of the window.
        pub alive: bool,
        /// True if cox stopped observing the thread, because it changed its user or got capabilities by exec.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub changed_user: bool,
        /// The threads that woke this thread when it was blocked, longest blocked time first; at most eight.
        pub woken_by: Vec<WokenBy>,
        /// With `--latency`: quantiles of the thread's interval lengths. Absent if the memory for histograms was full when the thread began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub latencies: Option<Box<Latencies>>,
    }
    figures of thread {
        /// Lifetime: from the thread's creation (fork or clone), or when it was first seen, to its last switch-out, or the end of the window.
        wall_ns: u64, sum, "wall", Seen::ALWAYS;
        /// Time on a CPU: from switch-in to switch-out.
        run_ns: u64, sum, "run", Seen { proc: "sum only", ..Seen::ALWAYS };
        /// The part of run time in which the hypervisor ran something else. The kernel's CPU clocks of threads do not include it.
        steal_ns: u64, sum, "hypervisor steal", Seen::BY_BPF;
        /// The part of run time taken by interrupts, if the kernel measures it.
        irq_ns: u64, sum, "interrupts", Seen::BY_BPF;
        /// The part of run time spent waiting in a loop: in OpenMP runtimes, MPI progress, pthread spin locks, loops that only test memory, sched_yield.
        spin_ns: u64, sum, "spin", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// Source of `spin_ns`: `sampled`, `preload`, or `none`. With `none`, spinning was not measured and counts as work.
        spin_basis: SpinBasis, best, "", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// Standard error of `spin_ns`. The report shows it in percentage points of thread time.
        spin_error_ns: u64, quadrature, "±", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// The part of run time spent in the kernel on synchronisation with other threads: in futex system calls, before the thread sleeps, after it is
        /// woken, and while it wakes others.
        #[serde(default)]
        kernel_sync_ns: u64, sum, "kernel-sync", Seen::BY_BPF;
        /// Standard error of `kernel_sync_ns`.
        #[serde(default)]
        kernel_sync_error_ns: u64, quadrature, "±", Seen::BY_BPF;
        /// The part of run time spent in the kernel, in system calls, page faults and some interrupts; it includes `kernel_sync_ns` and the spinning in sched_yield.
        #[serde(default)]
        kernel_ns: u64, sum, "in the kernel", Seen::BY_BPF;
        /// The part of run time that was serial work: in functions that only this thread ran, while no other thread of the program worked. It can be the
        /// initialisation before a team exists, code between parallel regions, or the output of one rank. Serial work in functions that other threads run,
        /// too, is not included. With several co-run programs it is not measured.
        #[serde(default)]
        serial_ns: u64, sum, "serial", Seen::BY_BPF;
        /// Standard error of `serial_ns`, as far as it comes from the number of samples. Where other threads ran beside it,
        /// whether they worked is known from rounds of samples; this has an error of its own, which is not included.
        #[serde(default)]
        serial_error_ns: u64, quadrature, "±", Seen::BY_BPF;
        /// Number of samples of the thread's user instruction pointer from which shares are computed. Samples that all CPUs take at the same time, a third, are
        /// not among them, unless those of the thread span less than 0.6 s.
        samples: u64, sum, "samples", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// Time from wake-up (sched_waking), or creation, to switch-in.
        wake_delay_ns: u64, sum, "wake-delay", Seen { bpf: "yes", perf: "in blocked", proc: "part of preempt wait" };
        /// Time from a switch-out while runnable to the next switch-in.
        preempt_wait_ns: u64, sum, "preempted", Seen { proc: "includes wake delay", ..Seen::ALWAYS };
        /// The part of preempt wait that began in sched_yield.
        yield_wait_ns: u64, sum, "after sched_yield", Seen::BY_BPF;
        /// Time from a switch-out while not runnable to the wake-up.
        blocked_ns: u64, sum, "blocked", Seen { bpf: "yes", perf: "includes wake delay", proc: "the rest" };
        /// `blocked_ns` by cause.
        blocked_by: ByCause, sum, "", Seen::BY_BPF;
        /// Time before the first and after the last event, and where events contradict one another.
        /// cox does not guess what the thread did in this time, and does not divide it among the other states.
        unknown_ns: u64, sum, "unknown", Seen::ALWAYS;
        /// Number of switch-outs while the thread was not runnable.
        switches_voluntary: u64, sum, "voluntary switches", Seen::ALWAYS;
        /// Number of switch-outs while the thread was runnable, including yields, as the kernel counts them.
        switches_involuntary: u64, sum, "involuntary switches", Seen::ALWAYS;
        /// Number of switch-ins after a block, plus the first switch-in after the thread's creation.
        wakeups: u64, sum, "wake-ups", Seen { perf: "after blocks", ..Seen::BY_BPF };
        /// Number of migrations, by kind.
        /// `at_wakeup`: the wake-up chose another CPU. `while_queued`: the load balancer moved a runnable thread.
        /// `by_affinity`: the thread's old CPU is no longer allowed.
        migrations: ByMigration, sum, "migr.", Seen::BY_BPF;
        /// Run time by CPU, for the first sixteen CPUs on which the thread ran; `other` is its run time on all further CPUs.
        cpus: RunByCpu, sum, "CPUs", Seen { proc: "no", ..Seen::ALWAYS };
        /// Thread time for which other threads of the program waited in the run queue of a CPU that this thread held.
        took_ns: u64, sum, "", Seen::BY_BPF;
        /// The kernel's count of the thread's CPU time, for the time that `wall_ns` covers; absent if it was not read.
        kernel_cpu_ns: Option<u64>, sum, "", Seen::ALWAYS;
        /// The kernel's count of the thread's run_delay, for the time that `wall_ns` covers; absent if it was not read.
        kernel_run_delay_ns: Option<u64>, sum, "", Seen::ALWAYS;
        /// Number of events that contradict other events.
        /// For example, a thread is switched in on a CPU that another thread has, or is switched out on a CPU on which it was not switched in.
        impossible: u64, sum, "contradictions", Seen { proc: "no", ..Seen::ALWAYS };
    }
    derived {
        /// Run time that was spent neither spinning nor on synchronisation in the kernel. Waiting for memory is work.
        work_ns, "work", Seen::ALWAYS, |thread| {
            thread.run_ns.saturating_sub(thread.spin_ns).saturating_sub(thread.kernel_sync_ns)
        };
        /// Waiting for other threads: spinning, the wait after sched_yield, sleeping on a futex, and what the kernel does for such a sleep.
        /// They are one class, because the runtime's waiting policy decides which of them occurs.
        waiting_for_threads_ns, "waited for other threads", Seen::BY_BPF, |thread| {
            let awake = thread.spin_ns.saturating_add(thread.kernel_sync_ns);
            awake.saturating_add(thread.yield_wait_ns).saturating_add(thread.blocked_by[Cause::Futex])
        };
        /// Waiting for a CPU after an involuntary preemption: preempt wait without the waits after sched_yield.
        preempted_ns, "preempted", Seen { proc: "includes wake delay", ..Seen::ALWAYS }, |thread| {
            thread.preempt_wait_ns.saturating_sub(thread.yield_wait_ns)
        };
        /// Waiting for a CPU: wake delay, and preempt wait without the waits after sched_yield.
        waiting_for_cpu_ns, "waited for a CPU", Seen { perf: "preempt wait", ..Seen::ALWAYS }, |thread| {
            thread.wake_delay_ns.saturating_add(thread.preempted_ns())
        };
    }
}

impl Thread {
    /// Returns the standard error of the thread's work, ns: the errors of the two parts of run time that are estimated from samples.
    pub fn work_error_ns(&self) -> f64 {
        (self.spin_error_ns as f64).hypot(self.kernel_sync_error_ns as f64)
    }
}

/// Source of the spin time. The variants are ordered from the worst source to the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpinBasis {
    /// Not measured: spinning counts as work.
    #[default]
    None,
    /// Spin time was computed from samples of user instruction pointers.
    Sampled,
    /// The preload library inside the program reported the spin time.
    Preload,
}

impl Value for SpinBasis {
    fn number(&self) -> Option<u64> {
        None
    }
}

/// A waker of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WokenBy {
    /// Thread id; 0 for an interrupt, the idle task, or a thread outside the container of cox.
    pub tid: u32,
    /// Thread id on the host, for a thread outside the container of cox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tid: Option<u32>,
    /// Name of the thread, if it is tracked.
    pub comm: Option<String>,
    /// How often the waker woke the blocked thread.
    pub count: u64,
    /// Total time for which the thread was blocked before these wake-ups.
    pub blocked_ns: u64,
}

figures! {
    /// Times of a CPU over the window. `busy_program + busy_others + idle + unknown = window`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct CpuAccount {
        /// Number of the CPU.
        pub cpu: u32,
    }
    figures of cpu {
        /// Time in which the CPU ran threads of the program.
        busy_program_ns: u64, sum, "busy ours", Seen::BY_BPF;
        /// Time in which the CPU ran other threads, including threads of the kernel.
        busy_others_ns: u64, sum, "others", Seen::BY_BPF;
        /// Time in which the CPU ran the idle task.
        idle_ns: u64, sum, "idle", Seen::BY_BPF;
        /// The part of idle time in which a thread of the program waited for a CPU although it may use this one.
        idle_while_waiting_ns: u64, sum, "idle/waited", Seen::BY_BPF;
        /// The part of idle time, outside `idle_while_waiting_ns`, in which at least one thread of the program was not on a CPU.
        idle_while_blocked_ns: u64, sum, "idle/blocked", Seen::BY_BPF;
        /// Time before the first event on this CPU.
        unknown_ns: u64, sum, "not seen", Seen::BY_BPF;
    }
    derived {
        /// Known time: the CPU was busy or idle.
        known_ns, "", Seen::BY_BPF, |cpu| {
            cpu.busy_program_ns.saturating_add(cpu.busy_others_ns).saturating_add(cpu.idle_ns)
        };
    }
}

/// A preemptor: a thread, or threads of one name, that held a CPU for which tracked threads waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preemptor {
    /// Name of the threads.
    pub comm: String,
    /// Id of the thread of this name for which tracked threads waited longest; 0 for `idle`, and for a thread outside the container of cox.
    pub tid: u32,
    /// Thread id on the host, for a thread outside the container of cox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tid: Option<u32>,
    /// Number of threads under this name.
    pub threads: u64,
    /// `sibling`: a tracked thread; `cox`: a thread of cox itself; `other`: any other thread; `idle`: the CPU was idle (leaving its idle state).
    pub kind: PreemptorKind,
    /// Thread time for which tracked threads waited for CPUs that the preemptor held.
    pub wait_ns: u64,
}

/// Kind of a preemptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptorKind {
    /// A tracked thread of the same session.
    Sibling,
    /// A thread of cox itself, which observes or packs.
    Cox,
    /// Any other thread.
    #[default]
    Other,
    /// No thread: the CPU was idle.
    Idle,
}

/// A user function with its sampled time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotFunction {
    /// File name of the mapping.
    pub module: String,
    /// Name of the function, if the file has a symbol for it.
    pub function: Option<String>,
    /// Run time estimated from samples, over all threads.
    pub run_ns: u64,
    /// The part of `run_ns` that was serial work: no other thread ran the function, or worked at the same time.
    #[serde(default)]
    pub serial_ns: u64,
    /// Number of samples in the function.
    pub samples: u64,
    /// Why the function counts as waiting for other threads; absent for work.
    pub waiting: Option<String>,
}

impl HotFunction {
    /// Returns whether the function's time is part of a figure of spinning.
    pub fn is_spinning(&self) -> bool {
        self.waiting.as_deref().is_some_and(|waiting| waiting != Waiting::Futex.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_claim_that_more_was_lost_than_can_be_counted() {
        let lost = Lost { events: u64::MAX, members: 5, trace_events: u64::MAX, ..Lost::default() };
        assert_eq!(lost.total(), u64::MAX);
    }
}
