//! Builds and writes the packets of a trace, and defines their numeric values: ids, flags and event types.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use prost::Message;
use wire::Cause;

use super::proto::{Clock, TracePacket};

/// Number of the packet sequence that contains everything but the thread tracks.
const SEQUENCE: u32 = 1;

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`: names are defined once, in the first packet.
pub(super) const CLEARED: u32 = 1;
pub(super) const NEEDED: u32 = 2;

/// The numbers of clocks (`common/builtin_clock.proto`).
pub(super) const BOOTTIME: u32 = 6;
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;

/// The type of a [`TrackEvent`](super::proto::TrackEvent) without length.
pub(super) const INSTANT: i32 = 3;
/// The types of the events that begin and end a slice.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;

/// Returns a reading of a clock.
pub(super) fn clock(id: u32, timestamp: u64) -> Clock {
    Clock { clock_id: Some(id), timestamp: Some(timestamp), is_incremental: None }
}

/// Writes a packet. A trace is one protobuf message in which each packet is a field with number 1.
pub(crate) fn put(out: &mut impl Write, packet: &TracePacket) -> io::Result<()> {
    // The field's tag: number 1, wire type 2 (a length, then that number of bytes).
    let mut bytes = vec![1 << 3 | 2];
    prost::encoding::encode_varint(packet.encoded_len() as u64, &mut bytes);
    packet.encode(&mut bytes).map_err(io::Error::other)?;
    out.write_all(&bytes)
}

/// Returns a packet with these packets, compressed as by Perfetto's own tracing service.
pub(super) fn compressed(packets: &[u8]) -> io::Result<TracePacket> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(packets)?;
    Ok(TracePacket { compressed_packets: Some(zlib.finish()?), ..TracePacket::default() })
}

/// Returns an empty packet of the sequence [`SEQUENCE`].
pub(super) fn packet() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), sequence_flags: Some(NEEDED), ..TracePacket::default() }
}

/// Returns the number of a cause's name. 0 would mean that there is no name.
pub(super) fn iid(cause: Cause) -> u64 {
    cause as u64 + 1
}
