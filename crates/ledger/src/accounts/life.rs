//! The clock (account of time) of each thread. To clocks of living threads, the time from the last event to the reading of the clock is added (see
//! [`crate::close`]).

use std::borrow::Cow;
use std::collections::HashMap;

use wire::{Clock, Record, State};

use crate::close::closed;

/// One thread, and its clock up to the thread's end, or up to the time when the clock was read.
pub(super) struct Life<'r> {
    /// The thread's account of time. If the thread has exited, this borrows the record's clock, to avoid copying it. Otherwise this is a copy,
    /// to which [`closed`] has added the time since the thread's last event.
    pub(super) clock: Cow<'r, Clock>,
    /// True if the thread lived at the end of the window.
    pub(super) alive: bool,
    /// The CPU on which the thread ran when its clock was read.
    pub(super) on_cpu: Option<u16>,
}

impl<'r> Life<'r> {
    fn of(clock: &'r Clock, until_ns: u64) -> Life<'r> {
        let state = State::from_wire(clock.state);
        Life {
            clock: if state == State::Dead { Cow::Borrowed(clock) } else { Cow::Owned(closed(clock, until_ns)) },
            alive: state != State::Dead,
            on_cpu: (state == State::Run).then_some(clock.cpu),
        }
    }
}

/// Returns all threads of the record. For a living thread, the time from its last event to the reading of its clock is added.
pub(super) fn lives(record: &Record) -> Vec<Life<'_>> {
    let past = record.clocks.iter().map(|clock| Life::of(clock, clock.since_ns));
    let present = record.living.iter().map(|living| Life::of(&living.clock, living.until_ns));
    past.chain(present).collect()
}

/// Returns the index of one thread for each thread id. If several threads had the same id, this is the one that ran longest.
pub(super) fn owners(lives: &[Life<'_>]) -> HashMap<u32, usize> {
    let mut owners: HashMap<u32, usize> = HashMap::new();
    for (i, life) in lives.iter().enumerate() {
        let owner = owners.entry(life.clock.tid).or_insert(i);
        if life.clock.run_ns > lives[*owner].clock.run_ns {
            *owner = i;
        }
    }
    owners
}
