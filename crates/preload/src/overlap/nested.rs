//! Nested regions. The task that begins a nested region may run on a standby (an additional thread of this library).
//!
//! libgomp does not know any region on a standby. If a task begins a region there, libgomp treats it as an outermost region, with a whole team and
//! wrong answers about levels. Therefore the enclosing regions of each inner region are recorded when it begins ([`Nesting`]). They determine how
//! many threads the region may have, and how its threads' queries are answered (`identity`).

use std::ffi::{CStr, c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use tasks::around::Nesting;
use tasks::nesting::Level;
use tasks::team::Team;
use tasks::worker::Worker;

use super::current::worker_anywhere;
use super::identity;
use super::wanted::is_wanted;
use crate::calls::Call;
use crate::real_symbols::Library;

/// The number of threads for each nesting level, if the user gives several (`OMP_NUM_THREADS=4,2`). It applies to regions that do not request a
/// number.
static BY_LEVEL: OnceLock<Vec<c_int>> = OnceLock::new();

/// Reads the settings; called before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    let list = variable(c"OMP_NUM_THREADS").and_then(|value| std::str::from_utf8(value).ok());
    let numbers = list.and_then(|list| list.split(',').map(|number| number.trim().parse().ok()).collect());
    numbers.filter(|numbers: &Vec<c_int>| numbers.len() > 1).into_iter().for_each(|numbers| _ = BY_LEVEL.set(numbers));
}

/// Called when a thread begins to work in a region; `around` are the enclosing regions. Corrects the number of threads for inner regions in one case:
/// OMP_NUM_THREADS has a number for each nesting level, and libgomp does not know all enclosing regions on this thread. libgomp has then set the
/// number of another level.
#[inline]
pub fn begin_share(library: &Library, around: Option<&Nesting>) {
    if let (Some(around), Some(by_level)) = (around.filter(|around| around.hidden > 0), BY_LEVEL.get()) {
        let of_level = by_level.get(around.levels.len() + 1).copied();
        library.set(Call::omp_set_num_threads, of_level.unwrap_or(around.threads));
    }
}

/// What is recorded about a nested region while it runs.
pub struct Inner {
    /// The enclosing regions.
    pub nesting: Nesting,
    /// Number of threads of this region that count against the thread limit of the outermost region. The thread that begins this region does not
    /// count.
    taken: u32,
}

impl Inner {
    /// Returns the enclosing regions of a region that the calling thread is about to begin. `None` if there are none, or
    /// if standbys (additional threads of this library) have never been active, so that libgomp's answers are right.
    #[inline]
    pub fn begin(library: &Library) -> Option<Inner> {
        if !is_wanted() || !umt_client::was_ever_live() {
            return None;
        }
        let worker = worker_anywhere()?;
        if worker.team().is_none() && worker.nesting().is_none() {
            return None;
        }
        Inner::within(library, worker)
    }

    #[cold]
    fn within(library: &Library, worker: &Worker) -> Option<Inner> {
        let around = identity::around(worker);
        let level = identity::level_of(worker, || library.number(Call::omp_get_level));
        let levels = (1..=level).map(|at| match around.get(at as usize - 1) {
            Some(level) => level.clone(),
            None => {
                let size = identity::team_size_of(worker, at, |at| library.number_at(Call::omp_get_team_size, at));
                let number = library.number_at(Call::omp_get_ancestor_thread_num, at - identity::hidden(worker));
                Level::new(size as u32, number as u32)
            }
        });
        let threads = library.number(Call::omp_get_max_threads);
        Some(Inner { nesting: Nesting::of(worker, levels, threads)?, taken: 0 })
    }

    /// Returns how many threads the region may request from libgomp if the program requests `threads`; 0 stands for no particular number. Computed
    /// as in libgomp's `gomp_resolve_num_threads`. On a standby, libgomp cannot compute it: it does not know the enclosing regions there, nor how
    /// many of their threads count against the thread limit.
    #[cold]
    pub fn threads_allowed(&mut self, library: &Library, threads: c_uint) -> c_uint {
        let active = self.nesting.levels.iter().filter(|level| level.size > 1).count();
        if active as c_int >= library.number(Call::omp_get_max_active_levels) {
            return 1;
        }
        let outermost = self.nesting.outermost;
        let limit = outermost.common.thread_limit.load(Ordering::Relaxed);
        if limit >= c_int::MAX as u32 || threads == 1 {
            return threads;
        }
        let wanted = if threads == 0 { library.number(Call::omp_get_max_threads).max(1) as u32 } else { threads };
        let left = |taken: u32| limit.saturating_sub(outermost.size() + taken) + 1;
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let take = |taken| Some(taken + wanted.min(left(taken)) - 1);
        let (Ok(before) | Err(before)) = outermost.common.taken_inside.fetch_update(order.0, order.1, take);
        self.taken = wanted.min(left(before)) - 1;
        self.taken + 1
    }

    /// Called when the nested region is over: its threads no longer count against the thread limit.
    pub fn end(self) {
        if self.taken > 0 {
            self.nesting.outermost.common.taken_inside.fetch_sub(self.taken, Ordering::AcqRel);
        }
        worker_anywhere().into_iter().for_each(|worker| self.nesting.is_over(worker));
    }
}

/// Records in `team`, for an outermost region that is about to begin: the thread limit, the number of the team in its league, and the number of teams
/// in the league.
pub fn begin_outermost(library: &Library, team: &Team) {
    let common = &team.common;
    let [number, size] = &common.league;
    let limit = library.number(Call::omp_get_thread_limit);
    let limit = if limit > 0 { limit as u32 } else { u32::MAX };
    let words = [
        (&common.thread_limit, limit),
        (&common.taken_inside, 0),
        (number, library.number(Call::omp_get_team_num) as u32),
        (size, library.number(Call::omp_get_num_teams).max(1) as u32),
    ];
    for (word, value) in words {
        // The store is avoided if possible, because all threads of the team read the cache line.
        if word.load(Ordering::Relaxed) != value {
            word.store(value, Ordering::Relaxed);
        }
    }
}
