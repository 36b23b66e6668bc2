//! Teams of regions whose tasks are ours.

use std::ffi::c_uint;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tasks::team::Team;
use tasks::worker::Worker;

use super::identity::level;
use crate::real::{Call, Library};

/// All that were ever made, and those that no region has.
pub struct Teams {
    all: Vec<&'static Team>,
    free: Vec<&'static Team>,
}

static TEAMS: Mutex<Teams> = Mutex::new(Teams { all: Vec::new(), free: Vec::new() });

impl Teams {
    /// There are none. They stay where they are: somebody may be in a region.
    pub fn forget(&mut self) {
        self.all.clear();
        self.free.clear();
    }
}

/// The lock on all of them.
pub fn hold() -> MutexGuard<'static, Teams> {
    TEAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A team for a region of at most so many threads, which probably `has_none` of tasks.
pub fn take(library: &Library, threads: c_uint, has_none: bool) -> &'static Team {
    // That of this thread's last region, without asking anybody, if it does.
    let kept = super::worker().and_then(|worker| worker.spare_team.take());
    let team = kept.filter(|team| team.seats() == threads).unwrap_or_else(|| {
        kept.into_iter().for_each(give_away);
        find(threads)
    });
    // On a standby libgomp knows of no region.
    let is_guest = super::here().is_some_and(Worker::is_guest);
    let around = if is_guest { level() } else { library.number(Call::GetLevel) };
    if team.level.load(Ordering::Relaxed) != around as u32 + 1 {
        team.level.store(around as u32 + 1, Ordering::Relaxed);
    }
    team.begin(has_none);
    team
}

/// The smallest one with so many seats, or a new one.
fn find(threads: c_uint) -> &'static Team {
    let known = {
        let mut teams = hold();
        let fits = teams.free.iter().enumerate().filter(|(_, team)| team.seats() >= threads);
        let smallest = fits.min_by_key(|(_, team)| team.seats()).map(|(place, _)| place);
        smallest.map(|place| teams.free.swap_remove(place))
    };
    known.unwrap_or_else(|| {
        let team: &'static Team = Box::leak(Box::new(Team::new(threads)));
        hold().all.push(team);
        team
    })
}

/// The region is over.
pub fn put_back(team: &'static Team) {
    let before = super::worker().map(|worker| worker.spare_team.replace(Some(team)));
    before.unwrap_or(Some(team)).into_iter().for_each(give_away);
}

/// No thread in particular has it.
pub fn give_away(team: &'static Team) {
    hold().free.push(team);
}

/// The teams there are, by number from 0; they stay.
pub fn known(number: usize) -> Option<&'static Team> {
    hold().all.get(number).copied()
}
