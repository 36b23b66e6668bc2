//! The signal from the kernel's records of the program's own switches ([`signal::records`]): no session, no privilege.
//!
//! Whoever reads goes through what all logs have had since, and counts it by CPU ([`count`](crate::count)), under one lock.
//!
//! A log does not say on which CPU its next block will be, so each descriptor watches all logs. Nor can all of them have their share of a wake-up: the
//! kernel takes a log's readiness back as soon as anybody asks for it (`perf_poll`, kernel/events/core.c), be it poll(2) on the way to another
//! answer. Who asks first is told, and reads: then what was counted for other CPUs is known, and *their* events are raised. So
//!
//! 1. a descriptor is ready while a block is known for its CPU and was not read, and
//! 2. what is not known yet makes at least one of them ready, whose reader makes it known.
//!
//! *Turned down:* an event of the kernel's for each thread and CPU, each with a readiness of its own, which is a record for each CPU at each switch;
//! a thread of our own that would read all logs.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal::records::{self, PLACES, Position};
use wire::umt::Moves;

use crate::count::{Tally, Whereabouts};
use crate::counts::{Counts, Of};
use crate::watcher::{Watcher, close};

/// Logs are watched for their edges: their level is taken back by whoever asks.
const EDGE: libc::c_int = libc::EPOLLIN | libc::EPOLLET;

/// All of it.
#[derive(Debug)]
pub struct Logs {
    state: Mutex<State>,
    /// Places that are followed, for those who look without the lock.
    followed: [AtomicU64; PLACES / 64],
    cpus: usize,
}

#[derive(Debug)]
struct State {
    places: Vec<Option<Follower>>,
    tally: Tally,
    /// What was told of each CPU.
    told: Vec<Told>,
    /// Times that records were written over before they were read.
    lost: u32,
    /// By CPU, and behind them the one for all.
    watchers: Vec<Option<Watcher>>,
}

/// A thread.
#[derive(Debug)]
struct Follower {
    position: Position,
    whereabouts: Whereabouts,
    log: RawFd,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    moves: Moves,
    lost: u32,
}

impl Logs {
    /// Room for them.
    ///
    /// # Errors
    /// When the kernel gives this user no records of its own threads.
    pub fn new(cpus: usize) -> io::Result<Logs> {
        records::probe()?;
        records::begin().ok_or_else(io::Error::last_os_error)?;
        let state = State {
            places: (0..PLACES).map(|_| None).collect(),
            tally: Tally::new(cpus),
            told: vec![Told::default(); cpus],
            lost: 0,
            watchers: (0..=cpus).map(|_| None).collect(),
        };
        Ok(Logs { state: Mutex::new(state), followed: [const { AtomicU64::new(0) }; PLACES / 64], cpus })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread is followed from here on.
    pub fn register(&self) -> io::Result<()> {
        let mut state = self.state();
        if !records::enlist() {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let Some((place, log)) = records::own() else { return Err(io::Error::from_raw_os_error(libc::EAGAIN)) };
        if let Err(why) = state.watchers.iter().flatten().try_for_each(|watcher| watcher.watch(log, EDGE)) {
            records::discharge();
            return Err(why);
        }
        let follower = Follower { position: records::end(place), whereabouts: Whereabouts::Away, log };
        state.places[place as usize] = Some(follower);
        self.followed[place as usize / 64].fetch_or(1 << (place % 64), Ordering::AcqRel);
        drop(state);
        // Its log begins with this.
        signal::leave_once();
        Ok(())
    }

    /// The calling thread is followed no more.
    pub fn unregister(&self) {
        let Some((place, _)) = records::own() else { return };
        let mut state = self.state();
        self.followed[place as usize / 64].fetch_and(!(1 << (place % 64)), Ordering::AcqRel);
        state.follow_all();
        let State { places, tally, .. } = &mut *state;
        if let Some(mut follower) = places[place as usize].take() {
            follower.whereabouts.ends(tally);
        }
        records::discharge();
        state.raise();
    }

    /// Nobody is followed, and nothing can be polled.
    pub fn end(&self) {
        self.followed.iter().for_each(|word| word.store(0, Ordering::Release));
        let mut state = self.state();
        state.places.iter_mut().for_each(|place| *place = None);
        state.watchers.iter_mut().for_each(|watcher| *watcher = None);
    }

    /// What is polled for a CPU, or for all.
    pub fn descriptor(&self, of: Of) -> io::Result<RawFd> {
        let mut state = self.state();
        let State { places, watchers, .. } = &mut *state;
        let slot = match of {
            Of::Cpu(cpu) => cpu,
            Of::Any => self.cpus,
        };
        if let Some(watcher) = &watchers[slot] {
            return Ok(watcher.raw());
        }
        let watcher = Watcher::new()?;
        places.iter().flatten().try_for_each(|follower| watcher.watch(follower.log, EDGE))?;
        let raw = watcher.raw();
        watchers[slot] = Some(watcher);
        // What is in logs already has no edge to come.
        state.follow_all();
        state.raise();
        Ok(raw)
    }

    /// What has come since the last time.
    pub fn read(&self, cpu: usize) -> Option<Counts> {
        let mut state = self.state();
        // Before logs are read: a switch behind this makes it ready again, one before it is read now.
        for slot in [cpu, self.cpus] {
            state.watchers[slot].iter().for_each(Watcher::hush);
        }
        state.follow_all();
        let now = Told { moves: state.tally.on(cpu), lost: state.lost };
        let before = std::mem::replace(&mut state.told[cpu], now);
        state.raise();
        let moves = now.moves.since(before.moves);
        (moves != Moves::default()).then(|| Counts {
            blocked: moves.blocked,
            unblocked: moves.unblocked,
            lost: now.lost.wrapping_sub(before.lost),
        })
    }

    /// Threads that are ready on a CPU, by the last record of each.
    pub fn ready(&self, cpu: usize) -> u32 {
        let is_there =
            |place: &u32| records::stand(*place).is_some_and(|stand| stand.is_runnable && stand.cpu as usize == cpu);
        let followed = self.followed.iter().enumerate().flat_map(|(at, word)| {
            let word = word.load(Ordering::Acquire);
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at as u32 * 64 + bit)
        });
        followed.filter(is_there).count() as u32
    }

    /// In a child after fork, which forgets all of this: closes what it was given copies of.
    pub fn leave_to_parent(&self) {
        // Somebody in the parent was at it: then they stay open.
        let Ok(state) = self.state.try_lock() else { return };
        close(state.places.iter().flatten().map(|follower| follower.log));
        state.watchers.iter().flatten().for_each(Watcher::leave_to_parent);
    }
}

impl State {
    /// Reads all logs to their ends.
    fn follow_all(&mut self) {
        let State { places, tally, lost, .. } = self;
        for (place, follower) in places.iter_mut().enumerate() {
            let Some(Follower { position, whereabouts, .. }) = follower else { continue };
            if !records::follow(place as u32, position, |switch| whereabouts.goes_on(switch, tally)) {
                *lost = lost.wrapping_add(1);
            }
        }
    }

    /// Has descriptors be ready for whose CPUs a block is known; of who unblocks the kernel wakes nobody either.
    fn raise(&mut self) {
        let State { tally, told, watchers, .. } = self;
        let mut any = false;
        for (cpu, watcher) in watchers.iter_mut().enumerate() {
            let is_new = told.get(cpu).map_or(any, |told| told.moves.blocked != tally.on(cpu).blocked);
            any |= is_new;
            watcher.iter_mut().for_each(|watcher| watcher.raise(is_new));
        }
    }
}
