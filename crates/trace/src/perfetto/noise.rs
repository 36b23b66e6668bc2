//! Detours of CPUs as slices, one track for each CPU.

use std::io::{self, Write};

use super::packet::{BOOTTIME, CLEARED, MONOTONIC, REALTIME, SLICE_BEGIN, SLICE_END, clock, packet, put};
use super::proto::{ClockSnapshot, TracePacket, TrackDescriptor, TrackEvent};
use crate::noise::Noise;

/// Number of the first CPU's track.
const FIRST_TRACK: u64 = 1;

/// Writes a trace.
///
/// # Errors
/// When writing fails.
pub fn write(noise: &Noise, out: &mut impl Write) -> io::Result<()> {
    let [monotonic, boot, real] = noise.begin_ns;
    let clocks = vec![clock(BOOTTIME, boot), clock(MONOTONIC, monotonic), clock(REALTIME, real)];
    put(
        out,
        &TracePacket {
            sequence_flags: Some(CLEARED),
            timestamp: Some(boot),
            clock_snapshot: Some(ClockSnapshot { clocks }),
            ..packet()
        },
    )?;
    for (track, cpu) in (FIRST_TRACK..).zip(&noise.cpus) {
        let name = Some(format!("CPU {}", cpu.cpu));
        let descriptor = TrackDescriptor { uuid: Some(track), name, ..TrackDescriptor::default() };
        put(out, &TracePacket { track_descriptor: Some(descriptor), ..packet() })?;
        for (begin, length, cause) in &cpu.detours {
            let name = noise.causes.get(*cause as usize).map(|(name, _)| name.clone());
            event(out, track, boot + begin, SLICE_BEGIN, name)?;
            event(out, track, boot + begin + length, SLICE_END, None)?;
        }
    }
    Ok(())
}

fn event(out: &mut impl Write, track: u64, at_ns: u64, kind: i32, name: Option<String>) -> io::Result<()> {
    let event = TrackEvent { r#type: Some(kind), track_uuid: Some(track), name, ..TrackEvent::default() };
    put(out, &TracePacket { timestamp: Some(at_ns), track_event: Some(event), ..packet() })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packets: Vec<TracePacket>,
    }

    #[test]
    fn each_detour_is_a_slice_on_its_cpus_track() {
        let mut bytes = Vec::new();
        write(&Noise::example(), &mut bytes).unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let tracks: Vec<(u64, String)> = trace
            .packets
            .iter()
            .filter_map(|packet| packet.track_descriptor.as_ref())
            .map(|track| (track.uuid.unwrap(), track.name.clone().unwrap()))
            .collect();
        assert_eq!(tracks.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["CPU 3", "CPU 7"]);
        let events = |track: u64| -> Vec<(u64, TrackEvent)> {
            let of = trace.packets.iter().filter_map(|packet| Some((packet.timestamp?, packet.track_event.clone()?)));
            of.filter(|(_, event)| event.track_uuid == Some(track)).collect()
        };
        let first: Vec<(u64, Option<String>)> =
            events(tracks[0].0).into_iter().map(|(at, event)| (at, event.name)).collect();
        let name = |name: &str| Some(name.to_owned());
        // On CLOCK_BOOTTIME.
        assert_eq!(first, [(5010, name("timer tick")), (5015, None), (5040, name("thread a(1)")), (5060, None)]);
        assert_eq!(events(tracks[1].0).len(), 4);
    }
}
