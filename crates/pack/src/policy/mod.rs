//! Who runs: pure decisions from what is seen to what is wanted. No clock, no system call; the same code
//! steers threads live and in the simulator.
//!
//! - [`capacity`]: how many threads each group of CPUs should have.
//! - [`seating`]: each CPU of the pack is a *seat*; at the end of a turn, who takes it?
//! - [`regime`]: is rotating worth it at all, and how long should a turn be?
//! - [`conductor`]: both together; what a controller calls.
//! - [`bound`]: what no packing can beat.

pub mod bound;
pub mod capacity;
pub mod conductor;
pub mod regime;
pub mod seating;

/// A thread of the packed program, by the number it was given when it joined. Never reused.
pub type Member = usize;

/// A CPU of the pack, by its place in the pack's list.
pub type Seat = usize;

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
pub struct Glance {
    /// CPU time so far, ns.
    pub run_ns: u64,
    /// Times it has left its CPU by its own doing.
    pub blocks: u32,
    /// What it does.
    pub doing: Doing,
    /// Where in its code it was seen last is a loop that waits for other threads.
    pub spins: bool,
    /// The seat whose CPU it runs on, or did last; `None` outside the pack.
    pub at: Option<Seat>,
    /// When it left its CPU last, ns.
    pub out_ns: u64,
    /// Barriers it has passed, as the preload library inside the program counts them; `None` without it.
    /// Threads of one team have passed as many when they have passed the same; compare threads of one
    /// process only.
    pub phases: Option<u64>,
}

/// Whoever can see threads: sensors, or the simulator.
pub trait Sense {
    /// What is seen of a thread now. A thread that nobody can see has ended.
    fn glance(&self, member: Member) -> Glance;
}

/// What a policy wants done with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It runs on this seat's CPU and nowhere else, and keeps it company until its turn is over.
    Sit {
        /// Who.
        member: Member,
        /// Where.
        seat: Seat,
        /// The reason, for the log.
        why: Why,
    },
    /// It has no seat: it shares a seat's CPU, and may be called to another.
    Wait {
        /// Who.
        member: Member,
        /// The seat in whose queue it waits.
        behind: Seat,
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
            Order::Sit { member, .. } | Order::Wait { member, .. } | Order::Free { member } => member,
        }
    }

    /// The seat whose CPU the thread may run on; `None`: on all of the pack.
    #[must_use]
    pub fn place(&self) -> Option<Seat> {
        match *self {
            Order::Sit { seat, .. } => Some(seat),
            Order::Wait { behind, .. } => Some(behind),
            Order::Free { .. } => None,
        }
    }
}

/// Why a thread gets a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is behind whoever sat there, ns of progress.
    Behind(u64),
    /// Whoever sat there waits for other threads in a loop.
    OtherSpins,
    /// Whoever sat there is blocked or has ended, or nobody sat there.
    SeatFree,
    /// Rotation begins.
    Start,
}
