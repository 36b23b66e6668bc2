//! The packing policy: pure functions that turn observations of threads into orders (changes of affinity masks). The
//! policy reads no clock and makes no system call, so the same code controls threads live and in the simulator.
//!
//! Terms:
//!
//! - **pack**: the CPUs that a packed program may use.
//! - **CPU slot**: one CPU of the pack. Every thread is assigned to one slot, and the kernel shares the CPU among the
//!   slot's threads.
//! - **member**: a thread of the packed program.
//! - **co-runners**: the threads that share a slot.
//! - **period**: the time between two decisions on a slot. Its end is a **tick**: cox's ticker thread preempts the
//!   running thread, and the policy decides.
//! - **window**: the time between two decisions of the mode, in which observations are summed.
//! - **assignment**: which thread has which slot.
//! - **mode**: what cox does now. *Rest*: the kernel places the threads, and cox takes no samples. *Measure*: the
//!   kernel places them, and cox takes samples. *Rotate*: cox changes the assignment at the ends of periods.
//! - **observation**: the state of a thread at one time, as cox or the simulator observes it.
//! - **order**: the policy's decision on one thread: bind it to the CPU of a slot, or let the kernel place it in the
//!   pack.
//!
//! Modules:
//!
//! - [`capacity`]: how many threads each group of CPUs should have.
//! - [`assignment`]: which threads a slot has after the end of its period.
//! - [`profile`]: whether a program that is not packed is worth measuring.
//! - [`mode`]: whether rotation is worth it, and how long a period should be.
//! - [`observation`], [`seen`]: observations of single threads, and their sums over a window.
//! - [`controller`]: combines assignment and mode; the interface for live use and for the simulator.

pub mod assignment;
pub mod capacity;
pub mod controller;
pub mod mode;
pub mod observation;
pub mod profile;
pub mod seen;

pub use self::observation::{Doing, Member, Observation, Sense, Slot};
use self::seen::Seen;

/// A rule that assigns threads to CPU slots while threads are rotated.
pub trait Arrange: std::fmt::Debug + Send {
    /// Adds a thread and returns its number. Threads are numbered in the order in which they are added.
    fn join(&mut self, observation: &Observation) -> Member;
    /// Removes a thread that has ended.
    fn leave(&mut self, member: Member);
    /// Assigns a CPU slot to a thread that was added while threads are rotated. Adds the decision to `orders`.
    fn admit(&mut self, member: Member, now_ns: u64, orders: &mut Vec<Order>);
    /// Begins rotation: assigns a CPU slot to every thread, and adds these decisions to `orders`.
    fn begin(&mut self, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>);
    /// Ends a scheduling period on the CPU of `slot`. May assign threads of this and other slots anew; adds these
    /// decisions to `orders`.
    fn end_period(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>);
    /// Ends rotation: the kernel places all threads from now on.
    fn end(&mut self, now_ns: u64, orders: &mut Vec<Order>);
    /// Sets the length of the scheduling periods from now on, ns.
    fn set_period(&mut self, period_ns: u64);
    /// Returns for how long, from now on, a CPU can keep its threads without a new decision, ns; 0 if unknown.
    fn calm_ns(&self, now_ns: u64) -> u64;
    /// Returns the length of a phase, the time from one barrier to the next, ns. `None` unless the last phases were
    /// about equally long.
    fn phase_ns(&self) -> Option<u64>;
    /// Returns the sums of what was observed on the pack's CPUs. The caller may add samples to them, or reset them.
    fn seen(&mut self) -> &mut Seen;
}

/// The policy's decision on one thread, which changes the thread's affinity mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The thread.
    pub member: Member,
    /// The CPU slot that the thread is bound to, and the reason for the log. `None`: the thread may run on all CPUs of
    /// the pack, and the kernel chooses.
    pub to: Option<(Slot, Why)>,
}

impl Order {
    /// Returns the CPU slot that the thread is bound to; `None` if it may use all CPUs of the pack.
    #[must_use]
    pub fn place(&self) -> Option<Slot> {
        self.to.map(|(slot, _)| slot)
    }
}

/// The reason why a thread gets another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All threads were assigned anew at the same time. The policy in [`assignment`] never does this; only rules that
    /// benchmarks compare with it do.
    Rules,
    /// The threads of two CPUs were divided anew between these CPUs because their progress was unequal: the most served
    /// thread was this far ahead of the least served one, ns.
    Behind(u64),
    /// The threads of two CPUs were divided anew between these CPUs because a thread spins (waits for other threads in
    /// a loop).
    Spins,
    /// The threads of two CPUs were divided anew between these CPUs because one of them had no runnable thread.
    SlotFree,
    /// The thread has just joined.
    Joined,
    /// Rotation begins.
    Start,
    /// Rotation ends: the policy spreads the threads evenly over the CPUs, and then the kernel places them.
    End,
}
