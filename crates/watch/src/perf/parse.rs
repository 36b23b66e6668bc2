//! Parses the bytes of a perf ring into records. Pure; malformed bytes are rejected.
//!
//! The layouts are those of linux/perf_event.h, for events opened as in [`super::event`]. Every record except a sample ends with `{u32 pid, tid; u64
//! time; u32 cpu, reserved}` (sample_id_all with TID, TIME, CPU). A sample is `{u64 ip; u32 pid, tid; u64 time; u32 cpu, reserved}`.

use perf_event_open_sys::bindings as abi;
use wire::layout::comm_text;

/// `struct perf_event_header`: u32 type, u16 misc, u16 size.
const HEADER_BYTES: usize = 8;
/// Length of the trailer, bytes. Every record except samples ends with this trailer: thread, time and CPU.
const STAMP_BYTES: usize = 24;

/// One record. Ids are those of cox's PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A thread is switched in.
    In { at: Stamp },
    /// A thread is switched out. `preempted`: it is still runnable.
    Out { at: Stamp, preempted: bool },
    /// Thread `tid` of process `pid` was created by a thread of process `ppid`.
    Fork { t_ns: u64, pid: u32, tid: u32, ppid: u32, ptid: u32 },
    /// A thread exits. It stays on its CPU a little longer.
    Exit { t_ns: u64, tid: u32 },
    /// A thread has a new name.
    Comm { at: Stamp, pid: u32, tid: u32, comm: String, exec: bool },
    /// A sample: the address of the instruction in user code that the thread was executing.
    Sample { at: Stamp, ip: u64 },
    /// The number of records that found no room in the ring.
    Lost { records: u64 },
    /// The number of samples that were dropped before they reached the ring.
    LostSamples { samples: u64 },
    /// Sampling was paused because it took too long.
    Throttled,
    /// A record that cox does not use.
    Other,
}

impl Record {
    /// Returns the time of records about a thread's switches and life.
    pub(super) fn t_ns(&self) -> Option<u64> {
        match self {
            Record::In { at } | Record::Out { at, .. } | Record::Comm { at, .. } => Some(at.t_ns),
            Record::Fork { t_ns, .. } | Record::Exit { t_ns, .. } => Some(*t_ns),
            _ => None,
        }
    }
}

/// The thread, time and CPU of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) t_ns: u64,
    pub(super) cpu: u32,
}

/// Calls `each` with every whole record in `unread`. Returns `false` if a header is invalid or a record is cut off: the bytes from there on cannot
/// be read.
pub(super) fn walk(mut unread: &[u8], mut each: impl FnMut(&[u8])) -> bool {
    while !unread.is_empty() {
        let Some((record, rest)) = record_bytes(unread).and_then(|size| unread.split_at_checked(size)) else {
            return false;
        };
        each(record);
        unread = rest;
    }
    true
}

/// Returns the size of the record that begins with these bytes; `None` if they are not a valid header.
fn record_bytes(header: &[u8]) -> Option<usize> {
    let size = usize::from(u16::from_ne_bytes(header.get(6..8)?.try_into().ok()?));
    (size >= HEADER_BYTES).then_some(size)
}

/// Parses one whole record. Returns `None` if it is malformed.
pub(super) fn parse(bytes: &[u8]) -> Option<Record> {
    let bytes = bytes.get(..record_bytes(bytes)?)?;
    let kind = half(bytes, 0)?;
    let misc = u32::from(u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?));
    let body = bytes.get(HEADER_BYTES..)?;
    if kind == abi::PERF_RECORD_SAMPLE {
        return Some(Record::Sample { ip: word(body, 0)?, at: stamp(body.get(8..)?)? });
    }
    // A record of a kind that only newer kernels write might be shorter than the trailer with thread, time and CPU.
    let (body, trailer) = body.split_at(body.len().saturating_sub(STAMP_BYTES));
    Some(match kind {
        abi::PERF_RECORD_SWITCH if misc & abi::PERF_RECORD_MISC_SWITCH_OUT == 0 => Record::In { at: stamp(trailer)? },
        abi::PERF_RECORD_SWITCH => {
            Record::Out { at: stamp(trailer)?, preempted: misc & abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0 }
        }
        abi::PERF_RECORD_FORK => Record::Fork {
            pid: half(body, 0)?,
            ppid: half(body, 4)?,
            tid: half(body, 8)?,
            ptid: half(body, 12)?,
            t_ns: word(body, 16)?,
        },
        abi::PERF_RECORD_EXIT => Record::Exit { tid: half(body, 8)?, t_ns: word(body, 16)? },
        abi::PERF_RECORD_COMM => Record::Comm {
            at: stamp(trailer)?,
            pid: half(body, 0)?,
            tid: half(body, 4)?,
            comm: comm_text(body.get(8..)?),
            exec: misc & abi::PERF_RECORD_MISC_COMM_EXEC != 0,
        },
        abi::PERF_RECORD_LOST => Record::Lost { records: word(body, 8)? },
        abi::PERF_RECORD_LOST_SAMPLES => Record::LostSamples { samples: word(body, 0)? },
        abi::PERF_RECORD_THROTTLE => Record::Throttled,
        _ => Record::Other,
    })
}

fn stamp(bytes: &[u8]) -> Option<Stamp> {
    let bytes = bytes.get(..STAMP_BYTES)?;
    Some(Stamp { pid: half(bytes, 0)?, tid: half(bytes, 4)?, t_ns: word(bytes, 8)?, cpu: half(bytes, 16)? })
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record as the kernel writes it.
    pub(crate) fn encode(kind: u32, misc: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + body.len()).expect("short");
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(u16::try_from(misc).expect("16 bits").to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn halves(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    fn words(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    const AT: Stamp = Stamp { pid: 40, tid: 41, t_ns: 1_000_000_007, cpu: 3 };

    fn trailer() -> Vec<u8> {
        [halves(&[AT.pid, AT.tid]), words(&[AT.t_ns]), halves(&[AT.cpu, 0])].concat()
    }

    fn every_kind() -> Vec<(Vec<u8>, Record)> {
        let with_stamp = |body: Vec<u8>| [body, trailer()].concat();
        let fork = || with_stamp([halves(&[50, 40, 51, 41]), words(&[99])].concat());
        let out = abi::PERF_RECORD_MISC_SWITCH_OUT;
        let preempt = abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
        let comm = || with_stamp([halves(&[40, 41]), b"make\0\0\0\0".to_vec()].concat());
        let named = |exec| Record::Comm { at: AT, pid: 40, tid: 41, comm: "make".to_owned(), exec };
        vec![
            (encode(abi::PERF_RECORD_SWITCH, 0, &trailer()), Record::In { at: AT }),
            (encode(abi::PERF_RECORD_SWITCH, out, &trailer()), Record::Out { at: AT, preempted: false }),
            (encode(abi::PERF_RECORD_SWITCH, out | preempt, &trailer()), Record::Out { at: AT, preempted: true }),
            (
                encode(abi::PERF_RECORD_FORK, 0, &fork()),
                Record::Fork { t_ns: 99, pid: 50, tid: 51, ppid: 40, ptid: 41 },
            ),
            (encode(abi::PERF_RECORD_EXIT, 0, &fork()), Record::Exit { t_ns: 99, tid: 51 }),
            (encode(abi::PERF_RECORD_COMM, 0, &comm()), named(false)),
            (encode(abi::PERF_RECORD_COMM, abi::PERF_RECORD_MISC_COMM_EXEC, &comm()), named(true)),
            (
                encode(abi::PERF_RECORD_SAMPLE, 2, &[words(&[0x5555_0000_1234]), trailer()].concat()),
                Record::Sample { at: AT, ip: 0x5555_0000_1234 },
            ),
            (encode(abi::PERF_RECORD_LOST, 0, &with_stamp(words(&[7, 123]))), Record::Lost { records: 123 }),
            (encode(abi::PERF_RECORD_LOST_SAMPLES, 0, &with_stamp(words(&[5]))), Record::LostSamples { samples: 5 }),
            (encode(abi::PERF_RECORD_THROTTLE, 0, &with_stamp(words(&[1, 2, 3]))), Record::Throttled),
            (encode(abi::PERF_RECORD_UNTHROTTLE, 0, &with_stamp(words(&[1, 2, 3]))), Record::Other),
            (encode(4242, 0, &[]), Record::Other),
        ]
    }

    #[test]
    fn every_kind_is_read() {
        for (bytes, record) in every_kind() {
            assert_eq!(parse(&bytes), Some(record));
        }
    }

    #[test]
    fn cut_records_are_refused() {
        for (bytes, record) in every_kind() {
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end]), None, "{record:?} cut to {end} bytes");
            }
        }
    }

    #[test]
    fn records_too_short_for_their_kind_are_refused() {
        for (bytes, record) in every_kind() {
            if matches!(record, Record::Throttled | Record::Other) {
                continue;
            }
            // A consistent header over a body that lacks its last word.
            let (kind, misc) = (half(&bytes, 0).expect("kind"), u32::from(bytes[4]) | u32::from(bytes[5]) << 8);
            let body = &bytes[HEADER_BYTES..bytes.len() - 24];
            assert_eq!(parse(&encode(kind, misc, body)), None, "{record:?}");
        }
    }

    #[test]
    fn a_size_below_the_header_is_refused() {
        for size in 0..8u16 {
            let mut bytes = encode(abi::PERF_RECORD_SWITCH, 0, &trailer());
            bytes[6..8].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(parse(&bytes), None);
        }
    }

    fn walked(unread: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut records = Vec::new();
        let whole = walk(unread, |record| records.push(record.to_vec()));
        (records, whole)
    }

    #[test]
    fn a_cut_end_or_a_bad_size_is_told() {
        let bytes = [encode(1, 0, &[1; 16]), encode(1, 0, &[2; 16])].concat();
        assert_eq!(walked(&bytes), (vec![bytes[..24].to_vec(), bytes[24..].to_vec()], true));
        for end in 1..bytes.len() {
            let (records, whole) = walked(&bytes[..end]);
            assert_eq!((records.len(), whole), (end / 24, end == 24), "cut at {end}");
        }
        let mut bad = bytes;
        bad[24 + 6..24 + 8].copy_from_slice(&3u16.to_ne_bytes());
        let (records, whole) = walked(&bad);
        assert_eq!((records.len(), whole), (1, false));
    }

    proptest! {
        #[test]
        fn any_bytes_end(unread in prop::collection::vec(any::<u8>(), 0..128)) {
            let (records, _) = walked(&unread);
            prop_assert!(records.concat().len() <= unread.len());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _record_or_refusal = parse(&bytes);
        }

        #[test]
        fn any_body_is_read_or_refused(kind in 0u32..24, body in prop::collection::vec(any::<u8>(), 0..80)) {
            let _record_or_refusal = parse(&encode(kind, 0, &body));
        }
    }
}
