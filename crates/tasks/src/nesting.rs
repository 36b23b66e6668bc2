//! Nested regions: the regions that enclose a region which a task has begun.
//!
//! The program's OpenMP library knows, on each of its threads, the regions that the thread is in. A helper is not one of its threads: if a
//! task on a helper begins a region, the library takes that region for an outermost one. So a thread that begins a nested region records
//! the regions that enclose it, for all threads of the new region and all helpers of its team. On the region's threads the library does not
//! know the first [`hidden`](Nesting::hidden) levels; on helpers it knows no level.
//!
//! Programs rarely ask for the number of the thread that began a region. Once a helper has taken a number in a task, only members run tasks
//! of that function (`number`). So a helper that begins a region takes no number in advance. The first thread that asks for the helper's
//! number takes one for it, and the helper holds this number after the region's end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::held::NONE;
use crate::work::Work;

/// A team that gives out thread numbers.
pub trait Numbers {
    /// Takes a number for a helper that runs a task of the function `work`. Any thread may call this.
    fn take_for_helper(&self, work: Option<Work>) -> u32;
}

/// One of the enclosing regions: the number of its threads, and the thread number that the ancestor has in it
/// (`omp_get_ancestor_thread_num`).
pub struct Level<T: 'static> {
    size: u32,
    pub(crate) number: Number<T>,
}

pub(crate) enum Number<T: 'static> {
    Known(u32),
    /// The number of a helper of this team: taken when a thread asks for it.
    Helper(&'static T, Arc<HelperNumber>),
}

pub(crate) struct HelperNumber {
    /// [`NONE`] until a thread asks for the number.
    pub number: AtomicU32,
    asking: Mutex<()>,
    /// The function of the helper's task.
    work: Option<Work>,
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
    pub(crate) levels: Vec<Level<T>>,
    pub(crate) hidden: u32,
    pub(crate) outermost: &'static T,
    pub(crate) threads: i32,
}

// A derived `Clone` would need `T: Clone`.
impl<T> Clone for Level<T> {
    fn clone(&self) -> Level<T> {
        Level { size: self.size, number: self.number.clone() }
    }
}

impl<T> Clone for Number<T> {
    fn clone(&self) -> Number<T> {
        match self {
            Number::Known(number) => Number::Known(*number),
            Number::Helper(team, helper) => Number::Helper(team, Arc::clone(helper)),
        }
    }
}

impl<T: Numbers> Level<T> {
    /// Makes the level of a region with `size` threads. `number`: the ancestor's thread number.
    pub fn new(size: u32, number: u32) -> Level<T> {
        Level { size, number: Number::Known(number) }
    }

    /// Returns the number of threads of the region.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the ancestor's thread number. If the ancestor is a helper and no thread has asked for its number yet, first takes a free
    /// number of the team for it.
    pub fn number(&self) -> u32 {
        match &self.number {
            Number::Known(number) => *number,
            Number::Helper(team, helper) => helper.number(*team),
        }
    }
}

impl HelperNumber {
    /// Makes the record of a helper's number, which is not yet taken. `work`: the function of the helper's task.
    pub fn new(work: Option<Work>) -> HelperNumber {
        HelperNumber { number: AtomicU32::new(NONE), asking: Mutex::new(()), work }
    }

    fn number(&self, team: &impl Numbers) -> u32 {
        let _one_asks = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.number.load(Ordering::Relaxed);
        if known != NONE {
            return known;
        }
        let taken = team.take_for_helper(self.work);
        self.number.store(taken, Ordering::Release);
        taken
    }
}

impl<T> Nesting<T> {
    /// Returns the regions, the outermost first.
    pub fn levels(&self) -> &[Level<T>] {
        &self.levels
    }

    /// Returns the number of outermost levels that the OpenMP library does not know on threads of the region.
    pub fn hidden(&self) -> u32 {
        self.hidden
    }

    /// Returns the number of threads of a region without a `num_threads` clause: the value of this control variable in the task that began
    /// this region.
    pub fn threads(&self) -> i32 {
        self.threads
    }

    /// Returns the team of the outermost of the regions.
    pub fn outermost(&self) -> &'static T {
        self.outermost
    }
}
