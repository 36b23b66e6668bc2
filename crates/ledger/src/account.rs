//! Accounts: where each thread's time went, added up per thread, process, program and CPU.
//!
//! These structs *are* the JSON of `cox run --json`: a field's name, unit and definition here is
//! what users read. Times are nanoseconds. `docs/figures.md` defines each one for people.

use std::borrow::Cow;
use std::collections::BTreeMap;

use litemap::LiteMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::beside::Beside;

/// A few amounts by name, ordered by name. A sorted vector: a tree's smallest node has room for eleven
/// entries, and three trees in each of 50,000 threads were most of what a report had to write.
pub type ByName = LiteMap<Cow<'static, str>, u64>;

/// Left to itself, an empty one becomes a JSON array: without a key it does not know what its keys are.
fn as_object<S: Serializer>(amounts: &ByName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(amounts.iter())
}

/// What a session measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// `bpf`, `perf` or `proc`; `perf-data`: a recording of perf's.
    pub backend: String,
    /// Length of the window: from the start of the session to its end.
    pub window_ns: u64,
    /// Scheduler events seen.
    pub events: u64,
    /// What was lost, by kind; all zero in a good session.
    pub lost: Lost,
    /// The observer's own cost.
    pub own_cost: OwnCost,
    /// One entry per program the session was asked to watch.
    pub programs: Vec<Program>,
    /// One entry per CPU; empty where the backend cannot see CPUs.
    pub cpus: Vec<CpuAccount>,
    /// Who ran while members waited for a CPU, largest first.
    pub took_cpu: Vec<TookCpu>,
    /// Hot user functions, largest first.
    pub hot: Vec<HotFunction>,
    /// What programs that ran side by side took from one another; absent where there was one.
    #[serde(default)]
    pub beside: Option<Beside>,
}

/// What could not be kept, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Scheduler events that were not handled.
    pub events: u64,
    /// Threads that could not be followed at all.
    pub members: u64,
    /// Threads whose final account found no room: their times are in `unlisted`.
    pub finals: u64,
    /// Samples of instruction pointers that found no room.
    pub samples: u64,
    /// Wake-ups whose waker found no room.
    pub pairs: u64,
    /// Thread-time behind strangers whose name found no room.
    pub takers_ns: u64,
    /// Updates of the idle split given up.
    pub idle_split: u64,
    /// Moments of a trace that found no room: the trace has gaps, the account has not.
    #[serde(default)]
    pub moments: u64,
}

impl Lost {
    /// Everything lost that is a count of events or records: the report's "N lost".
    pub fn total(&self) -> u64 {
        [self.events, self.members, self.finals, self.samples, self.pairs, self.idle_split, self.moments]
            .iter()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Whether some thread's times may be wrong or unlisted.
    pub fn spoil_accounts(&self) -> bool {
        self.events > 0 || self.members > 0 || self.finals > 0
    }
}

/// What observing cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCost {
    /// CPU time of cox itself.
    pub user_ns: u64,
    /// Time of the BPF programs, estimated from timed events; absent when it cannot be measured.
    pub kernel_ns: Option<u64>,
}

/// A program: what was launched or attached to, with everything it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Its command line, or what was attached to.
    pub command: Vec<String>,
    /// Exit code as a shell would see it; absent while it runs.
    pub exit_code: Option<i32>,
    /// From its start (or the attach) to its end (or the end of the window).
    pub wall_ns: u64,
    /// Its processes, in order of birth.
    pub processes: Vec<Process>,
    /// Sum of the threads whose final account found no room.
    pub unlisted: Option<Thread>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process that created it.
    pub parent_pid: u32,
    /// Last name of its main thread.
    pub comm: String,
    /// Exit code as a shell would see it; absent while it runs.
    pub exit_code: Option<i32>,
    /// Its threads, in order of birth.
    pub threads: Vec<Thread>,
}

/// A thread. `run + wake_delay + preempt_wait + blocked + unknown = wall`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id, as the namespace has it that cox ran in.
    pub tid: u32,
    /// Its id in the machine's first PID namespace, where that is another: cox ran in a container. Told by eBPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tid: Option<u32>,
    /// Its id for itself, where that is another: it is in a container inside. Told by eBPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_tid: Option<u32>,
    /// Last name.
    pub comm: String,
    /// When it was born or first seen, from the start of the window.
    pub born_ns: u64,
    /// From birth (or first seen) to its last switch-out (or the end of the window).
    pub wall_ns: u64,
    /// Whether it was still there at the end of the window.
    pub alive: bool,
    /// Whether it became another user, or got capabilities by exec, and was not observed from then on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_user: bool,
    /// Switch-in to switch-out.
    pub run_ns: u64,
    /// Part of run in which the hypervisor ran something else.
    pub steal_ns: u64,
    /// Part of run taken by interrupts, where the kernel accounts them.
    pub irq_ns: u64,
    /// Part of run spent waiting in a loop.
    pub spin_ns: u64,
    /// How `spin_ns` is known: `sampled`, `preload` or `none`.
    pub spin_basis: SpinBasis,
    /// One standard error of `spin_ns`.
    pub spin_error_ns: u64,
    /// Instruction pointers sampled on this thread.
    pub samples: u64,
    /// Waking to switch-in.
    pub wake_delay_ns: u64,
    /// Switched out runnable to switch-in.
    pub preempt_wait_ns: u64,
    /// Part of preempt wait that began in sched_yield.
    pub yield_wait_ns: u64,
    /// Switched out not runnable to waking.
    pub blocked_ns: u64,
    /// `blocked_ns` by cause.
    #[serde(serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub blocked_by: ByName,
    /// Before the first and after the last event, and where events contradict one another.
    pub unknown_ns: u64,
    /// Switches-out not runnable.
    pub switches_voluntary: u64,
    /// Switches-out runnable.
    pub switches_involuntary: u64,
    /// Ends of a block, and the first start.
    pub wakeups: u64,
    /// Migrations by kind: `at_wakeup`, `while_queued`, `by_affinity`.
    #[serde(serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub migrations: ByName,
    /// Run time by CPU; `other` for CPUs beyond the sixteen kept apart.
    #[serde(serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub cpus: ByName,
    /// Thread-time other members waited while this one held their CPU.
    pub took_ns: u64,
    /// The kernel's own CPU clock of this thread over the same span; absent when not read.
    pub kernel_cpu_ns: Option<u64>,
    /// The kernel's own run_delay over the same span; absent when not read.
    pub kernel_run_delay_ns: Option<u64>,
    /// Transitions that cannot follow one another.
    pub impossible: u64,
    /// Who ended this thread's blocks, largest time first, at most eight.
    pub woken_by: Vec<WokenBy>,
}

/// How spin time is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpinBasis {
    /// By sampling user instruction pointers.
    Sampled,
    /// By the preload library inside the program.
    Preload,
    /// Not seen.
    #[default]
    None,
}

/// A waker of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WokenBy {
    /// Thread id; 0: an interrupt, the idle task, or a thread outside the container that cox ran in.
    pub tid: u32,
    /// The machine's id of a thread outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tid: Option<u32>,
    /// Its name, when it is a member.
    pub comm: Option<String>,
    /// How often.
    pub count: u64,
    /// How long the thread had been blocked by then, summed.
    pub blocked_ns: u64,
}

/// A CPU over the window. `busy_program + busy_others + idle + unknown = window`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuAccount {
    /// Its number.
    pub cpu: u32,
    /// Ran members.
    pub busy_program_ns: u64,
    /// Ran anything else.
    pub busy_others_ns: u64,
    /// Ran the idle task.
    pub idle_ns: u64,
    /// Part of idle: while a member that was allowed here waited for a CPU.
    pub idle_while_waiting_ns: u64,
    /// Part of idle: none waited, and at least one member was off CPU.
    pub idle_while_blocked_ns: u64,
    /// Before the first event on this CPU.
    pub unknown_ns: u64,
}

/// Somebody who held a CPU that members waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TookCpu {
    /// Name.
    pub comm: String,
    /// Thread id of the one that took most under this name; 0 for `idle`, and outside the container that cox ran in.
    pub tid: u32,
    /// The machine's id of a thread outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_tid: Option<u32>,
    /// Threads under this name.
    pub threads: u64,
    /// `sibling`: a member; `other`: not; `idle`: the CPU was idle (waking up from idle).
    pub kind: TakerKind,
    /// Thread-time members waited on the CPU it held.
    pub wait_ns: u64,
}

/// Who a taker is to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakerKind {
    /// A member of the same session.
    Sibling,
    /// Anybody else.
    #[default]
    Other,
    /// Nobody: the CPU was idle.
    Idle,
}

/// A user function by sampled time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotFunction {
    /// File name of the mapping.
    pub module: String,
    /// Function, when the file names it.
    pub function: Option<String>,
    /// Run time estimated from samples, over all threads.
    pub run_ns: u64,
    /// Samples behind it.
    pub samples: u64,
    /// Why it counts as waiting for other threads; absent: work.
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
