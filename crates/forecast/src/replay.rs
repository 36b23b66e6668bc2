//! Chained phases of one node, replayed from its recording.
//!
//! A phase begins on all CPUs of the node at the same instant. A CPU ends it when it has had its work of undisturbed
//! time: detours that begin in the part by which others made the phase longer count, too. The node ends when its
//! slowest CPU does, and the next phase begins there. So no phase begins within a detour of the CPU that ended last.
//!
//! The replay has two forms with the same result. If phases are longer than the time between detours, each CPU's end
//! is looked up in running sums. If they are shorter, one walk over the detours of all CPUs counts the undisturbed
//! phases between them by division, so it costs as many steps as there are detours, for any work. Phases per pass of
//! the recording: its length divided by the work; steps: at most the number of detours and disturbed phases.
//!
//! Each pass consists of segments with first offsets of their own, because a chain on periodic noise can stay on the
//! same few offsets. If the recording has few phases, more passes with other offsets follow. Their windows overlap with
//! those of the first pass, so they make the law smoother, but they are not counted as more observations.

use random::Random;

use crate::timeline::{Event, Timeline};

/// Segments of a pass.
const SEGMENTS: u64 = 16;
/// Phases that a segment must have.
const PER_SEGMENT: u64 = 256;
/// Phases for which more passes are made.
const PHASES: u64 = 2048;
/// Largest number of passes.
const PASSES: u64 = 16;

/// The delays of chained phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delays {
    /// Delays that are not 0, in nanoseconds, in order of time within each pass.
    pub positive: Vec<f64>,
    /// Number of each of these phases, from 0.
    pub phase: Vec<u64>,
    /// Phases without delay.
    pub zeros: u64,
    /// How often the recording was replayed.
    pub passes: u32,
}

/// Replays the recording with this work per phase, in nanoseconds, and puts the delays into `delays` instead of what is
/// there. The work must not be 0.
pub fn replay(timeline: &Timeline, work: u64, random: &mut Random, delays: &mut Delays) {
    let phases = timeline.length / work;
    let passes = if phases < PHASES { (PHASES / phases.max(1)).clamp(1, PASSES) } else { 1 };
    let segments = (phases / PER_SEGMENT).clamp(1, SEGMENTS);
    let by_sums = phases * timeline.lanes.len() as u64 * 16 < timeline.events.len() as u64;
    delays.positive.clear();
    delays.phase.clear();
    delays.zeros = 0;
    delays.passes = passes as u32;
    let most = timeline.events.len().min((phases * passes) as usize);
    delays.positive.reserve(most);
    delays.phase.reserve(most);
    let mut walk = Walk::new(timeline, work);
    for pass in 0..passes {
        for segment in 0..segments {
            // The offsets of the passes divide the work evenly.
            let offset = ((pass as f64 + random.unit()) / passes as f64 * work as f64) as u64;
            let from = timeline.length * segment / segments;
            let until = timeline.length * (segment + 1) / segments + offset;
            if by_sums {
                by_running_sums(timeline, work, from + offset, until, delays);
            } else {
                walk.run(from + offset, until, delays);
            }
        }
    }
}

impl Delays {
    fn add(&mut self, delay: u64) {
        if delay > 0 {
            self.phase.push(self.zeros + self.positive.len() as u64);
            self.positive.push(delay as f64);
        } else {
            self.zeros += 1;
        }
    }
}

/// Replays the phases that begin from `from` to before `until`. The first phase, which can begin within a detour, only
/// settles the begin of the next.
fn by_running_sums(timeline: &Timeline, work: u64, from: u64, until: u64, delays: &mut Delays) {
    let delay = |begin: u64| timeline.delay(begin % timeline.length, work);
    let mut begin = from + work + delay(from);
    // As much time as the segment has.
    let until = until + begin - from;
    while begin < until {
        let delay = delay(begin);
        delays.add(delay);
        begin += work + delay;
    }
}

/// The walk over the detours of all CPUs.
struct Walk<'a> {
    timeline: &'a Timeline,
    work: u64,
    /// 1 / work.
    per_time: f64,
    /// End of the phase on each CPU; valid if the stamp is the number of the phase.
    ends: Vec<(u64, u64)>,
    stamp: u64,
    /// Detours that are in progress: their ends, and CPUs.
    in_progress: Vec<(u64, u32)>,
    /// Detours that begin after the end of their CPU's phase.
    after: Vec<(u64, u32)>,
    /// The next detour, and begin of the pass that it is in.
    next: usize,
    pass_start: u64,
}

impl<'a> Walk<'a> {
    fn new(timeline: &'a Timeline, work: u64) -> Walk<'a> {
        let ends = vec![(0, 0); timeline.lanes.len()];
        let (in_progress, after) = (Vec::new(), Vec::new());
        Walk { timeline, work, per_time: 1.0 / work as f64, ends, stamp: 0, in_progress, after, next: 0, pass_start: 0 }
    }

    fn event(&self) -> Event {
        let event = self.timeline.events[self.next];
        Event { start: event.start + self.pass_start, ..event }
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.timeline.events.len() {
            self.next = 0;
            self.pass_start += self.timeline.length;
        }
    }

    /// Returns `time / work`, which a division of integers finds several times more slowly.
    fn phases_in(&self, time: u64) -> u64 {
        let near = (time as i64 as f64 * self.per_time) as i64 as u64;
        // The product is less than 1 off, so the result is `near` or a neighbour.
        let rest = time.wrapping_sub(near.wrapping_mul(self.work)) as i64;
        near.wrapping_sub(u64::from(rest < 0)) + u64::from(rest >= self.work as i64)
    }

    /// As [`by_running_sums`].
    fn run(&mut self, from: u64, until: u64, delays: &mut Delays) {
        if self.timeline.events.is_empty() {
            delays.zeros += (until - from).div_ceil(self.work);
            return;
        }
        let length = self.timeline.length;
        let mut begin = from + self.work + self.timeline.delay(from % length, self.work);
        let until = until + begin - from;
        self.start(begin);
        while begin < until {
            if self.in_progress.is_empty() {
                begin = self.short_phases(begin, until, delays);
                if begin >= until {
                    break;
                }
            }
            let end = self.phase(begin);
            delays.add(end - begin - self.work);
            begin = end;
        }
    }

    /// Replays phases from `begin` on, at which no detour is in progress, as long as they have no detour, or one that is
    /// over before the next one begins: most short phases. Returns their end, which is at least `until` if none is left.
    fn short_phases(&mut self, begin: u64, until: u64, delays: &mut Delays) -> u64 {
        let (work, pass_start, mut begin) = (self.work, self.pass_start, begin);
        let mut events = self.timeline.events[self.next..].iter();
        let Some(mut event) = events.next() else { return begin };
        while begin < until {
            let idle = self.phases_in((event.start + pass_start).saturating_sub(begin));
            if begin + idle * work >= until {
                delays.zeros += (until - begin).div_ceil(work);
                begin = until;
                break;
            }
            delays.zeros += idle;
            begin += idle * work;
            let end = begin + work + event.length;
            match events.next() {
                Some(after) if after.start + pass_start >= end => event = after,
                _ => break,
            }
            // The detour `event` was before.
            self.next += 1;
            delays.add(end - begin - work);
            begin = end;
        }
        begin
    }

    /// Finds the detours that are in progress at `begin`, and the first one after.
    fn start(&mut self, begin: u64) {
        let (pass_start, at) = (begin / self.timeline.length * self.timeline.length, begin % self.timeline.length);
        self.in_progress.clear();
        for (cpu, lane) in self.timeline.lanes.iter().enumerate() {
            if let Some(end) = lane.in_progress(at) {
                self.in_progress.push((pass_start + end, cpu as u32));
            }
        }
        self.pass_start = pass_start;
        self.next = self.timeline.events.partition_point(|event| event.start < at);
        if self.next == self.timeline.events.len() {
            self.next = 0;
            self.pass_start += self.timeline.length;
        }
    }

    /// Replays one phase and repasses its end.
    fn phase(&mut self, begin: u64) -> u64 {
        self.stamp += 1;
        let ready = begin + self.work;
        let mut end = ready;
        for (detour_end, cpu) in self.in_progress.drain(..) {
            let on_cpu = ready + (detour_end - begin);
            self.ends[cpu as usize] = (self.stamp, on_cpu);
            end = end.max(on_cpu);
        }
        loop {
            let event = self.event();
            if event.start >= end {
                break;
            }
            let (stamp, mut on_cpu) = self.ends[event.cpu as usize];
            if stamp != self.stamp {
                on_cpu = ready;
            }
            if event.start < on_cpu {
                on_cpu += event.length;
                end = end.max(on_cpu);
                self.ends[event.cpu as usize] = (self.stamp, on_cpu);
            } else {
                self.after.push((event.start + event.length, event.cpu));
            }
            self.advance();
        }
        if !self.after.is_empty() {
            self.in_progress.extend(self.after.drain(..).filter(|(detour_end, _)| *detour_end > end));
        }
        end
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::recording::{Cpu, Detour, Recording};
    use crate::timeline::tests::{by_definition, random_recording};

    #[test]
    fn the_walk_is_the_definition() {
        let mut random = Random::new(2);
        let mut delayed = 0;
        for _ in 0..400 {
            let recording = random_recording(3, &mut random);
            if recording.check().is_err() {
                continue;
            }
            let timeline = Timeline::new(&recording, 3);
            let work = 1 + random.below(30) as u64;
            let from = random.below(recording.length_ns as usize) as u64;
            let until = from + 3 * recording.length_ns;
            let (mut walked, mut looked_up, mut expected) = (Delays::default(), Delays::default(), Delays::default());
            Walk::new(&timeline, work).run(from, until, &mut walked);
            by_running_sums(&timeline, work, from, until, &mut looked_up);
            let node = |at: u64| (0..3).map(|cpu| by_definition(&recording, cpu, at, work)).max().unwrap();
            let mut begin = from + work + node(from);
            let until = until + begin - from;
            while begin < until {
                let delay = node(begin);
                expected.add(delay);
                begin += work + delay;
            }
            assert_eq!(walked, expected, "{recording:?} {work} {from}");
            assert_eq!(looked_up, expected);
            delayed += expected.positive.len();
        }
        assert!(delayed > 5000, "{delayed}");
    }

    /// Detours of `length` each `period` on each CPU, from these offsets, for a second.
    pub(crate) fn periodic(period: u64, length: u64, offsets: &[u64]) -> Recording {
        let lane = |offset: u64| {
            let starts = (offset..1_000_000_000 - length).step_by(period as usize);
            starts.map(|start_ns| Detour { start_ns, length_ns: length, cause: 0 }).collect()
        };
        let cpus = offsets.iter().enumerate().map(|(cpu, offset)| Cpu { cpu: cpu as u32, detours: lane(*offset) });
        Recording { length_ns: 1_000_000_000, cpus: cpus.collect(), causes: vec!["tick".into()] }
    }

    /// 500 µs each 10 ms on both CPUs of a node. In step, 9.5 ms of each period are undisturbed: S − 1 = 0.5/9.5. Half a
    /// period apart, each CPU waits for the detours of the other, so 9 ms are: S − 1 = 1/9.
    #[test]
    fn ticks_of_two_cpus_cost_more_apart_than_in_step() {
        let (period, length, work) = (10_000_000, 500_000, 1_000_000);
        for (offsets, expected) in [([1_000_000, 1_000_000], 0.5 / 9.5), ([1_000_000, 6_000_000], 1.0 / 9.0)] {
            let recording = periodic(period, length, &offsets);
            let mut delays = Delays::default();
            replay(&Timeline::new(&recording, 2), work, &mut Random::new(1), &mut delays);
            let phases = delays.positive.len() as f64 + delays.zeros as f64;
            let mean = delays.positive.iter().sum::<f64>() / phases / work as f64;
            assert!((mean - expected).abs() < 0.001, "{mean}, not {expected}");
        }
    }

    #[test]
    fn a_quiet_recording_has_phases_without_delay() {
        let recording = periodic(2_000_000_000, 1, &[999_999_999]);
        let mut delays = Delays::default();
        replay(&Timeline::new(&recording, 1), 1_000, &mut Random::new(1), &mut delays);
        assert!(delays.positive.is_empty() && (999_000..1_001_000).contains(&delays.zeros), "{}", delays.zeros);
    }
}
