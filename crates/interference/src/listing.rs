//! The intervals themselves, for pictures over time, as many as there is room for.

use crate::interval::Interval;

/// A list of intervals that does not grow beyond its room. The first intervals stay, as in the list of a measuring loop: a picture then ends early, and
/// has no gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    room: usize,
    all: Vec<Interval>,
    left_out: u64,
}

impl Listing {
    /// Makes an empty list for at most `room` intervals.
    #[must_use]
    pub fn with_room_for(room: usize) -> Listing {
        Listing { room, ..Listing::default() }
    }

    /// Adds an interval; counts it if there is no room.
    pub fn take(&mut self, interval: &Interval) {
        if self.all.len() < self.room {
            self.all.push(*interval);
        } else {
            self.left_out += 1;
        }
    }

    /// Returns the intervals, in the order in which they ended on each CPU.
    #[must_use]
    pub fn all(&self) -> &[Interval] {
        &self.all
    }

    /// Returns the number of intervals for which there was no room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CauseId, Span};

    #[test]
    fn the_first_intervals_stay_and_the_others_are_counted() {
        let interval = |begin_ns| {
            let span = Span { begin_ns, end_ns: begin_ns + 1, inside_ns: 1, outermost: true };
            Interval { tid: 7, cpu: 0, span, cause: CauseId(0) }
        };
        let mut listing = Listing::with_room_for(2);
        (0..5).for_each(|at| listing.take(&interval(at)));
        assert_eq!((listing.all(), listing.left_out()), (&[interval(0), interval(1)][..], 3));
        let mut none = Listing::default();
        none.take(&interval(0));
        assert!(none.all().is_empty());
    }
}
