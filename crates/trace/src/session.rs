//! Stores a recording in a file and reads it back. The parts are in packets of a Perfetto trace, in a field that
//! viewers ignore ([`perfetto`](crate::perfetto)).
//!
//! 1. A head: start and end of the observed window, clock offsets, names, and the session's report as JSON.
//! 2. Blocks of trace events in order: fields in columns, times as differences, compressed.
//! 3. The number of trace events. If it is missing, the file was truncated.
//!
//! Files are not trusted: each length is checked against a limit before use.

use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use prost::Message;
use serde::{Deserialize, Serialize};
use wire::{LATEST_NS, MOST_CPUS, TraceEvent};

use crate::perfetto::packet::put;
use crate::perfetto::proto::{Part, TracePacket};
use crate::recording::{Recording, ThreadTable};
use crate::sorter::Sorter;

/// First byte of a trace: the tag of a packet. The byte is also a newline, so only a text whose first line is empty begins with it.
pub const FIRST_BYTE: u8 = 1 << 3 | 2;

/// Version of the format below.
const VERSION: u32 = 1;
/// Maximum number of trace events in one block of the file.
const EVENTS: usize = 1 << 16;
/// zstd compression level: zstd's default. The next levels are slower and hardly compress columns better.
const LEVEL: i32 = 3;
/// Maximum size of a packet, bytes. The head of 100,000 threads has 20 MB.
const PACKET: u64 = 256 << 20;
/// Maximum size of a decompressed head, bytes.
const HEAD: u64 = 256 << 20;
/// A decompressed head may have at most `HEAD_FROM_BYTE × compressed bytes + HEAD_FREE` bytes. For a head with 3,000 processes of the same program,
/// decompressed ÷ compressed bytes is 20.
const HEAD_FROM_BYTE: u64 = 128;
const HEAD_FREE: u64 = 8 << 20;
/// A recording may have at most `EVENTS_FROM_BYTE × compressed bytes + EVENTS_FREE` trace events; `EVENTS_FREE` is as many as are held in memory. The
/// time differs in each trace event, so a compressed event takes more than one bit. In a recording of two processes that only wake each other, it
/// takes 1.4 bytes. Because of the limit, the temporary files are at most 192 times as large as the recording. With a coarse clock, many events may
/// have the same time, so that a block becomes smaller than the limit allows. The writer then pads the block.
const EVENTS_FROM_BYTE: u64 = 8;
const EVENTS_FREE: u64 = 1 << 20;

/// Reasons why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A Perfetto trace without a recording of cox.
    #[error("this trace contains no recording of cox")]
    Foreign,
    /// Not a Perfetto trace.
    #[error("not a Perfetto trace")]
    NoTrace,
    /// Truncated or modified.
    #[error("the recording is damaged: {0}")]
    Damaged(&'static str),
    /// Written by a later version of cox.
    #[error("the recording has version {0}; this cox reads version {VERSION}")]
    Version(u32),
    /// The file cannot be read, or there is no room to sort it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Everything in the file but the trace events.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    start_ns: u64,
    end_ns: u64,
    boot_ns: u64,
    epoch_ns: u64,
    cpus: u32,
    #[serde(alias = "cast")]
    thread_table: ThreadTable,
    report: String,
}

/// Writes a recording, with the report of its session (JSON).
///
/// # Errors
/// When reading or writing fails.
pub fn write(recording: &Recording, report: &str, out: &mut impl Write) -> io::Result<()> {
    let head = Head {
        version: VERSION,
        start_ns: recording.start_ns,
        end_ns: recording.end_ns,
        boot_ns: recording.boot_ns,
        epoch_ns: recording.epoch_ns,
        cpus: recording.cpus,
        thread_table: recording.thread_table.clone(),
        report: report.to_owned(),
    };
    let head = serde_json::to_vec(&head)?;
    let head = deflate(&head, (head.len() as u64).saturating_sub(HEAD_FREE).div_ceil(HEAD_FROM_BYTE))?;
    part(out, Part { head: Some(head), ..Part::default() })?;
    let (mut some, mut count) = (Vec::with_capacity(EVENTS), 0);
    let flush = |some: &mut Vec<TraceEvent>, out: &mut _| {
        let bytes = deflate(&columns(some), (some.len() as u64).div_ceil(EVENTS_FROM_BYTE))?;
        some.clear();
        part(out, Part { trace_events: Some(bytes), ..Part::default() })
    };
    recording.each(|trace_event| -> io::Result<()> {
        some.push(*trace_event);
        count += 1;
        if some.len() < EVENTS { Ok(()) } else { flush(&mut some, out) }
    })?;
    if !some.is_empty() {
        flush(&mut some, out)?;
    }
    part(out, Part { count: Some(count), ..Part::default() })
}

fn part(out: &mut impl Write, part: Part) -> io::Result<()> {
    put(out, &TracePacket { cox: Some(part), ..TracePacket::default() })
}

/// Encodes trace events field by field. Times are written as differences, which are small and similar, so they compress
/// well.
fn columns(trace_events: &[TraceEvent]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(trace_events));
    let mut last_ns = 0;
    for trace_event in trace_events {
        bytes.extend(trace_event.t_ns.wrapping_sub(last_ns).to_le_bytes());
        last_ns = trace_event.t_ns;
    }
    bytes.extend(trace_events.iter().flat_map(|trace_event| trace_event.tid.to_le_bytes()));
    bytes.extend(trace_events.iter().flat_map(|trace_event| trace_event.other.to_le_bytes()));
    bytes.extend(trace_events.iter().flat_map(|trace_event| trace_event.cpu.to_le_bytes()));
    bytes.extend(trace_events.iter().map(|trace_event| trace_event.kind));
    bytes.extend(trace_events.iter().map(|trace_event| trace_event.detail));
    bytes.extend(trace_events.iter().flat_map(|trace_event| trace_event.more.to_le_bytes()));
    bytes
}

/// Decodes columns into trace events; `None` if the number of bytes is not a multiple of a trace event's size.
fn trace_events(bytes: &[u8]) -> Option<Vec<TraceEvent>> {
    /// Takes a column of fields that have `N` bytes.
    fn column<'b, const N: usize>(rest: &mut &'b [u8], count: usize) -> &'b [[u8; N]] {
        let (column, behind) = rest.split_at(count * N);
        *rest = behind;
        column.as_chunks().0
    }
    let count = bytes.len() / size_of::<TraceEvent>();
    if !bytes.len().is_multiple_of(size_of::<TraceEvent>()) {
        return None;
    }
    let mut rest = bytes;
    let times = column::<8>(&mut rest, count);
    let (tids, others) = (column::<4>(&mut rest, count), column::<4>(&mut rest, count));
    let cpus = column::<2>(&mut rest, count);
    let (kinds, details) = (column::<1>(&mut rest, count), column::<1>(&mut rest, count));
    let mores = column::<4>(&mut rest, count);
    let mut last_ns = 0u64;
    let trace_event = |at: usize| {
        last_ns = last_ns.wrapping_add(u64::from_le_bytes(times[at]));
        TraceEvent {
            t_ns: last_ns,
            tid: u32::from_le_bytes(tids[at]),
            other: u32::from_le_bytes(others[at]),
            cpu: u16::from_le_bytes(cpus[at]),
            kind: kinds[at][0],
            detail: details[at][0],
            more: u32::from_le_bytes(mores[at]),
        }
    };
    Some((0..count).map(trace_event).collect())
}

/// Reads a recording and the report of its session. Data that does not fit in memory goes to temporary files in
/// `folder`.
///
/// # Errors
/// See [`ReadError`].
pub fn read(file: &mut impl BufRead, folder: &Path) -> Result<(Recording, String), ReadError> {
    let mut head: Option<Head> = None;
    let mut sorter = Sorter::new(folder)?;
    let (mut count, mut told) = (0, None);
    let mut most_trace_events = EVENTS_FREE;
    let mut packets = 0;
    while let Some(packet) = next(file, packets == 0)? {
        packets += 1;
        let Some(part) = packet.cox else { continue };
        if let Some(bytes) = part.head {
            if head.is_some() {
                return Err(ReadError::Damaged("it has two headers"));
            }
            head = Some(unpack(&bytes)?);
        }
        if let Some(bytes) = part.trace_events {
            most_trace_events += EVENTS_FROM_BYTE * bytes.len() as u64;
            let bytes = inflate(&bytes, (EVENTS * size_of::<TraceEvent>()) as u64)?;
            let some = trace_events(&bytes).ok_or(ReadError::Damaged("a block of trace events has a wrong length"))?;
            count += some.len() as u64;
            if count > most_trace_events {
                return Err(ReadError::Damaged("its compressed data contains an impossible number of trace events"));
            }
            some.into_iter().try_for_each(|trace_event| sorter.push(trace_event))?;
        }
        told = told.or(part.count);
    }
    let Some(head) = head else { return Err(ReadError::Foreign) };
    if told != Some(count) {
        return Err(ReadError::Damaged("trace events are missing: the file was cut off"));
    }
    let Head { start_ns, end_ns, boot_ns, epoch_ns, cpus, thread_table, report, .. } = head;
    if end_ns < start_ns {
        return Err(ReadError::Damaged("its end is before its start"));
    }
    if [end_ns, boot_ns, epoch_ns].iter().any(|ns| *ns > LATEST_NS) || cpus > MOST_CPUS {
        return Err(ReadError::Damaged("its times or CPUs are out of range"));
    }
    let trace_events = sorter.sorted()?;
    Ok((Recording { start_ns, end_ns, boot_ns, epoch_ns, cpus, thread_table, waits: Vec::new(), trace_events }, report))
}

fn unpack(bytes: &[u8]) -> Result<Head, ReadError> {
    /// The one field that the header has in all versions of the format.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let text = inflate(bytes, HEAD.min(HEAD_FREE + HEAD_FROM_BYTE * bytes.len() as u64))?;
    let damaged = |_| ReadError::Damaged("its header cannot be read");
    let Version { version } = serde_json::from_slice(&text).map_err(damaged)?;
    if version != VERSION {
        return Err(ReadError::Version(version));
    }
    serde_json::from_slice(&text).map_err(damaged)
}

/// Compresses, and pads the result to at least `least` bytes, because [`read`] rejects a higher compression ratio.
fn deflate(bytes: &[u8], least: u64) -> io::Result<Vec<u8>> {
    /// Start of a frame that decoders skip (RFC 8878, 3.1.2). Four bytes with the length follow, then any bytes.
    const SKIPPED: [u8; 4] = 0x184d_2a50u32.to_le_bytes();
    let mut deflated = zstd::encode_all(bytes, LEVEL)?;
    let lacking = least.saturating_sub(deflated.len() as u64);
    if lacking > 0 {
        let filling = u32::try_from(lacking.saturating_sub(8)).map_err(io::Error::other)?;
        deflated.extend(SKIPPED);
        deflated.extend(filling.to_le_bytes());
        deflated.resize(deflated.len() + filling as usize, 0);
    }
    Ok(deflated)
}

/// Decompresses; fails if the result is longer than `most` bytes.
fn inflate(bytes: &[u8], most: u64) -> Result<Vec<u8>, ReadError> {
    let mut inflated = Vec::new();
    let damaged = |_| ReadError::Damaged("its compressed data is damaged");
    let decoder = zstd::Decoder::with_buffer(bytes).map_err(damaged)?;
    decoder.take(most + 1).read_to_end(&mut inflated).map_err(damaged)?;
    if inflated.len() as u64 > most { Err(ReadError::Damaged("a part of the file is too long")) } else { Ok(inflated) }
}

/// Returns the next packet; `None` at the end of the file.
fn next(file: &mut impl BufRead, is_first: bool) -> Result<Option<TracePacket>, ReadError> {
    let damaged = |why| if is_first { ReadError::NoTrace } else { ReadError::Damaged(why) };
    let mut tag = [0];
    if file.read(&mut tag)? == 0 {
        return if is_first { Err(ReadError::NoTrace) } else { Ok(None) };
    }
    if tag[0] != FIRST_BYTE {
        return Err(damaged("a packet has an invalid first byte"));
    }
    let length =
        varint(file)?.filter(|length| *length <= PACKET).ok_or_else(|| damaged("a packet's length is wrong"))?;
    // The buffer grows with the bytes that arrive, so a wrong length does not allocate memory.
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(damaged("the file was cut off"));
    }
    TracePacket::decode(&bytes[..]).map(Some).map_err(|_| damaged("a packet cannot be read"))
}

/// Reads a varint of at most ten bytes; `None` if it is longer or truncated.
fn varint(file: &mut impl Read) -> io::Result<Option<u64>> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if file.read(&mut byte)? == 0 {
            return Ok(None);
        }
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recordings of version 1 that an earlier cox wrote.
    #[test]
    fn older_names_of_the_thread_table_are_read() {
        let text = r#"{"version":1,"start_ns":1,"end_ns":2,"boot_ns":3,"epoch_ns":4,"cpus":5,"report":"",
            "cast":{"processes":{},"threads":{"7":{"name":"heat","process":7}},"strangers":{"9":"kworker"}}}"#;
        let head: Head = serde_json::from_str(text).expect("a head");
        assert_eq!((head.thread_table.name(7), head.thread_table.name(9)), (Some("heat"), Some("kworker")));
    }
}
