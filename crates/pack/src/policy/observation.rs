//! What is seen of threads.

/// A thread of the packed program, by the number it was given when it joined. Never reused.
pub type Member = usize;

/// A CPU of the pack, by its place in the pack's list.
pub type Slot = usize;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// On a CPU.
    Runs,
    /// It could run and has no CPU.
    Queued,
    /// It waits in the kernel, by its own doing.
    Blocked,
    /// It has ended.
    Ended,
}

/// What is seen of a thread at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// CPU time so far, ns.
    pub run_ns: u64,
    /// Times it has left its CPU by its own doing.
    pub blocks: u32,
    /// What it does.
    pub doing: Doing,
    /// Where in its code it was when it left its CPU last is a loop that waits for other threads.
    pub spins: bool,
    /// That loop gives the CPU away in every round, by sched_yield(2).
    pub yields: bool,
    /// The slot whose CPU it runs on, or did last; `None` outside the pack.
    pub at: Option<Slot>,
    /// When it left its CPU last, ns.
    pub out_ns: u64,
}

/// Whoever can see threads: sensors, or the simulator.
pub trait Sense {
    /// What is seen of a thread now. A thread that nobody can see has ended.
    fn observation(&self, member: Member) -> Observation;
}
