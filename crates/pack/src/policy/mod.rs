//! The packing policy: pure functions from observations to orders. The policy reads no clock and makes no system
//! call, so the same code controls threads live and in the simulator.
//!
//! Terms:
//!
//! - **pack**: the CPUs that a packed program may use.
//! - **CPU slot**: one CPU of the pack. Every thread is assigned to one slot, and the kernel shares the CPU among the
//!   slot's threads.
//! - **member**: a thread of the packed program.
//! - **co-runners**: the threads that share a slot.
//! - **period**: the time between two decisions on a slot.
//! - **assignment**: which thread has which slot.
//! - **mode**: rest, measure or rotate. To *rotate* is to change the assignment at the end of periods.
//! - **observation**: what the sensors know about a thread at one time.
//! - **order**: the policy's decision on one thread: bind it to the CPU of a slot, or let the kernel place it in the
//!   pack.
//!
//! Modules:
//!
//! - [`capacity`]: how many threads each group of CPUs should have.
//! - [`assignment`]: which threads a slot has after the end of its period.
//! - [`mode`]: whether rotation is worth it, and how long a period should be.
//! - [`observation`], [`seen`]: observations of single threads, and their sums over a window.
//! - [`controller`]: combines assignment and mode; the interface for live use and for the simulator.

pub mod assignment;
pub mod capacity;
pub mod controller;
pub mod mode;
pub mod observation;
pub mod seen;

pub use self::observation::{Doing, Member, Observation, Sense, Slot};
use self::seen::Seen;

/// A rule that assigns threads to CPU slots while threads are rotated.
pub trait Arrange: std::fmt::Debug + Send {
    /// Adds a thread and returns its number. Members are numbered in the order in which they join.
    fn join(&mut self, observation: &Observation) -> Member;
    /// Removes a thread that has ended.
    fn leave(&mut self, member: Member);
    /// Assigns a slot to a thread that joined while threads are rotated.
    fn admit(&mut self, member: Member, now_ns: u64, orders: &mut Vec<Order>);
    /// Begins rotation: assigns a slot to every thread.
    fn begin(&mut self, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>);
    /// Ends the period of a slot, and may assign threads anew.
    fn end_period(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>);
    /// Ends rotation: the kernel places all threads from now on.
    fn end(&mut self, now_ns: u64, orders: &mut Vec<Order>);
    /// Sets the length of later periods.
    fn set_period(&mut self, period_ns: u64);
    /// Returns how long a slot can go without a decision from now on, ns; 0 if unknown.
    fn calm_ns(&self, now_ns: u64) -> u64;
    /// Returns the length of a phase, the time from one barrier to the next, ns. `None` unless the last phases were
    /// about equally long.
    fn phase_ns(&self) -> Option<u64>;
    /// Returns the sums of what was observed on the slots.
    fn seen(&mut self) -> &mut Seen;
}

/// The policy's decision on one thread, which changes the thread's affinity mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The thread.
    pub member: Member,
    /// The slot whose CPU the thread is bound to, and the reason for the log. `None`: the thread may run on all CPUs of
    /// the pack, and the kernel chooses.
    pub to: Option<(Slot, Why)>,
}

impl Order {
    /// Returns the slot that the thread is bound to; `None` if it may use the whole pack.
    #[must_use]
    pub fn place(&self) -> Option<Slot> {
        self.to.map(|(slot, _)| slot)
    }
}

/// The reason why a thread gets another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All threads were assigned anew at the same time. [`assignment`] never does this, but other rules do, with which
    /// it is compared.
    Rules,
    /// The threads of two slots were divided anew because their progress was unequal: the most served thread was this
    /// far ahead of the least served one, ns.
    Behind(u64),
    /// The threads of two slots were divided anew because one of them spins (waits for other threads in a loop).
    Spins,
    /// The threads of two slots were divided anew because one slot had no runnable thread.
    SlotFree,
    /// The thread has just joined.
    Joined,
    /// Rotation begins.
    Start,
    /// Rotation ends: the policy spreads the threads evenly, and then the kernel places them.
    End,
}
