//! Nested regions: the regions that enclose a region which a task has begun.
//!
//! The program's OpenMP library knows, on each of its threads, the regions that the thread is in. A helper is not one of its threads: if a
//! task on a helper begins a region, the library takes that region for an outermost one. So a thread that begins a nested region records
//! the regions that enclose it, for all threads of the new region and all helpers of its team. On the region's threads the library does not
//! know the first [`hidden`](Nesting::hidden) levels; on helpers it knows no level.
//!
//! Programs rarely ask for the number of the thread that began a region. If a helper takes a thread number in a task, helpers may no longer
//! run tasks of that task's function (`number`). To avoid this, a helper that begins a region takes no number in advance. The first thread
//! that asks for the helper's number takes one for it, and the helper holds this number after the region's end.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use crate::task::Work;

/// A team that gives out thread numbers.
pub trait Numbers: Sync {
    /// Reserves a free thread number of the team for a helper, and returns the number. `work` is the function of the helper's task. Any
    /// thread may call this.
    fn take_for_helper(&self, work: Option<Work>) -> u32;
}

/// One of the enclosing regions.
#[derive(Clone)]
pub struct Level {
    /// Number of threads of the region.
    pub size: u32,
    /// The number, in this region, of the thread whose task began the next inner region (`omp_get_ancestor_thread_num`).
    pub(crate) number: Number,
}

#[derive(Clone)]
pub(crate) enum Number {
    Known(u32),
    Helper(Arc<HelperNumber>),
}

/// The thread number of a helper of `team`. It is taken from the team's free numbers when a thread first asks for it.
pub(crate) struct HelperNumber {
    pub number: OnceLock<u32>,
    pub team: &'static dyn Numbers,
    /// Function of the task that the helper thread (a thread from outside the team) runs.
    pub work: Option<Work>,
}

/// Values that an outermost region and all regions within it share. The thread that begins a region sets them.
pub struct Common {
    /// Largest number of threads that the regions may have together.
    pub thread_limit: AtomicU32,
    /// Number of threads of the inner regions, not counting the threads that began these regions.
    pub taken_inside: AtomicU32,
    /// Number of the league's team in which the regions are, and number of teams in the league (`teams` construct).
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

/// The regions that enclose a region.
pub struct Nesting<T: 'static> {
    /// The enclosing regions, the outermost first.
    pub levels: Vec<Level>,
    /// Number of outermost levels that the OpenMP library does not know on threads of the region.
    pub hidden: u32,
    /// The team of the outermost of the regions.
    pub outermost: &'static T,
    /// Number of threads of a region without a `num_threads` clause: the value of this control variable in the task that began this region.
    pub threads: i32,
}

impl Level {
    /// Makes the entry for a region with `size` threads. One of its threads began the next inner region; `number` is that thread's number
    /// in this region.
    pub fn new(size: u32, number: u32) -> Level {
        Level { size, number: Number::Known(number) }
    }

    /// Returns the ancestor's thread number. If the ancestor is a helper and no thread has asked for its number yet, first takes a free
    /// number of the team for it.
    pub fn number(&self) -> u32 {
        match &self.number {
            Number::Known(number) => *number,
            Number::Helper(helper) => *helper.number.get_or_init(|| helper.team.take_for_helper(helper.work)),
        }
    }
}
