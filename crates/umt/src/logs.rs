//! The counts from the kernel's records of the program's own switches ([`umt_client::records`]): no session and no privileges are needed.
//!
//! A read goes through the new records of all logs, under one lock, and counts them by CPU ([`count`](crate::count)).
//!
//! A log does not say on which CPU its next block will be, so each descriptor watches all logs. But only one descriptor gets the wake-up:
//! the kernel clears a log's readiness when any thread asks for it (`perf_poll`, kernel/events/core.c), even in a poll(2) that returns for
//! another reason. The thread that asks first therefore reads all logs. It then knows the counts of the other CPUs too, and raises *their*
//! eventfds. So
//!
//! 1. a descriptor is ready while a block on its CPU is counted but the program has not read the count, and
//! 2. records that are not counted yet make at least one descriptor ready; the thread that waits for it and then calls [`read`](Backend::read)
//!    counts these records.
//!
//! *Rejected alternatives:* One perf event for each thread and CPU, so that each CPU has its own readiness: then each switch would write a
//! record for each CPU. Or a thread of the library that reads all logs.

use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use umt_client::records::{self, PLACES, Position};
use wire::umt::Moves;

use crate::backend::{Backend, Counts, Of};
use crate::count::{Tally, Whereabouts};
use crate::watcher::{Watcher, close};

/// Logs are watched edge-triggered. Level triggering needs a readiness that lasts until the log has been read, but the kernel clears a
/// log's readiness as soon as any thread polls the log.
const EDGE: libc::c_int = libc::EPOLLIN | libc::EPOLLET;

/// The backend `perf`.
#[derive(Debug)]
pub struct Logs {
    state: Mutex<State>,
    /// Bit n is set if log n belongs to a registered thread, so that this library reads it. (A log's number is its place in the memory for logs.) The
    /// bits can be tested without the lock.
    followed: [AtomicU64; PLACES / 64],
    cpus: usize,
}

#[derive(Debug)]
struct State {
    places: Vec<Option<Follower>>,
    tally: Tally,
    /// For each CPU, the counts at the program's last read.
    reported: Vec<Reported>,
    /// How often records were overwritten before they were read.
    lost: u32,
    /// The descriptors: one for each CPU, and a last one for all CPUs together.
    watchers: Vec<Option<Watcher>>,
}

/// A registered thread, and how far its log has been read.
#[derive(Debug)]
struct Follower {
    position: Position,
    whereabouts: Whereabouts,
    log: RawFd,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    moves: Moves,
    lost: u32,
}

impl Logs {
    /// Makes the backend, without any registered thread.
    ///
    /// # Errors
    /// The kernel does not give this user records of its own threads.
    pub fn new(cpus: usize) -> io::Result<Logs> {
        records::probe()?;
        records::begin().ok_or_else(io::Error::last_os_error)?;
        let state = State {
            places: (0..PLACES).map(|_| None).collect(),
            tally: Tally::new(cpus),
            reported: vec![Reported::default(); cpus],
            lost: 0,
            watchers: (0..=cpus).map(|_| None).collect(),
        };
        Ok(Logs { state: Mutex::new(state), followed: [const { AtomicU64::new(0) }; PLACES / 64], cpus })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Logs {
    fn name(&self) -> &'static CStr {
        c"perf"
    }

    /// Does nothing: every block makes the descriptors ready, whatever the flags say.
    fn begin(&self, _: u32) {}

    /// Registers the calling thread: opens its log, which is read from now on.
    fn register(&self) -> io::Result<()> {
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
        // The thread leaves its CPU once. The kernel writes this switch to the thread's log, as its first record, so the thread is counted from now
        // on.
        umt_client::leave_once();
        Ok(())
    }

    fn unregister(&self) {
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

    fn end(&self) {
        self.followed.iter().for_each(|word| word.store(0, Ordering::Release));
        let mut state = self.state();
        state.places.iter_mut().for_each(|place| *place = None);
        state.watchers.iter_mut().for_each(|watcher| *watcher = None);
    }

    fn descriptor(&self, of: Of) -> io::Result<RawFd> {
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
        // The logs are watched edge-triggered, so records that are already in them do not make the new descriptor ready. Count these records now.
        state.follow_all();
        state.raise();
        Ok(raw)
    }

    fn read(&self, cpu: usize) -> io::Result<Option<Counts>> {
        let mut state = self.state();
        // Clear the readiness before reading the logs: an earlier switch is read below, and a later one makes the descriptor ready again.
        for slot in [cpu, self.cpus] {
            state.watchers[slot].iter().for_each(Watcher::hush);
        }
        state.follow_all();
        let now = Reported { moves: state.tally.on(cpu), lost: state.lost };
        let before = std::mem::replace(&mut state.reported[cpu], now);
        state.raise();
        let moves = now.moves.since(before.moves);
        Ok((moves != Moves::default()).then(|| Counts {
            blocked: moves.blocked,
            unblocked: moves.unblocked,
            lost: now.lost.wrapping_sub(before.lost),
        }))
    }

    /// Returns the number of registered threads that are ready on this CPU, according to the last record of each thread's log.
    fn ready(&self, cpu: usize) -> u32 {
        let is_there =
            |place: &u32| records::state(*place).is_some_and(|state| state.is_runnable && state.cpu as usize == cpu);
        let followed = self.followed.iter().enumerate().flat_map(|(at, word)| {
            let word = word.load(Ordering::Acquire);
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at as u32 * 64 + bit)
        });
        followed.filter(is_there).count() as u32
    }

    fn leave_to_parent(&self) {
        // If a thread of the parent held the lock at the fork, the descriptors stay open.
        let Ok(state) = self.state.try_lock() else { return };
        close(state.places.iter().flatten().map(|follower| follower.log));
        state.watchers.iter().flatten().for_each(Watcher::leave_to_parent);
    }
}

impl State {
    /// Reads the new records of all logs, and adds the blocks and unblocks that they show to the counts.
    fn follow_all(&mut self) {
        let State { places, tally, lost, .. } = self;
        for (place, follower) in places.iter_mut().enumerate() {
            let Some(Follower { position, whereabouts, .. }) = follower else { continue };
            if !records::follow(place as u32, position, |switch| whereabouts.goes_on(switch, tally)) {
                *lost = lost.wrapping_add(1);
            }
        }
    }

    /// Makes a descriptor ready if its CPU, or one of its CPUs, has a counted block that the program has not read. Makes the other
    /// descriptors not ready. Unblocks do not matter here, because the kernel does not make a log ready for them either.
    fn raise(&mut self) {
        let State { tally, reported, watchers, .. } = self;
        let mut any = false;
        for (cpu, watcher) in watchers.iter_mut().enumerate() {
            let is_new = reported.get(cpu).map_or(any, |reported| reported.moves.blocked != tally.on(cpu).blocked);
            any |= is_new;
            watcher.iter_mut().for_each(|watcher| watcher.raise(is_new));
        }
    }
}
