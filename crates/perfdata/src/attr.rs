//! Locates time, thread, CPU and payload in a record. `perf_event_attr` defines the fields of a sample
//! (perf_event_open(2)). All fields before the variable ones have fixed offsets, which are computed once per event.

use crate::bytes::{Rest, u32_at, u64_at};

/// Bits of `sample_type`. Each bit adds a field to a sample, and thereby shifts the fields after that field.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// Bits of `read_format`: enabled time, running time, the event's id, all events of a group, and the number of lost
/// samples.
const READ_ENABLED: u64 = 1 << 0;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;
/// Flag bit: records other than samples end with time, thread and other sample fields.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// Event type: a tracepoint.
const TRACEPOINT: u32 = 2;
/// Maximum number of calls in a call chain, and of events in a group. The kernel's default limit for call chains is 127
/// and can be raised.
const DEEPEST: u64 = 8192;

/// Time, CPU and thread of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) t_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
}

/// The attributes that one event was recorded with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    kind: u32,
    config: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
}

impl Attr {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Attr> {
        let [config, sample_type, read_format, flags] = [8, 24, 32, 40].map(|at| u64_at(bytes, at));
        Some(Attr {
            kind: u32_at(bytes, 0)?,
            config: config?,
            sample_type: sample_type?,
            read_format: read_format?,
            flags: flags?,
        })
    }

    /// Returns the tracepoint's number; `None` if the event is not a tracepoint.
    pub(crate) fn tracepoint(&self) -> Option<u64> {
        (self.kind == TRACEPOINT).then_some(self.config)
    }

    fn has(&self, part: u64) -> bool {
        self.sample_type & part != 0
    }

    /// Returns the event's id from a sample.
    pub(crate) fn id_of_sample(&self, body: &[u8]) -> Option<u64> {
        if self.has(IDENTIFIER) {
            return u64_at(body, 0);
        }
        let before = [IP, TID, TIME, ADDR].into_iter().filter(|part| self.has(*part)).count();
        self.has(ID).then(|| u64_at(body, before * 8)).flatten()
    }

    /// Returns the event's id from a record that is not a sample.
    pub(crate) fn id_of_record(&self, body: &[u8]) -> Option<u64> {
        if !self.has(IDENTIFIER) || self.flags & SAMPLE_ID_ALL == 0 {
            return None;
        }
        u64_at(body, body.len().checked_sub(8)?)
    }

    /// Returns the layout of the event's samples; `None` if they have no payload.
    pub(crate) fn shape(&self) -> Option<Shape> {
        let offset = |before: &[u64]| 8 * before.iter().filter(|part| self.has(**part)).count();
        let place = |part, before: &[u64]| self.has(part).then(|| offset(before));
        self.has(RAW).then(|| Shape {
            tid: place(TID, &[IDENTIFIER, IP]),
            time: place(TIME, &[IDENTIFIER, IP, TID]),
            cpu: place(CPU, &[IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID]),
            fixed: offset(&[IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD]),
            counts: self.has(READ).then_some(self.read_format),
            has_calls: self.has(CALLCHAIN),
        })
    }

    /// Returns the stamp (time, CPU and thread) at the end of a record that is not a sample; `None` if the record has none.
    pub(crate) fn stamp_of_record(&self, body: &[u8]) -> Option<Stamp> {
        if self.flags & SAMPLE_ID_ALL == 0 {
            return None;
        }
        let parts = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let words = parts.iter().filter(|part| self.has(**part)).count();
        let mut rest = Rest(body.get(body.len().checked_sub(8 * words)?..)?);
        let mut stamp = Stamp::default();
        for part in parts {
            match part {
                _ if !self.has(part) => {}
                TID => (stamp.pid, stamp.tid) = (rest.u32()? as i32, rest.u32()? as i32),
                TIME => stamp.t_ns = rest.u64()?,
                CPU => {
                    stamp.cpu = rest.u32()?;
                    rest.u32()?;
                }
                _ => rest.u64().map(|_| ())?,
            }
        }
        Some(stamp)
    }
}

/// The layout of a sample's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Offset of the process id. The thread id follows it.
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    /// Total size of the sample's first fields, whose sizes are constant. The counter values, the call chain and the
    /// payload come after these fields.
    fixed: usize,
    /// The event's `read_format`, if its samples contain counter values: the bits define how these are laid out.
    counts: Option<u64>,
    has_calls: bool,
}

impl Shape {
    /// Returns a sample's stamp (time, CPU and thread) and its payload; `None` if the sample is shorter than its size
    /// fields say.
    #[inline]
    pub(crate) fn sample<'b>(&self, body: &'b [u8]) -> Option<(Stamp, &'b [u8])> {
        let mut rest = Rest(body.get(self.fixed..)?);
        if let Some(format) = self.counts {
            skip_counts(format, &mut rest)?;
        }
        if self.has_calls {
            let calls = rest.u64().filter(|calls| *calls <= DEEPEST)?;
            rest.take(8 * calls)?;
        }
        let size = rest.u32()?;
        let payload = rest.take(size.into())?;
        let mut stamp = Stamp::default();
        if let Some(at) = self.tid {
            (stamp.pid, stamp.tid) = (u32_at(body, at)? as i32, u32_at(body, at + 4)? as i32);
        }
        if let Some(at) = self.time {
            stamp.t_ns = u64_at(body, at)?;
        }
        if let Some(at) = self.cpu {
            stamp.cpu = u32_at(body, at)?;
        }
        Some((stamp, payload))
    }
}

fn skip_counts(format: u64, rest: &mut Rest<'_>) -> Option<()> {
    let words = |parts: &[u64]| parts.iter().filter(|part| format & **part != 0).count() as u64;
    let times = words(&[READ_ENABLED, READ_RUNNING]);
    let of_each = 1 + words(&[READ_ID, READ_LOST]);
    let events = if format & READ_GROUP != 0 { rest.u64().filter(|events| *events <= DEEPEST)? } else { 1 };
    rest.take(8 * (times + events * of_each)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(sample_type: u64, read_format: u64) -> Attr {
        Attr { kind: TRACEPOINT, config: 1, sample_type, read_format, flags: SAMPLE_ID_ALL }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn all_parts_before_the_payload_are_passed() {
        let all = IP | TID | TIME | ADDR | READ | CALLCHAIN | ID | CPU | PERIOD | STREAM_ID | RAW | IDENTIFIER;
        // Identifier, address, thread, time, address, id, stream, CPU, period; a group of two; a chain of three.
        let mut body = words(&[9, 1, 7 << 32 | 5, 1234, 2, 9, 4, 3, 1]);
        body.extend(words(&[2, 100, 200, 11, 12, 21, 22]));
        body.extend(words(&[3, 0xa, 0xb, 0xc]));
        body.extend(4u32.to_le_bytes());
        body.extend(b"load");
        let attr = attr(all, READ_ENABLED | READ_RUNNING | READ_ID | READ_GROUP);
        let stamp = Stamp { t_ns: 1234, cpu: 3, pid: 5, tid: 7 };
        let shape = attr.shape().unwrap();
        assert_eq!(shape.sample(&body), Some((stamp, &b"load"[..])));
        assert_eq!(attr.id_of_sample(&body), Some(9));
        for shorter in 0..body.len() {
            assert_eq!(shape.sample(&body[..shorter]), None);
        }
    }

    #[test]
    fn parts_are_found_whichever_others_there_are() {
        // In the order of a sample, each with its value.
        let parts = [
            (IDENTIFIER, 11),
            (IP, 12),
            (TID, 7 << 32 | 5),
            (TIME, 1234),
            (ADDR, 13),
            (ID, 14),
            (STREAM_ID, 15),
            (CPU, 3),
            (PERIOD, 16),
        ];
        for which in 0..1usize << parts.len() {
            let chosen = parts.iter().enumerate().filter(|(nth, _)| which >> nth & 1 != 0).map(|(_, part)| *part);
            let (bits, values): (Vec<u64>, Vec<u64>) = chosen.unzip();
            let mut body = words(&values);
            body.extend(4u32.to_le_bytes());
            body.extend(b"load");
            let of = |part, value| if bits.contains(&part) { value } else { 0 };
            let stamp =
                Stamp { t_ns: of(TIME, 1234), cpu: of(CPU, 3) as u32, pid: of(TID, 5) as i32, tid: of(TID, 7) as i32 };
            let shape = attr(bits.iter().fold(RAW, |all, part| all | part), 0).shape().unwrap();
            assert_eq!(shape.sample(&body), Some((stamp, &b"load"[..])), "{which:b}");
            for length in 0..body.len() {
                assert_eq!(shape.sample(&body[..length]), None, "{which:b} {length}");
            }
        }
        assert_eq!(attr(TIME, 0).shape(), None);
    }

    #[test]
    fn an_id_may_stand_behind_the_time() {
        let attr = attr(IP | TID | TIME | ID | RAW, 0);
        assert_eq!(attr.id_of_sample(&words(&[1, 2, 3, 44, 5])), Some(44));
    }

    #[test]
    fn other_records_have_it_at_their_end() {
        let attr = attr(TID | TIME | CPU | IDENTIFIER | RAW, 0);
        let body = words(&[77, 7 << 32 | 5, 1234, 3, 9]);
        assert_eq!(attr.stamp_of_record(&body), Some(Stamp { t_ns: 1234, cpu: 3, pid: 5, tid: 7 }));
        assert_eq!(attr.id_of_record(&body), Some(9));
        assert_eq!(attr.stamp_of_record(&body[..24]), None);
        assert_eq!(Attr { flags: 0, ..attr }.stamp_of_record(&body), None);
    }
}
