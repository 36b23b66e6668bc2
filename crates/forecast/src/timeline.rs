//! The detours of a node, prepared for the replay: in order of time over all CPUs, and per CPU.

use crate::lane::Lane;
use crate::recording::{Detour, Recording};

/// A detour on the common time axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub start: u64,
    pub length: u64,
    /// Index of the CPU.
    pub cpu: u32,
    pub cause: u16,
}

/// The detours of the CPUs that a node's ranks use.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub(crate) length: u64,
    /// Detours of all CPUs in order of time.
    pub(crate) events: Vec<Event>,
    pub(crate) lanes: Vec<Lane>,
}

impl Timeline {
    /// Prepares the first `cpus` CPUs of a valid recording.
    #[must_use]
    pub fn new(recording: &Recording, cpus: usize) -> Timeline {
        let cpus = &recording.cpus[..recording.cpus.len().min(cpus)];
        let mut events = Vec::with_capacity(cpus.iter().map(|cpu| cpu.detours.len()).sum());
        for (cpu, lane) in cpus.iter().enumerate() {
            let event = |d: &Detour| Event { start: d.start_ns, length: d.length_ns, cpu: cpu as u32, cause: d.cause };
            events.extend(lane.detours.iter().map(event));
        }
        // A merge of the CPUs' ordered lists.
        events.sort_by_key(|event| event.start);
        let lanes = cpus.iter().map(|cpu| Lane::new(recording.length_ns, &cpu.detours)).collect();
        Timeline { length: recording.length_ns, events, lanes }
    }

    /// Makes `other` the same time without the detours of one cause.
    pub fn without(&self, cause: u16, other: &mut Timeline) {
        other.length = self.length;
        other.events.clear();
        other.events.reserve(self.events.len());
        for run in self.events.split(|event| event.cause == cause) {
            other.events.extend_from_slice(run);
        }
        other.lanes.resize_with(self.lanes.len(), Lane::default);
        for (lane, other) in self.lanes.iter().zip(&mut other.lanes) {
            lane.without(cause, other);
        }
    }

    /// Returns the delay of the node's slowest CPU in a phase that begins at `at` (nanoseconds, in the recording) on
    /// all CPUs.
    #[must_use]
    pub fn delay(&self, at: u64, work: u64) -> u64 {
        self.lanes.iter().map(|lane| lane.delay(at, work)).max().unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::recording::Cpu;
    use random::Random;

    /// A short recording with random detours.
    pub(crate) fn random_recording(cpus: usize, random: &mut Random) -> Recording {
        let length_ns = 50 + random.below(200) as u64;
        let lane = |cpu: usize, random: &mut Random| {
            let mut detours = Vec::new();
            let mut at = random.below(20) as u64;
            loop {
                let length = 1 + random.below(12) as u64;
                if at + length > length_ns || detours.len() > 8 {
                    break;
                }
                detours.push(Detour { start_ns: at, length_ns: length, cause: random.below(2) as u16 });
                // Detours can touch each other.
                at += length + [0, 3, 17, 40][random.below(4)];
            }
            detours.retain(|_| random.below(5) > 0);
            Cpu { cpu: cpu as u32, detours }
        };
        let cpus = (0..cpus).map(|cpu| lane(cpu, random)).collect();
        Recording { length_ns, cpus, causes: vec!["a".into(), "b".into()] }
    }

    /// By definition, nanosecond by nanosecond.
    pub(crate) fn by_definition(recording: &Recording, cpu: usize, at: u64, work: u64) -> u64 {
        let detours = &recording.cpus[cpu].detours;
        let (mut now, mut done) = (at, 0);
        while done < work {
            let place = now % recording.length_ns;
            let disturbed = detours.iter().any(|d| (d.start_ns..d.start_ns + d.length_ns).contains(&place));
            done += u64::from(!disturbed);
            now += 1;
        }
        now - at - work
    }

    #[test]
    fn delays_are_those_of_the_definition() {
        let mut random = Random::new(1);
        let mut delayed = 0;
        for _ in 0..300 {
            let recording = random_recording(2, &mut random);
            if recording.check().is_err() {
                continue;
            }
            let timeline = Timeline::new(&recording, 2);
            for _ in 0..30 {
                let at = random.below(recording.length_ns as usize) as u64;
                let work = 1 + random.below(400) as u64;
                for cpu in 0..2 {
                    let expected = by_definition(&recording, cpu, at, work);
                    assert_eq!(timeline.lanes[cpu].delay(at, work), expected, "{recording:?} {at} {work}");
                    delayed += usize::from(expected > 0);
                }
            }
        }
        assert!(delayed > 5000, "{delayed}");
    }

    #[test]
    fn a_cause_can_be_left_out() {
        let recording = random_recording(2, &mut Random::new(5));
        let all = recording.cpus.iter().flat_map(|cpu| &cpu.detours);
        let others = all.filter(|detour| detour.cause == 0).count();
        assert!(others > 0);
        let mut without = Timeline::default();
        Timeline::new(&recording, 2).without(1, &mut without);
        assert_eq!((without.events.len(), without.lanes.len()), (others, 2));
        let kept: usize = without.lanes.iter().map(Lane::len).sum();
        assert_eq!(kept, others);
        assert_eq!(Timeline::new(&recording, 1).lanes.len(), 1);
    }

    #[test]
    fn without_a_cause_it_is_the_timeline_of_the_other_detours() {
        let mut random = Random::new(3);
        let mut without = Timeline::default();
        let mut removed = 0;
        for _ in 0..300 {
            let mut recording = random_recording(3, &mut random);
            if recording.check().is_err() {
                continue;
            }
            let cause = random.below(2) as u16;
            Timeline::new(&recording, 3).without(cause, &mut without);
            for cpu in &mut recording.cpus {
                removed += cpu.detours.len();
                cpu.detours.retain(|detour| detour.cause != cause);
                removed -= cpu.detours.len();
            }
            let expected = Timeline::new(&recording, 3);
            let starts = |timeline: &Timeline| timeline.events.iter().map(|event| event.start).collect::<Vec<u64>>();
            assert_eq!(starts(&without), starts(&expected));
            for at in 0..recording.length_ns {
                for cpu in 0..3 {
                    let (is, expected) = (&without.lanes[cpu], &expected.lanes[cpu]);
                    assert_eq!(is.delay(at, 1 + at % 90), expected.delay(at, 1 + at % 90), "{recording:?} {at}");
                    assert_eq!(is.disturbed(), expected.disturbed());
                }
            }
        }
        assert!(removed > 1000, "{removed}");
    }
}
