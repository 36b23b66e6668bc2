//! What is around a region that a thread begins within another one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::held::NONE;
use crate::nesting::{self, Guest, Number};
use crate::team::Team;
use crate::worker::Worker;

/// The regions around a region.
pub type Nesting = nesting::Nesting<Team>;
/// One of them.
pub type Level = nesting::Level<Team>;

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
                    Number::Guests(team, Arc::new(Guest::new(work)))
                }
                held => Number::Known(held),
            };
            levels.last_mut()?.number = number;
        } else if let Some(number) = worker.number_of_ancestor() {
            levels.last_mut()?.number = Number::Known(number);
        }
        Some(Nesting { levels, hidden, outermost, threads })
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
