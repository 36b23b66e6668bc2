//! The state of a thread, as cox observes it in a running program or as the simulator reports it.

/// The number of a thread of the packed program, given when it joins. Numbers are never reused.
pub type Member = usize;

/// A CPU slot: the index of a CPU in the list of the pack's CPUs (those that the packed program may use).
pub type Slot = usize;

/// The scheduling state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// The thread is on a CPU.
    Runs,
    /// The thread is runnable and waits for a CPU.
    #[default]
    Queued,
    /// The thread is blocked in the kernel.
    Blocked,
    /// The thread has ended.
    Ended,
}

/// What is known about a thread at one time, from cox's observation or from the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// CPU time so far, ns.
    pub run_ns: u64,
    /// Voluntary switches: how often the thread has blocked.
    pub blocks: u32,
    /// How many barriers the thread has passed; 0 if no preload library counts them.
    pub meets: u64,
    /// The thread's scheduling state.
    pub doing: Doing,
    /// True if the thread was spinning, waiting for other threads in a loop, when it was switched out last.
    pub spins: bool,
    /// True if the spin loop (see `spins`) calls sched_yield(2) in every iteration.
    pub yields: bool,
    /// The slot whose CPU the thread runs on or ran on last; `None` if that CPU is outside the pack.
    pub at: Option<Slot>,
    /// When the thread was switched out last, ns.
    pub out_ns: u64,
}

/// A source of observations of threads: cox's observation of a running program, or the simulator.
pub trait Sense {
    /// Returns what is known about a thread now. A thread that cannot be observed any more counts as ended.
    fn observation(&self, member: Member) -> Observation;
}
