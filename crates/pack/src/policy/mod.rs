//! Who runs: pure decisions from what is seen to what is wanted. No clock, no system call; the same code
//! steers threads live and in the simulator.
//!
//! - [`capacity`]: how many threads each group of CPUs should have.
//! - [`assignment`]: each CPU of the pack is a *slot*; at the end of a period, who takes it?
//! - [`mode`]: is rotating worth it at all, and how long should a period be?
//! - [`observation`], [`seen`]: what is seen of threads, at a moment and over a window.
//! - [`controller`]: where and when together; what a controller calls.
//! - [`bound`]: what no packing can beat.

pub mod assignment;
pub mod bound;
pub mod capacity;
pub mod controller;
pub mod mode;
pub mod observation;
pub mod seen;

pub use self::observation::{Doing, Member, Observation, Sense, Slot};
use self::seen::Seen;

/// Where threads are while they are rotated.
pub trait Arrange: std::fmt::Debug + Send {
    /// A thread joins; members are numbered in the order in which they join.
    fn join(&mut self, observation: &Observation) -> Member;
    /// A thread has ended.
    fn leave(&mut self, member: Member);
    /// A thread that joined while slots are taken gets a place.
    fn admit(&mut self, member: Member, now_ns: u64, orders: &mut Vec<Order>);
    /// Rotation begins: every thread gets a place.
    fn begin(&mut self, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>);
    /// A slot's period is over.
    fn end_period(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>);
    /// Rotation ends: the kernel places all threads.
    fn end(&mut self, now_ns: u64, orders: &mut Vec<Order>);
    /// Periods are of this length from now on.
    fn set_period(&mut self, period_ns: u64);
    /// For how long from now a slot needs no decision, ns; 0 where that is not known.
    fn calm_ns(&self, now_ns: u64) -> u64;
    /// How long phases are, where the last ones were alike.
    fn phase_ns(&self) -> Option<u64>;
    /// What was seen at the slots.
    fn seen(&mut self) -> &mut Seen;
}

/// What a policy wants done with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It runs on this slot's CPU and nowhere else.
    Move {
        /// Who.
        member: Member,
        /// Where.
        slot: Slot,
        /// The reason, for the log.
        why: Why,
    },
    /// The kernel places it, anywhere in the pack.
    Free {
        /// Who.
        member: Member,
    },
}

impl Order {
    /// Whom it is about.
    #[must_use]
    pub fn member(&self) -> Member {
        match *self {
            Order::Move { member, .. } | Order::Free { member } => member,
        }
    }

    /// The slot whose CPU the thread may run on; `None`: on all of the pack.
    #[must_use]
    pub fn place(&self) -> Option<Slot> {
        match *self {
            Order::Move { slot, .. } => Some(slot),
            Order::Free { .. } => None,
        }
    }
}

/// Why a thread gets a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Rules say so that place all threads anew at one time.
    Rules,
    /// Of the threads of both CPUs the least served is behind the furthest, by so many ns of progress.
    Behind(u64),
    /// On one of the two CPUs somebody waits for other threads in a loop.
    Spins,
    /// Nobody could run on one of the two CPUs.
    SlotFree,
    /// It is new.
    Joined,
    /// Rotation begins.
    Start,
    /// Rotation ends, and leaves the threads spread evenly.
    End,
}
