//! A packet of a trace: how it is begun and written, and the numbers in it.

use std::io::{self, Write};

use prost::Message;
use wire::Cause;

use super::proto::TracePacket;

/// Packets of one writer.
const SEQUENCE: u32 = 1;

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`: names are told once, in the first packet.
pub(super) const CLEARED: u32 = 1;
pub(super) const NEEDED: u32 = 2;

/// The number of CLOCK_BOOTTIME (`common/builtin_clock.proto`).
pub(super) const BOOTTIME: u32 = 6;

/// Writes a packet, as the field of a message that never ends.
pub(crate) fn put(out: &mut impl Write, packet: &TracePacket) -> io::Result<()> {
    // Field 1, with a length.
    let mut bytes = vec![1 << 3 | 2];
    prost::encoding::encode_varint(packet.encoded_len() as u64, &mut bytes);
    packet.encode(&mut bytes).map_err(io::Error::other)?;
    out.write_all(&bytes)
}

/// A packet in sequence, in which nothing is said yet.
pub(super) fn packet() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), sequence_flags: Some(NEEDED), ..TracePacket::default() }
}

/// The number of a cause's name; 0 would be none.
pub(super) fn iid(cause: Cause) -> u64 {
    cause as u64 + 1
}
