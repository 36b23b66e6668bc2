//! How a thread that begins a nested region records the regions that enclose it.

use std::sync::{Arc, OnceLock};

use crate::biased_lock::NONE;
use crate::nesting::{self, HelperNumber, Level, Number};
use crate::team::Team;
use crate::worker::Worker;

/// The regions that enclose a region.
pub type Nesting = nesting::Nesting<Team>;

impl Nesting {
    /// Returns the regions that enclose a nested region that this thread is about to begin. `around`: the regions that the thread is in,
    /// the outermost first. `threads`: the current task's number of threads for a region without a `num_threads` clause. Returns `None` if
    /// this thread is in no region whose tasks this crate runs.
    pub fn of(worker: &Worker, around: impl Iterator<Item = Level>, threads: i32) -> Option<Nesting> {
        let (team, outer) = (worker.team(), worker.nesting());
        let outermost = outer.map(|outer| outer.outermost).or(team)?;
        let mut levels: Vec<Level> = around.collect();
        let mut hidden = outer.map_or(0, |outer| outer.hidden);
        if let (Some(team), true) = (team, worker.is_helper()) {
            hidden = levels.len() as u32;
            let number = match worker.number.get() {
                NONE => {
                    let work = worker.own_function();
                    Number::Helper(Arc::new(HelperNumber { number: OnceLock::new(), team, work }))
                }
                held => Number::Known(held),
            };
            levels.last_mut()?.number = number;
        } else if let Some(number) = worker.number_of_ancestor() {
            levels.last_mut()?.number = Number::Known(number);
        }
        Some(Nesting { levels, hidden, outermost, threads })
    }

    /// Called when the nested region is over and the thread that began it continues its task. If this thread is a helper (no member of its
    /// team), another thread may have asked for its thread number during the region. Then it got one, and holds it from here on.
    pub fn is_over(&self, worker: &Worker) {
        if let Some(Level { number: Number::Helper(helper), .. }) = self.levels.last()
            && let Some(number) = helper.number.get()
            && worker.number.get() == NONE
        {
            worker.number.set(*number);
        }
    }
}
