//! Each thread's clock, closed at the end of what is known of it.

use std::borrow::Cow;
use std::collections::HashMap;

use wire::{Clock, Record, State};

use crate::close::closed;

/// One thread's clock, closed at the end of what is known of it.
pub(super) struct Life<'r> {
    /// The record's own, but for a clock that had to be closed: what is not copied is not paged in.
    pub(super) clock: Cow<'r, Clock>,
    /// Still there at the end of the window.
    pub(super) alive: bool,
    /// The CPU it held when its clock was read.
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

/// Every clock of the record, closed: the living when they were read, the others as they are.
pub(super) fn lives(record: &Record) -> Vec<Life<'_>> {
    let past = record.clocks.iter().map(|clock| Life::of(clock, clock.since_ns));
    let present = record.living.iter().map(|living| Life::of(&living.clock, living.until_ns));
    past.chain(present).collect()
}

/// The thread that stands for each id: the one that ran longest.
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
