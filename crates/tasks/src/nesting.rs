//! Regions around a region that a task has begun.
//!
//! The OpenMP library of the program knows, on each of its threads, in which regions that thread is. A guest is none of its threads: a region in a
//! task that a guest runs is, for the library, the outermost. So who begins a region within another one notes what is around it, for all
//! threads of the new region and all guests of its team. On the region's threads the library does not know of the first
//! [`hidden`](Nesting::hidden) levels; on guests it knows of none.
//!
//! The number of the thread that began a region is asked for rarely, and a guest that takes one is a task that may not be a guest's the next
//! time (`number`). So a guest's is taken when it is asked for, by who asks, and the guest has it from the region's end on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::held::NONE;
use crate::work::Work;

/// A team, to those who take its threads' numbers.
pub trait Numbers {
    /// Takes a number for a guest that is in a task of this function. By any thread.
    fn take_for_guest(&self, work: Option<Work>) -> u32;
}

/// A region: its threads, and which of them has begun the next one, or is an ancestor of the thread that has.
pub struct Level<T: 'static> {
    size: u32,
    pub(crate) number: Number<T>,
}

pub(crate) enum Number<T: 'static> {
    Known(u32),
    /// Of a guest of this team.
    Guests(&'static T, Arc<Guest>),
}

pub(crate) struct Guest {
    /// [`NONE`] until it is asked for.
    pub number: AtomicU32,
    asking: Mutex<()>,
    /// The function of its task.
    work: Option<Work>,
}

/// What an outermost region and all regions within have together, as whoever begins them says.
pub struct Common {
    /// Threads that they may have together.
    pub thread_limit: AtomicU32,
    /// Threads that those within have taken, beside the threads that began them.
    pub taken_inside: AtomicU32,
    /// Number of the league's team that they are in, and how many there are (`teams`).
    pub league: [AtomicU32; 2],
}

impl Default for Common {
    fn default() -> Common {
        Common {
            thread_limit: AtomicU32::new(u32::MAX),
            taken_inside: AtomicU32::new(0),
            league: [AtomicU32::new(0), AtomicU32::new(1)],
        }
    }
}

/// The regions around a region.
pub struct Nesting<T: 'static> {
    pub(crate) levels: Vec<Level<T>>,
    pub(crate) hidden: u32,
    pub(crate) outermost: &'static T,
    pub(crate) threads: i32,
}

// Derived they would want `T: Clone`.
impl<T> Clone for Level<T> {
    fn clone(&self) -> Level<T> {
        Level { size: self.size, number: self.number.clone() }
    }
}

impl<T> Clone for Number<T> {
    fn clone(&self) -> Number<T> {
        match self {
            Number::Known(number) => Number::Known(*number),
            Number::Guests(team, guest) => Number::Guests(team, Arc::clone(guest)),
        }
    }
}

impl<T: Numbers> Level<T> {
    /// A region of so many threads.
    pub fn new(size: u32, number: u32) -> Level<T> {
        Level { size, number: Number::Known(number) }
    }

    /// Its threads.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The ancestor's number.
    pub fn number(&self) -> u32 {
        match &self.number {
            Number::Known(number) => *number,
            Number::Guests(team, guest) => guest.number(*team),
        }
    }
}

impl Guest {
    /// A guest in a task of this function, whose number nobody has asked for.
    pub fn new(work: Option<Work>) -> Guest {
        Guest { number: AtomicU32::new(NONE), asking: Mutex::new(()), work }
    }

    fn number(&self, team: &impl Numbers) -> u32 {
        let _one_asks = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.number.load(Ordering::Relaxed);
        if known != NONE {
            return known;
        }
        let taken = team.take_for_guest(self.work);
        self.number.store(taken, Ordering::Release);
        taken
    }
}

impl<T> Nesting<T> {
    /// The regions around, the outermost first.
    pub fn levels(&self) -> &[Level<T>] {
        &self.levels
    }

    /// How many of them the OpenMP library does not know of on threads of the region.
    pub fn hidden(&self) -> u32 {
        self.hidden
    }

    /// Threads of a region that asks for no number, in the task that has begun this one.
    pub fn threads(&self) -> i32 {
        self.threads
    }

    /// The team of the outermost of them.
    pub fn outermost(&self) -> &'static T {
        self.outermost
    }
}
