//! Teams of regions whose tasks are ours.

use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tasks::team::Team;

use super::icvs;
use super::nested::{self, Inner};
use super::workers::worker;
use crate::real::Library;

/// All that were ever made.
pub struct Teams {
    all: Vec<&'static Team>,
}

static TEAMS: Mutex<Teams> = Mutex::new(Teams { all: Vec::new() });

impl Teams {
    /// There are none. They stay where they are: somebody may be in a region.
    pub fn forget(&mut self) {
        self.all.clear();
    }
}

/// The lock on all of them.
pub fn hold() -> MutexGuard<'static, Teams> {
    TEAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A team for a region of at most so many threads, which probably `has_none` of tasks.
///
/// # Safety
/// `inner` stays until the region is over.
pub unsafe fn take(library: &'static Library, threads: c_uint, has_none: bool, inner: Option<&Inner>) -> &'static Team {
    // That of this thread's last region, without asking anybody, if it does.
    let worker = worker();
    let last = worker.and_then(|worker| worker.last_team.get());
    let team = last.filter(|team| team.seats() == threads && team.claim()).unwrap_or_else(|| {
        let team = find(threads);
        worker.into_iter().for_each(|worker| worker.last_team.set(Some(team)));
        team
    });
    // SAFETY: the caller's promise.
    unsafe { team.is_within(inner.map(Inner::nesting)) };
    if inner.is_none() && signal::was_ever_live() {
        nested::begin_outermost(library, team);
    }
    icvs::are_of(team, library);
    team.begin(has_none && team.is_served());
    team
}

/// The smallest one with so many seats that no region has, or a new one.
fn find(threads: c_uint) -> &'static Team {
    let mut teams = hold();
    loop {
        let fits = teams.all.iter().copied().filter(|team| team.seats() >= threads && !team.is_in_use());
        let Some(smallest) = fits.min_by_key(|team| team.seats()) else { break };
        // Its last thread may have been faster.
        if smallest.claim() {
            return smallest;
        }
    }
    let team: &'static Team = Box::leak(Box::new(Team::new(threads)));
    let _ = team.claim();
    teams.all.push(team);
    team
}

/// The teams there are, by number from 0; they stay.
pub fn known(number: usize) -> Option<&'static Team> {
    hold().all.get(number).copied()
}
