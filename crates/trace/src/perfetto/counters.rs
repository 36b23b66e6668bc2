//! Counters over time: the numbers of threads that run, that wait for a CPU, and that are blocked. Also marks lost trace events.

use std::collections::HashMap;

use wire::{Left, TraceEvent, What};

use super::packet::{INSTANT, packet};
use super::proto::{CounterDescriptor, TracePacket, TrackDescriptor, TrackEvent};

/// Minimum distance between two points of a counter, nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// The type of a [`TrackEvent`] with the value of a counter.
const COUNTER: i32 = 4;

/// State of a tracked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Run,
    Wait,
    Block,
}

/// Names of the counters with their units, in the order of [`Does`]. A counter's track number is its position, counted
/// from one. The track for losses has the next number.
const LINES: [(&str, &str); 3] = [
    ("CPUs in use (CPUs)", "CPUs"),
    ("threads waiting for a CPU (threads)", "threads"),
    ("blocked threads (threads)", "threads"),
];
const LOST: u64 = LINES.len() as u64 + 1;

/// Counts the tracked threads by state.
pub struct Counters {
    boot_ns: u64,
    threads: HashMap<u32, Does>,
    counts: [i64; LINES.len()],
    told: [Option<i64>; LINES.len()],
    told_ns: u64,
    last_ns: u64,
}

impl Counters {
    pub fn new(boot_ns: u64) -> Counters {
        Counters { boot_ns, threads: HashMap::new(), counts: [0; 3], told: [None; 3], told_ns: 0, last_ns: 0 }
    }

    /// Returns the descriptions of the tracks.
    pub fn tracks(&self) -> Vec<TracePacket> {
        let describe = |(uuid, (name, unit)): (u64, &(&str, &str))| {
            let counter = Some(CounterDescriptor { unit_name: Some((*unit).to_owned()) });
            TrackDescriptor { uuid: Some(uuid), name: Some((*name).to_owned()), counter, ..TrackDescriptor::default() }
        };
        let lost =
            TrackDescriptor { uuid: Some(LOST), name: Some("trace events lost".into()), ..TrackDescriptor::default() };
        let all = (1..).zip(&LINES).map(describe).chain([lost]);
        all.map(|descriptor| TracePacket { track_descriptor: Some(descriptor), ..packet() }).collect()
    }

    /// Adds a trace event. Returns the counter points that are now due.
    pub fn take(&mut self, trace_event: &TraceEvent) -> Vec<TracePacket> {
        // The counts so far were valid until this event, so write them before the update.
        let due = trace_event.t_ns.saturating_sub(self.told_ns) >= STEP_NS;
        let mut packets = if due { self.points(trace_event.t_ns) } else { Vec::new() };
        match trace_event.what() {
            Some(What::Switch { out, left, out_is_member, into, in_is_member, .. }) => {
                let does = match left {
                    Left::Preempted { .. } => Some(Does::Wait),
                    Left::Blocked(_) => Some(Does::Block),
                    Left::Dead => None,
                };
                if out_is_member {
                    self.does(out, does);
                }
                if in_is_member {
                    self.does(into, Some(Does::Run));
                }
            }
            Some(What::Waking { tid, .. }) if self.threads.get(&tid) == Some(&Does::Block) => {
                self.does(tid, Some(Does::Wait));
            }
            Some(What::Born { tid, .. }) => self.does(tid, Some(Does::Wait)),
            Some(What::Enrolled { tid, blocked: Some(_), .. }) => self.does(tid, Some(Does::Block)),
            Some(What::Lost { count }) => packets.push(self.lost(trace_event, count)),
            _ => {}
        }
        self.last_ns = trace_event.t_ns;
        packets
    }

    /// Returns the last points of the counters.
    pub fn rest(mut self) -> Vec<TracePacket> {
        self.points(self.last_ns)
    }

    fn does(&mut self, tid: u32, what: Option<Does>) {
        let before = match what {
            Some(what) => self.threads.insert(tid, what),
            None => self.threads.remove(&tid),
        };
        before.into_iter().for_each(|does| self.counts[does as usize] -= 1);
        what.into_iter().for_each(|does| self.counts[does as usize] += 1);
    }

    fn points(&mut self, t_ns: u64) -> Vec<TracePacket> {
        self.told_ns = t_ns;
        let mut packets = Vec::new();
        for ((uuid, count), told) in (1..).zip(self.counts).zip(&mut self.told) {
            if told.replace(count) != Some(count) {
                let (r#type, track_uuid, counter_value) = (Some(COUNTER), Some(uuid), Some(count));
                let event = TrackEvent { r#type, track_uuid, counter_value, ..TrackEvent::default() };
                let timestamp = Some(t_ns + self.boot_ns);
                packets.push(TracePacket { timestamp, track_event: Some(event), ..packet() });
            }
        }
        packets
    }

    fn lost(&self, trace_event: &TraceEvent, count: u32) -> TracePacket {
        let name = Some(format!("{count} trace events of CPU {} are missing after this point", trace_event.cpu));
        let event = TrackEvent { r#type: Some(INSTANT), track_uuid: Some(LOST), name, ..TrackEvent::default() };
        TracePacket { timestamp: Some(trace_event.t_ns + self.boot_ns), track_event: Some(event), ..packet() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_may_be_the_last_there_is() {
        let born = |t_ns, tid| TraceEvent::new(t_ns, 0, What::Born { tid, tgid: 7, parent_tgid: 1 });
        let mut counters = Counters::new(0);
        let points = [born(STEP_NS - 1, 7), born(STEP_NS, 8), born(u64::MAX - 1, 9), born(u64::MAX, 10)];
        // At the first time that is due all three lines have a point, later only those that have changed.
        assert_eq!(points.map(|trace_event| counters.take(&trace_event).len()), [0, 3, 1, 0]);
    }
}
