//! Accounts: where each thread's time went, by thread, process, program and CPU.
//!
//! These structs *are* the JSON of `cox run --json`: users read the names, units and definitions of the fields. Times are in nanoseconds. The tables of
//! `docs/figures.md` are generated from these definitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Backend, Cause};

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
    /// Where, when and of which program it was measured; absent in reports of older versions.
    #[serde(default)]
    pub provenance: Option<Provenance>,
    /// Length of the window: from the start of the session to its end.
    pub window_ns: u64,
    /// Number of scheduler events.
    pub events: u64,
    /// What was lost, by kind; all zero if nothing was.
    pub lost: Lost,
    /// The overhead of observing.
    pub own_cost: OwnCost,
    /// One entry per observed program.
    pub programs: Vec<Program>,
    /// One entry per CPU; empty if the backend cannot see CPUs.
    pub cpus: Vec<CpuAccount>,
    /// Preemptors: what ran on CPUs for which tracked threads waited, largest first.
    #[serde(alias = "took_cpu")]
    pub preemptors: Vec<Preemptor>,
    /// Hot user functions, largest first.
    #[serde(alias = "hot")]
    pub hot_functions: Vec<HotFunction>,
    /// What co-run programs took from one another; absent if there was one program.
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
    /// Number of wake-ups for whose waker there was no space.
    pub pairs: u64,
    /// Thread time waited behind untracked threads for whose name there was no space.
    #[serde(alias = "takers_ns")]
    pub preemptors_ns: u64,
    /// Number of abandoned updates of the division of idle time.
    pub idle_split: u64,
    /// Number of trace events for which there was no space: the trace has gaps, the account has none.
    #[serde(default)]
    pub moments: u64,
}

impl Lost {
    /// Returns the number of lost events and records: the report's "N lost".
    pub fn total(&self) -> u64 {
        [self.events, self.members, self.finals, self.samples, self.pairs, self.idle_split, self.moments]
            .iter()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Returns whether the times of a thread may be wrong or unlisted.
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
    /// Sum of the threads whose final account found no room.
    pub unlisted: Option<Thread>,
    /// Wall time in which 0, 1, 2, … CPUs were busy with the program's threads. Absent if that is not known, or if there are several programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus_ns: Option<Vec<u64>>,
    /// How long single waits and slices of all its threads took; absent where they are not seen.
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
    /// Last name of the main thread.
    pub comm: String,
    /// Exit code as a shell shows it; absent while the process runs.
    pub exit_code: Option<i32>,
    /// Its threads, in order of birth.
    pub threads: Vec<Thread>,
    /// With `--latency`: how long single waits and slices of its threads took, those that have ended too; without threads that have no `latencies`.
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
        /// Last name of the thread.
        pub comm: String,
        /// Time of the thread's creation, or when it was first seen, from the start of the window.
        pub born_ns: u64,
        /// True if the thread lived at the end of the window.
        pub alive: bool,
        /// True if the thread changed its user, or got capabilities by exec, and was not observed any more.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub changed_user: bool,
        /// Who ended this thread's blocks, largest time first, at most eight.
        pub woken_by: Vec<WokenBy>,
        /// With `--latency`: how long its single waits and slices took; absent for threads beyond the memory for histograms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub latencies: Option<Box<Latencies>>,
    }
    figures of thread {
        /// From its creation (fork or clone), or the time it was first seen, to its last switch-out, or the end of the window.
        wall_ns: u64, sum, "wall", Seen::ALWAYS;
        /// From switch-in to switch-out.
        run_ns: u64, sum, "run", Seen { proc: "sum only", ..Seen::ALWAYS };
        /// The part of run time in which the hypervisor ran something else. Thread CPU clocks leave it out, run time does not.
        steal_ns: u64, sum, "hypervisor steal", Seen::BY_BPF;
        /// The part of run time taken by interrupts, where the kernel accounts them.
        irq_ns: u64, sum, "interrupts", Seen::BY_BPF;
        /// The part of run time spent waiting in a loop: in OpenMP runtimes, MPI progress, pthread spin locks, loops that only test memory, sched_yield.
        spin_ns: u64, sum, "spin", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// How `spin_ns` is known: `sampled`, `preload`, or `none`: not measured, so spinning counts as work.
        spin_basis: SpinBasis, best, "", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// One standard error of `spin_ns`; in the report, in points of a percent of thread time.
        spin_error_ns: u64, quadrature, "±", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// User instruction pointers sampled on the thread.
        samples: u64, sum, "samples", Seen { perf: "where permitted", ..Seen::BY_BPF };
        /// From wake-up (sched_waking), or creation, to switch-in.
        wake_delay_ns: u64, sum, "wake-delay", Seen { bpf: "yes", perf: "in blocked", proc: "in preempt wait" };
        /// From a switch-out while runnable to the next switch-in.
        preempt_wait_ns: u64, sum, "preempted", Seen { proc: "with wake delay", ..Seen::ALWAYS };
        /// The part of preempt wait that began in sched_yield.
        yield_wait_ns: u64, sum, "after sched_yield", Seen::BY_BPF;
        /// From a switch-out while not runnable to the wake-up.
        blocked_ns: u64, sum, "blocked", Seen { bpf: "yes", perf: "up to switch-in", proc: "the rest" };
        /// `blocked_ns` by cause.
        blocked_by: ByCause, sum, "", Seen::BY_BPF;
        /// Before the first and after the last event, and where events contradict one another. It is never guessed and never divided among the others.
        unknown_ns: u64, sum, "unknown", Seen::ALWAYS;
        /// Switches-out not runnable.
        switches_voluntary: u64, sum, "voluntary switches", Seen::ALWAYS;
        /// Switches-out runnable, yields included, as the kernel counts them.
        switches_involuntary: u64, sum, "involuntary switches", Seen::ALWAYS;
        /// Ends of blocks, and the first start.
        wakeups: u64, sum, "wake-ups", Seen { perf: "ends of a block", ..Seen::BY_BPF };
        /// Switches-in on another CPU than before, by kind: `at_wakeup`, the wake-up chose another CPU; `while_queued`, the load balancer moved
        /// a runnable thread; `by_affinity`, the CPU it was on is no longer allowed.
        migrations: ByMigration, sum, "migr.", Seen::BY_BPF;
        /// Run time by CPU; `other` for CPUs beyond the sixteen kept apart.
        cpus: RunByCpu, sum, "CPUs", Seen { proc: "no", ..Seen::ALWAYS };
        /// Thread time for which other threads of the program waited while this one held their CPU.
        took_ns: u64, sum, "", Seen::BY_BPF;
        /// The kernel's own CPU clock of this thread over the same span; absent when not read.
        kernel_cpu_ns: Option<u64>, sum, "", Seen::ALWAYS;
        /// The kernel's own run_delay over the same span; absent when not read.
        kernel_run_delay_ns: Option<u64>, sum, "", Seen::ALWAYS;
        /// Events that contradict others: a thread comes to a CPU that another one has, leaves one that it did not come to, and the like.
        impossible: u64, sum, "contradictions", Seen { proc: "no", ..Seen::ALWAYS };
    }
    derived {
        /// Run time that was not spent spinning. Waiting for memory is work.
        work_ns, "work", Seen::ALWAYS, |thread| thread.run_ns.saturating_sub(thread.spin_ns);
        /// Waiting for other threads: spinning, the wait after sched_yield, sleeping on a futex. One class, because a runtime's
        /// waiting policy decides which of the three it is.
        waiting_for_threads_ns, "waited for other threads", Seen::BY_BPF, |thread| {
            thread.spin_ns.saturating_add(thread.yield_wait_ns).saturating_add(thread.blocked_by[Cause::Futex])
        };
        /// Preempted against its will: preempt wait without what began in sched_yield.
        preempted_ns, "preempted", Seen { proc: "with wake delay", ..Seen::ALWAYS }, |thread| {
            thread.preempt_wait_ns.saturating_sub(thread.yield_wait_ns)
        };
        /// Waiting for a CPU: wake delay, and preempt wait without what began in sched_yield.
        waiting_for_cpu_ns, "waited for a CPU", Seen { perf: "preempt wait", ..Seen::ALWAYS }, |thread| {
            thread.wake_delay_ns.saturating_add(thread.preempted_ns())
        };
    }
}

/// How spin time is known, from worst to best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpinBasis {
    /// Spinning was not seen.
    #[default]
    None,
    /// From samples of user instruction pointers.
    Sampled,
    /// From the preload library inside the program.
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
    /// Number of blocks that it ended.
    pub count: u64,
    /// Sum of the lengths of these blocks.
    pub blocked_ns: u64,
}

figures! {
    /// A CPU over the window. `busy_program + busy_others + idle + unknown = window`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct CpuAccount {
        /// Number of the CPU.
        pub cpu: u32,
    }
    figures of cpu {
        /// Ran threads of the program.
        busy_program_ns: u64, sum, "busy ours", Seen::BY_BPF;
        /// Ran any other thread, also of the kernel.
        busy_others_ns: u64, sum, "others", Seen::BY_BPF;
        /// Ran the idle task.
        idle_ns: u64, sum, "idle", Seen::BY_BPF;
        /// The part of idle in which a thread of the program that may use this CPU waited for a CPU.
        idle_while_waiting_ns: u64, sum, "idle/waited", Seen::BY_BPF;
        /// The part of idle in which no thread of the program waited for a CPU, and at least one was off CPU.
        idle_while_blocked_ns: u64, sum, "idle/blocked", Seen::BY_BPF;
        /// Before the first event on this CPU.
        unknown_ns: u64, sum, "not seen", Seen::BY_BPF;
    }
    derived {
        /// What is known of it: busy with anything, or idle.
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
    /// Id of the thread that took most under this name; 0 for `idle`, and for a thread outside the container of cox.
    pub tid: u32,
    /// Thread id on the host, for a thread outside the container of cox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tid: Option<u32>,
    /// Number of threads under this name.
    pub threads: u64,
    /// `sibling`: a tracked thread; `other`: an untracked thread; `idle`: the CPU was idle (leaving its idle state).
    pub kind: PreemptorKind,
    /// Thread time that tracked threads waited for the CPU it held.
    pub wait_ns: u64,
}

/// Kind of a preemptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptorKind {
    /// A tracked thread of the same session.
    Sibling,
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
    /// Name of the function, if the file contains it.
    pub function: Option<String>,
    /// Run time estimated from samples, over all threads.
    pub run_ns: u64,
    /// Number of samples in the function.
    pub samples: u64,
    /// Why the function counts as waiting for other threads; absent for work.
    pub waiting: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_claim_that_more_was_lost_than_can_be_counted() {
        let lost = Lost { events: u64::MAX, members: 5, moments: u64::MAX, ..Lost::default() };
        assert_eq!(lost.total(), u64::MAX);
    }
}
