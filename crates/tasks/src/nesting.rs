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

use crate::number::{self, NONE};
use crate::task::Work;
use crate::team::Team;
use crate::worker::Worker;

/// A region: its threads, and which of them has begun the next one, or is an ancestor of the thread that has.
#[derive(Clone)]
pub struct Level {
    size: u32,
    number: Number,
}

#[derive(Clone)]
enum Number {
    Known(u32),
    /// Of a guest of this team.
    Guests(&'static Team, Arc<Guest>),
}

struct Guest {
    /// [`NONE`] until it is asked for.
    number: AtomicU32,
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
pub struct Nesting {
    levels: Vec<Level>,
    hidden: u32,
    outermost: &'static Team,
    threads: i32,
}

impl Level {
    /// A region of so many threads.
    pub fn new(size: u32, number: u32) -> Level {
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
            Number::Guests(team, guest) => guest.number(team),
        }
    }
}

impl Guest {
    fn number(&self, team: &Team) -> u32 {
        let _one_asks = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.number.load(Ordering::Relaxed);
        if known != NONE {
            return known;
        }
        let taken = number::take_for_guest(team, self.work);
        self.number.store(taken, Ordering::Release);
        taken
    }
}

impl Nesting {
    /// What is around a region that this thread, which is in one, begins. `around`: each region it is in, the outermost first. `threads`: what
    /// the task would give a region that asks for no number. `None`: it is in none whose tasks are this crate's.
    pub fn of(worker: &Worker, around: impl Iterator<Item = Level>, threads: i32) -> Option<Nesting> {
        let (team, outer) = (worker.team(), worker.nesting());
        let outermost = outer.map(|outer| outer.outermost).or(team)?;
        let mut levels: Vec<Level> = around.collect();
        let mut hidden = outer.map_or(0, |outer| outer.hidden);
        if let (Some(team), true) = (team, worker.is_guest()) {
            hidden = levels.len() as u32;
            let number = match worker.number.get() {
                NONE => {
                    let work = worker.own_function();
                    let guest = Guest { number: AtomicU32::new(NONE), asking: Mutex::new(()), work };
                    Number::Guests(team, Arc::new(guest))
                }
                held => Number::Known(held),
            };
            levels.last_mut()?.number = number;
        } else if let Some(number) = worker.number_of_ancestor() {
            levels.last_mut()?.number = Number::Known(number);
        }
        Some(Nesting { levels, hidden, outermost, threads })
    }

    /// The regions around, the outermost first.
    pub fn levels(&self) -> &[Level] {
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
    pub fn outermost(&self) -> &'static Team {
        self.outermost
    }

    /// The region is over, and its thread in the task again that has begun it: that one's number is held by this thread now, if it was
    /// asked for.
    pub fn is_over(&self, worker: &Worker) {
        if let Some(Level { number: Number::Guests(_, guest), .. }) = self.levels.last() {
            let number = guest.number.load(Ordering::Acquire);
            if number != NONE && worker.number.get() == NONE {
                worker.number.set(number);
            }
        }
    }
}
