//! Sorts the events of several CPUs' buffers by time, and holds back as few of them as possible.
//!
//! perf empties the buffers one after another and then writes a mark; the events between two marks are a round. Some
//! events of a round may be later than some events of the next round. But no event of the round after the next one is
//! earlier than the last event of this round. Therefore, at each mark, all events are passed on that are not later than
//! the last event before the *previous* mark.

use std::io;

use crate::event::Event;

/// The content of a decoded record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decoded {
    /// A scheduler event.
    Event(Event),
    /// A mark. perf writes one each time it has emptied the buffers of all CPUs.
    Mark,
}

/// Maximum number of events (200 MB) that are held back to be sorted. A recording without perf's marks is sorted in
/// pieces of this size. An event that is further out of order counts as late.
const MOST: usize = 2 << 20;

/// Sorts events by time. Holds back the events that may be later than events still to come.
#[derive(Debug)]
pub(crate) struct Rounds {
    held: Vec<Event>,
    most: usize,
    /// Latest event time seen so far.
    last_ns: u64,
    /// Value of `last_ns` at the last mark, which perf writes after it has emptied the buffers of all CPUs.
    marked_ns: u64,
    passed_ns: u64,
    /// Number of events that came too late to be sorted: an event with a later time had already been passed on.
    pub(crate) late: u64,
}

impl Rounds {
    pub(crate) fn new() -> Rounds {
        Rounds { held: Vec::new(), most: MOST, last_ns: 0, marked_ns: 0, passed_ns: 0, late: 0 }
    }

    /// Takes the content of a record, and passes on the events whose order is now certain.
    pub(crate) fn take(&mut self, decoded: Decoded, mut each: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        match decoded {
            // Time 0: perf wrote this event at the start of the recording, about a thread that already existed.
            Decoded::Event(event) if event.t_ns == 0 => each(&event),
            Decoded::Event(event) => self.push(event, each),
            Decoded::Mark => self.mark(each),
        }
    }

    /// Adds an event. If the maximum number of events is held back, passes on the earlier half of them.
    fn push(&mut self, event: Event, each: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        self.last_ns = self.last_ns.max(event.t_ns);
        self.late += u64::from(event.t_ns < self.passed_ns);
        self.held.push(event);
        if self.held.len() < self.most {
            return Ok(());
        }
        self.held.sort_by_key(|event| event.t_ns);
        let until_ns = self.held[self.held.len() / 2].t_ns;
        self.hand_on(until_ns, each)
    }

    /// Handles a mark, which perf writes each time it has emptied the buffers of all CPUs.
    fn mark(&mut self, each: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        let until_ns = std::mem::replace(&mut self.marked_ns, self.last_ns);
        self.held.sort_by_key(|event| event.t_ns);
        self.hand_on(until_ns, each)
    }

    /// Passes on the remaining events.
    pub(crate) fn finish(&mut self, each: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        self.held.sort_by_key(|event| event.t_ns);
        self.hand_on(u64::MAX, each)
    }

    /// Passes on the held events up to `until_ns`. They must be sorted.
    fn hand_on(&mut self, until_ns: u64, each: impl FnMut(&Event) -> io::Result<()>) -> io::Result<()> {
        let count = self.held.partition_point(|event| event.t_ns <= until_ns);
        if let Some(last) = self.held[..count].last() {
            self.passed_ns = self.passed_ns.max(last.t_ns);
        }
        self.held.drain(..count).as_slice().iter().try_for_each(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;

    fn at(t_ns: u64) -> Event {
        Event { t_ns, cpu: 0, pid: 0, tid: 0, kind: Kind::Lost { count: 1 } }
    }

    #[test]
    fn a_window_is_two_rounds() {
        let (mut rounds, mut seen) = (Rounds::new(), Vec::new());
        let each = |seen: &mut Vec<u64>, event: &Event| {
            seen.push(event.t_ns);
            Ok(())
        };
        for t_ns in [10, 30, 5, 20] {
            rounds.push(at(t_ns), |event| each(&mut seen, event)).unwrap();
        }
        rounds.mark(|event| each(&mut seen, event)).unwrap();
        assert_eq!(seen, [0u64; 0]);
        for t_ns in [31, 50, 25] {
            rounds.push(at(t_ns), |event| each(&mut seen, event)).unwrap();
        }
        rounds.mark(|event| each(&mut seen, event)).unwrap();
        assert_eq!(seen, [5, 10, 20, 25, 30]);
        rounds.push(at(7), |event| each(&mut seen, event)).unwrap();
        rounds.finish(|event| each(&mut seen, event)).unwrap();
        assert_eq!(seen, [5, 10, 20, 25, 30, 7, 31, 50]);
        assert_eq!(rounds.late, 1);
    }

    #[test]
    fn without_marks_it_holds_no_more_than_it_may() {
        let (mut rounds, mut seen) = (Rounds { most: 8, ..Rounds::new() }, 0);
        for t_ns in 0..100 {
            rounds
                .push(at(t_ns ^ 1), |_| {
                    seen += 1;
                    Ok(())
                })
                .unwrap();
            assert!(rounds.held.len() < 8);
        }
        assert!(seen > 80 && rounds.late == 0, "{seen} {}", rounds.late);
    }
}
