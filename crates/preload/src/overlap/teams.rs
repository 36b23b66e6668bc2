//! Teams of regions whose tasks `overlap` runs.

use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tasks::team::{HeldQueues, Team};

use super::icvs;
use super::nested::{self, Inner};
use super::workers::worker;
use crate::real_symbols::Library;

/// All teams that were ever created.
pub struct Teams {
    all: Vec<&'static Team>,
}

static TEAMS: Mutex<Teams> = Mutex::new(Teams { all: Vec::new() });

impl Teams {
    /// Takes the locks on the queues of all teams, before a fork. The child continues the tasks of the forking thread's team. If another thread held
    /// one of these locks during the fork, it would never be released in the child. Takes no lock if there is no memory for the list of locks.
    pub fn hold_queues(&self) -> Vec<HeldQueues> {
        let mut held = Vec::new();
        if held.try_reserve_exact(self.all.len()).is_ok() {
            held.extend(self.all.iter().map(|team| team.hold_queues()));
        }
        held
    }

    /// Forgets all teams. Their memory is not freed, because a thread may be in a region.
    pub fn forget(&mut self) {
        self.all.clear();
    }
}

/// Returns the lock on the list of teams.
pub fn hold() -> MutexGuard<'static, Teams> {
    TEAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a team for a region of at most `threads` threads. `has_none`: the region probably has no tasks.
///
/// # Safety
/// `inner` stays valid until the region is over.
pub unsafe fn take(library: &'static Library, threads: c_uint, has_none: bool, inner: Option<&Inner>) -> &'static Team {
    // If the team of this thread's last region is unused and has the right number of slots, it is taken without a lock.
    let worker = worker();
    let last = worker.and_then(|worker| worker.last_team.get());
    let team = last.filter(|team| team.slots() == threads && team.claim()).unwrap_or_else(|| {
        let team = find(threads);
        worker.into_iter().for_each(|worker| worker.last_team.set(Some(team)));
        team
    });
    // SAFETY: guaranteed by the caller.
    unsafe { team.is_within(inner.map(|inner| &inner.nesting)) };
    if inner.is_none() && umt_client::was_ever_live() {
        nested::begin_outermost(library, team);
    }
    icvs::are_of(team, library);
    team.begin(has_none && team.is_served());
    team
}

/// Returns the smallest unused team with enough slots, or a new one.
fn find(threads: c_uint) -> &'static Team {
    let mut teams = hold();
    loop {
        let fits = teams.all.iter().copied().filter(|team| team.slots() >= threads && !team.is_in_use());
        let Some(smallest) = fits.min_by_key(|team| team.slots()) else { break };
        // Another thread may have claimed this team meanwhile: a thread claims the team of its last region without the lock.
        if smallest.claim() {
            return smallest;
        }
    }
    let team: &'static Team = Box::leak(Box::new(Team::new(threads)));
    let _ = team.claim();
    teams.all.push(team);
    team
}

/// Returns a team by its number, from 0; teams are never freed.
pub fn known(number: usize) -> Option<&'static Team> {
    hold().all.get(number).copied()
}
