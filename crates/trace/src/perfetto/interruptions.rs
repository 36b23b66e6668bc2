//! What interrupted each thread, as slices on a track of its own under the thread's track: the thread's states are on that one, and a slice that begins
//! a moment before a switch and ends after it would not fit into them.
//!
//! All slices are in one packet sequence. Names are defined once, in its first packet; the class of a cause is the slice's category.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::packet::{CLEARED, INSTANT, NEEDED, SLICE_BEGIN, SLICE_END, compressed, put};
use super::proto::{EventName, InternedData, TracePacket, TrackDescriptor, TrackEvent};
use crate::interruptions::Interruptions;

/// Number of the packet sequence.
const SEQUENCE: u32 = 2;
/// Name of the tracks.
const NAME: &str = "interrupted by";
/// Name of the track that says whether some are missing.
const LEFT_OUT: &str = "interruptions left out";
/// First number of the tracks. All other tracks have lower numbers.
const FIRST_TRACK: u64 = 1 << 40;
/// Packets are collected until they have this number of bytes; then they are compressed together.
const BATCH: usize = 256 << 10;

/// Writes the packets. `tracks`: the track of each thread, by thread id.
///
/// # Errors
/// When writing fails.
pub fn write(
    interruptions: &Interruptions,
    boot_ns: u64,
    tracks: &BTreeMap<u32, u64>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut batch = Vec::new();
    put(&mut batch, &names(interruptions))?;
    let mut last_ns = 0;
    for (track, (tid, all)) in (FIRST_TRACK..).zip(interruptions.nested()) {
        put(&mut batch, &descriptor(track, tid, tracks.get(&tid).copied()))?;
        for (at_ns, one) in Interruptions::edges(&all) {
            let (r#type, iid) = one.map_or((SLICE_END, None), |one| (SLICE_BEGIN, Some(u64::from(one.cause) + 1)));
            // The categories have the numbers of the names.
            let event = TrackEvent {
                r#type: Some(r#type),
                track_uuid: Some(track),
                name_iid: iid,
                category_iids: iid.into_iter().collect(),
                ..TrackEvent::default()
            };
            put(&mut batch, &TracePacket { timestamp: Some(boot_ns + at_ns), track_event: Some(event), ..packet() })?;
            last_ns = last_ns.max(at_ns);
            if batch.len() > BATCH {
                flush(&mut batch, out)?;
            }
        }
    }
    if interruptions.left_out > 0 {
        let track = FIRST_TRACK - 1;
        let descriptor =
            TrackDescriptor { uuid: Some(track), name: Some(LEFT_OUT.into()), ..TrackDescriptor::default() };
        put(&mut batch, &TracePacket { track_descriptor: Some(descriptor), ..packet() })?;
        let name = format!("{} interruptions are missing after this point: there was no room", interruptions.left_out);
        let (r#type, track_uuid) = (Some(INSTANT), Some(track));
        let event = TrackEvent { r#type, track_uuid, name: Some(name), ..TrackEvent::default() };
        put(&mut batch, &TracePacket { timestamp: Some(boot_ns + last_ns), track_event: Some(event), ..packet() })?;
    }
    flush(&mut batch, out)
}

/// Returns the first packet, which defines the names and categories.
fn names(interruptions: &Interruptions) -> TracePacket {
    let of = |text: fn(&(String, String)) -> &String| {
        let numbered = (1..).zip(&interruptions.causes);
        numbered.map(|(iid, cause)| EventName { iid: Some(iid), name: Some(text(cause).clone()) }).collect()
    };
    let data = InternedData {
        event_categories: of(|(_, class)| class),
        event_names: of(|(name, _)| name),
        ..InternedData::default()
    };
    TracePacket { sequence_flags: Some(CLEARED), interned_data: Some(data), ..packet() }
}

/// Returns the packet that defines a thread's track: within that of its states, if it has one.
fn descriptor(track: u64, tid: u32, parent_uuid: Option<u64>) -> TracePacket {
    let name = if parent_uuid.is_some() { NAME.to_owned() } else { format!("thread {tid} {NAME}") };
    let descriptor = TrackDescriptor { uuid: Some(track), parent_uuid, name: Some(name), ..TrackDescriptor::default() };
    TracePacket { track_descriptor: Some(descriptor), ..packet() }
}

fn packet() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), sequence_flags: Some(NEEDED), ..TracePacket::default() }
}

fn flush(batch: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    put(out, &compressed(batch)?)?;
    batch.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Packets {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    /// Name and class of the cause, at the beginning of a slice.
    type Named = Option<(String, String)>;

    #[test]
    fn each_interruption_is_a_slice_under_the_track_of_its_thread() {
        let mut out = Vec::new();
        write(&Interruptions::example(), 1000, &BTreeMap::from([(7, 77)]), &mut out).unwrap();
        let zlib = Packets::decode(&out[..]).unwrap().packet[0].compressed_packets.clone().unwrap();
        let mut plain = Vec::new();
        io::copy(&mut flate2::read::ZlibDecoder::new(&zlib[..]), &mut plain).unwrap();
        let packets = Packets::decode(&plain[..]).unwrap().packet;
        let names = packets[0].interned_data.clone().unwrap();
        let named = |names: &[EventName], iid: u64| {
            names.iter().find(|name| name.iid == Some(iid)).and_then(|name| name.name.clone()).unwrap()
        };
        let tracks: Vec<(u64, Option<u64>, String)> = packets
            .iter()
            .filter_map(|packet| packet.track_descriptor.as_ref())
            .map(|track| (track.uuid.unwrap(), track.parent_uuid, track.name.clone().unwrap()))
            .collect();
        let described = [
            (FIRST_TRACK, Some(77), "interrupted by".to_owned()),
            (FIRST_TRACK + 1, None, "thread 8 interrupted by".to_owned()),
            (FIRST_TRACK - 1, None, LEFT_OUT.to_owned()),
        ];
        assert_eq!(tracks, described);
        let events: Vec<(u64, u64, Named)> = packets
            .iter()
            .filter_map(|packet| Some((packet.timestamp?, packet.track_event.clone()?)))
            .filter(|(_, event)| event.r#type != Some(INSTANT))
            .map(|(at, event)| {
                let told = event.name_iid.map(|iid| {
                    assert_eq!((event.r#type, event.category_iids.as_slice()), (Some(SLICE_BEGIN), &[iid][..]));
                    (named(&names.event_names, iid), named(&names.event_categories, iid))
                });
                (at, event.track_uuid.unwrap() - FIRST_TRACK, told)
            })
            .collect();
        let told = |name: &str, class: &str| Some((name.to_owned(), class.to_owned()));
        let expected = [
            (1100, 0, told("timer tick", "tick")),
            (1104, 0, told("softirq RCU", "softirq")),
            (1108, 0, None),
            (1110, 0, None),
            (1120, 0, told("thread a(9)", "thread")),
            (1150, 0, None),
            (1130, 1, told("IPI: TLB flush by b(8), munmap", "ipi")),
            (1132, 1, None),
        ];
        assert_eq!(events, expected);
        let mark = packets.iter().filter_map(|packet| packet.track_event.as_ref()?.name.clone()).next().unwrap();
        assert!(mark.starts_with("1 interruptions are missing"), "{mark}");
    }
}
