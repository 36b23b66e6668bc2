//! The states of each thread, as slices on its track: `running`, `runnable (preempted)`, `blocked (disk)`, … Viewers derive states from switches. But
//! they show neither cox's causes, nor whether a thread waits after a wake-up or after a preemption. The `running` slices contain the spinning that
//! samples saw ([`spins`](super::spins)).
//!
//! Each slice takes two packets: its start and its end. Each thread has a packet sequence of its own, which keeps packets small: the thread's track
//! is the default of the sequence, names are defined once, and times are differences. The packets are compressed, as by Perfetto's own tracing
//! service. They form most of the output, so [`append`] encodes them byte by byte.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ledger::stretch::{Doing, Stretch};
use wire::{Cause, TraceEvent, Waiting, What};

use super::packet::{BOOTTIME, CLEARED, INSTANT, NEEDED, SLICE_BEGIN, SLICE_END, clock, compressed, put};
use super::proto::*;
use super::spins::{Spins, name as spin_name};
use crate::recording::ThreadTable;

/// First sequence number of the threads' tracks. Lower numbers are for everything else.
const FIRST_SEQUENCE: u32 = 100;
/// First number of the threads' tracks.
const FIRST_TRACK: u64 = 1 << 32;
/// Number of a clock that is valid in one sequence and whose times are differences. Such clocks have numbers from 64
/// on (`common/builtin_clock.proto`).
const DIFFERENCES: u32 = 64;

/// Packets are collected until they have this number of bytes; then they are compressed together.
const BATCH: usize = 256 << 10;

/// Names of slices, except those of blocked threads: number and text.
const RUNNING: (u64, &str) = (1, "running");
const WOKEN: (u64, &str) = (2, "runnable (woken)");
const PREEMPTED: (u64, &str) = (3, "runnable (preempted)");
const YIELDED: (u64, &str) = (4, "runnable (yielded)");
const UNKNOWN: (u64, &str) = (5, "unknown");
/// Number of the name `blocked (…)` with the first cause.
const BLOCKED: u64 = 10;
/// Number of the name of the first reason to spin.
const SPINNING: u64 = 48;

/// Writes the slices.
pub struct States<'r> {
    thread_table: &'r ThreadTable,
    boot_ns: u64,
    /// For each thread, what has been written so far. The key is the number of the thread's life, because several threads may have had the same id,
    /// one after another.
    lives: BTreeMap<u32, Life>,
    /// The track of each thread id.
    tracks: BTreeMap<u32, u64>,
    spins: Spins,
    batch: Vec<u8>,
}

/// What has been written so far for one thread. It is created when the definition of the thread's track is written.
struct Life {
    sequence: u32,
    /// Time of the last packet, nanoseconds.
    told_ns: u64,
    /// Bit set of the slice names that this thread's packet sequence has defined so far.
    known: u64,
}

impl<'r> States<'r> {
    pub fn new(thread_table: &'r ThreadTable, boot_ns: u64) -> States<'r> {
        States {
            thread_table,
            boot_ns,
            lives: BTreeMap::new(),
            tracks: BTreeMap::new(),
            spins: Spins::default(),
            batch: Vec::new(),
        }
    }

    /// Adds a trace event. Keeps samples until the interval that contains them is written.
    pub fn trace_event(&mut self, trace_event: &TraceEvent) {
        if let Some(What::Sample { tid, waiting }) = trace_event.what() {
            self.spins.sample(tid, trace_event.t_ns, waiting);
        }
    }

    /// Writes an interval in which a thread had one state. The intervals of one thread must arrive in order of time.
    pub fn take(&mut self, stretch: &Stretch, out: &mut impl Write) -> io::Result<()> {
        if !self.lives.contains_key(&stretch.life) {
            self.begin(stretch)?;
        }
        let Some(life) = self.lives.get_mut(&stretch.life) else { return Ok(()) };
        let (from_ns, until_ns) = (stretch.from_ns + self.boot_ns, stretch.until_ns + self.boot_ns);
        let batch = &mut self.batch;
        life.event(batch, from_ns, SLICE_BEGIN, Some(slice(stretch.doing)))?;
        if stretch.doing == Doing::Run {
            for spin in self.spins.within(stretch.tid, stretch.from_ns, stretch.until_ns) {
                let name = Some(SPINNING + spin.waiting as u64);
                let (first_ns, last_ns) = (spin.first_ns + self.boot_ns, spin.last_ns + self.boot_ns);
                if first_ns == last_ns {
                    life.event(batch, first_ns, INSTANT, name)?;
                } else {
                    life.event(batch, first_ns, SLICE_BEGIN, name)?;
                    life.event(batch, last_ns, SLICE_END, None)?;
                }
            }
        }
        life.event(batch, until_ns, SLICE_END, None)?;
        if self.batch.len() >= BATCH { self.flush(out) } else { Ok(()) }
    }

    /// Returns the track of each thread, by thread id. Of an id that was reused, the track of the later thread.
    pub fn tracks(&self) -> BTreeMap<u32, u64> {
        self.tracks.clone()
    }

    /// Writes the remaining packets.
    pub fn rest(mut self, out: &mut impl Write) -> io::Result<()> {
        if self.batch.is_empty() { Ok(()) } else { self.flush(out) }
    }

    /// Defines the clock and the track of a thread.
    fn begin(&mut self, stretch: &Stretch) -> io::Result<()> {
        let at_ns = stretch.from_ns + self.boot_ns;
        let sequence = FIRST_SEQUENCE + self.lives.len() as u32;
        let track = FIRST_TRACK + u64::from(stretch.life);
        let told = self.thread_table.threads.get(&stretch.tid);
        let process = if stretch.tgid == 0 { told.map_or(stretch.tid, |thread| thread.process) } else { stretch.tgid };
        let packet = || TracePacket { trusted_packet_sequence_id: Some(sequence), ..TracePacket::default() };
        let defaults = TracePacketDefaults {
            track_event_defaults: Some(TrackEventDefaults { track_uuid: Some(track) }),
            timestamp_clock_id: Some(DIFFERENCES),
        };
        let differences = Clock { is_incremental: Some(true), ..clock(DIFFERENCES, 0) };
        let clocks = vec![differences, clock(BOOTTIME, at_ns)];
        let thread = ThreadDescriptor {
            pid: Some(process as i32),
            tid: Some(stretch.tid as i32),
            thread_name: told.map(|thread| thread.name.clone()),
        };
        let first = TracePacket {
            sequence_flags: Some(CLEARED),
            trace_packet_defaults: Some(defaults),
            clock_snapshot: Some(ClockSnapshot { clocks }),
            ..packet()
        };
        put(&mut self.batch, &first)?;
        let track = TrackDescriptor { uuid: Some(track), thread: Some(thread), ..TrackDescriptor::default() };
        put(&mut self.batch, &TracePacket { track_descriptor: Some(track), ..packet() })?;
        self.tracks.insert(stretch.tid, FIRST_TRACK + u64::from(stretch.life));
        self.lives.insert(stretch.life, Life { sequence, told_ns: at_ns, known: 0 });
        Ok(())
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let packet = compressed(&self.batch)?;
        self.batch.clear();
        put(out, &packet)
    }
}

impl Life {
    /// Appends an event to the thread's track. Defines the name on its first use.
    fn event(&mut self, batch: &mut Vec<u8>, at_ns: u64, r#type: i32, name: Option<u64>) -> io::Result<()> {
        let since_ns = at_ns.saturating_sub(self.told_ns);
        self.told_ns = self.told_ns.max(at_ns);
        let new = name.filter(|iid| self.known & 1 << iid == 0);
        let Some(iid) = new else {
            append(batch, since_ns, self.sequence, r#type, name);
            return Ok(());
        };
        self.known |= 1 << iid;
        let told = EventName { iid: Some(iid), name: Some(text(iid)) };
        let interned = InternedData { event_names: vec![told], ..InternedData::default() };
        put(batch, &TracePacket { interned_data: Some(interned), ..event(since_ns, self.sequence, r#type, name) })
    }
}

/// Returns the packet of an event on a thread's track. Each thread has a packet sequence of its own, so `sequence` determines the track.
fn event(since_ns: u64, sequence: u32, r#type: i32, name_iid: Option<u64>) -> TracePacket {
    TracePacket {
        timestamp: Some(since_ns),
        trusted_packet_sequence_id: Some(sequence),
        sequence_flags: Some(NEEDED),
        track_event: Some(TrackEvent { r#type: Some(r#type), name_iid, ..TrackEvent::default() }),
        ..TracePacket::default()
    }
}

/// Appends the same bytes that [`put`] would write for an [`event`]. A trace has millions of these, and the general
/// encoder took half of the writing time.
fn append(batch: &mut Vec<u8>, since_ns: u64, sequence: u32, r#type: i32, name_iid: Option<u64>) {
    // Each field is its number and type (0 for a number, 2 for bytes), then the value. All messages are short, so each
    // length is one byte.
    let begin = batch.len();
    batch.extend([1 << 3 | 2, 0]);
    number(batch, 8, since_ns);
    number(batch, 10, sequence.into());
    batch.extend([11 << 3 | 2, 0]);
    let inner = batch.len();
    number(batch, 9, r#type as u64);
    name_iid.into_iter().for_each(|iid| number(batch, 10, iid));
    batch[inner - 1] = (batch.len() - inner) as u8;
    number(batch, 13, NEEDED.into());
    batch[begin + 1] = (batch.len() - begin - 2) as u8;
}

/// Appends a field with a number. Field numbers must be below 16.
fn number(batch: &mut Vec<u8>, field: u8, value: u64) {
    batch.push(field << 3);
    prost::encoding::encode_varint(value, batch);
}

/// Returns the number of a slice's name.
fn slice(doing: Doing) -> u64 {
    match doing {
        Doing::Run => RUNNING.0,
        Doing::WakeDelay => WOKEN.0,
        Doing::Preempted { yielded: false } => PREEMPTED.0,
        Doing::Preempted { yielded: true } => YIELDED.0,
        Doing::Unknown => UNKNOWN.0,
        Doing::Blocked(cause) => BLOCKED + cause as u64,
    }
}

/// Returns the slice name with this number; an empty text if no name has it.
fn text(iid: u64) -> String {
    let plain = [RUNNING, WOKEN, PREEMPTED, YIELDED, UNKNOWN].into_iter().find(|(number, _)| *number == iid);
    let blocked = || Cause::ALL.into_iter().find(|cause| BLOCKED + *cause as u64 == iid);
    let spinning = || Waiting::ALL.into_iter().find(|waiting| SPINNING + *waiting as u64 == iid);
    let plain = plain.map(|(_, name)| name.to_owned());
    let plain_or_blocked = plain.or_else(|| blocked().map(|cause| format!("blocked ({})", cause.name())));
    plain_or_blocked.or_else(|| spinning().map(spin_name)).unwrap_or_default()
}

// Each name has one bit of `known`.
const _: () = assert!(BLOCKED + (Cause::ALL.len() as u64) <= SPINNING && SPINNING + (Waiting::ALL.len() as u64) <= 64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    #[test]
    fn a_thread_is_told_of_once_and_times_are_differences() {
        let thread_table = ThreadTable::default();
        let mut states = States::new(&thread_table, 1000);
        let mut out = Vec::new();
        for (from_ns, until_ns, doing) in
            [(5, 9, Doing::Run), (9, 30, Doing::Blocked(Cause::Disk)), (30, 31, Doing::Run)]
        {
            states.take(&Stretch { life: 3, tid: 7, tgid: 7, from_ns, until_ns, doing, cpu: 0 }, &mut out).unwrap();
        }
        assert!(out.is_empty(), "a batch is not full");
        // Of these samples one series lies in the last stretch, and a single one.
        for (t_ns, tid, waiting) in [(40, 7, true), (42, 7, true), (44, 7, false), (46, 7, true), (47, 8, true)] {
            let what = What::Sample { tid, waiting: waiting.then_some(Waiting::OpenMp) };
            states.trace_event(&TraceEvent::new(t_ns, 0, what));
        }
        states
            .take(&Stretch { life: 3, tid: 7, tgid: 7, from_ns: 35, until_ns: 50, doing: Doing::Run, cpu: 0 }, &mut out)
            .unwrap();
        states.rest(&mut out).unwrap();
        let whole = Packets::decode(&out[..]).unwrap();
        let zlib = whole.packet[0].compressed_packets.clone().unwrap();
        let mut plain = Vec::new();
        io::copy(&mut flate2::read::ZlibDecoder::new(&zlib[..]), &mut plain).unwrap();
        let packets = Packets::decode(&plain[..]).unwrap().packet;
        let events = packets.iter().filter_map(|packet| {
            let event = packet.track_event.as_ref()?;
            let names =
                packet.interned_data.iter().flat_map(|data| &data.event_names).map(|name| name.name.clone().unwrap());
            Some((packet.timestamp?, event.r#type?, event.name_iid, names.collect::<Vec<_>>()))
        });
        let disk = BLOCKED + Cause::Disk as u64;
        let expected = [
            (0, SLICE_BEGIN, Some(1), vec!["running".to_owned()]),
            (4, SLICE_END, None, vec![]),
            (0, SLICE_BEGIN, Some(disk), vec!["blocked (disk)".to_owned()]),
            (21, SLICE_END, None, vec![]),
            (0, SLICE_BEGIN, Some(1), vec![]),
            (1, SLICE_END, None, vec![]),
            (4, SLICE_BEGIN, Some(1), vec![]),
            (5, SLICE_BEGIN, Some(SPINNING), vec!["spinning (sampled): OpenMP runtime".to_owned()]),
            (2, SLICE_END, None, vec![]),
            (4, INSTANT, Some(SPINNING), vec![]),
            (4, SLICE_END, None, vec![]),
        ];
        assert_eq!(events.collect::<Vec<_>>(), expected);
        assert_eq!(packets.iter().filter(|packet| packet.track_descriptor.is_some()).count(), 1);
    }

    #[test]
    fn every_name_is_its_own() {
        let doing = [Doing::Run, Doing::WakeDelay, Doing::Unknown]
            .into_iter()
            .chain([false, true].map(|yielded| Doing::Preempted { yielded }))
            .chain(Cause::ALL.into_iter().map(Doing::Blocked));
        let spinning = Waiting::ALL.into_iter().map(|waiting| SPINNING + waiting as u64);
        let mut names: Vec<String> = doing.map(slice).chain(spinning).map(text).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert!(names.len() == all && !names.contains(&String::new()), "{names:?}");
        assert_eq!(text(slice(Doing::Blocked(Cause::Disk))), "blocked (disk)");
    }

    proptest! {
        #[test]
        fn what_is_encoded_by_hand_is_what_the_library_encodes(
            since_ns: u64, sequence: u32, r#type in 1..4i32, name in proptest::option::of(0..64u64)
        ) {
            let (mut by_hand, mut by_library) = (vec![7], vec![7]);
            append(&mut by_hand, since_ns, sequence, r#type, name);
            put(&mut by_library, &event(since_ns, sequence, r#type, name)).unwrap();
            prop_assert_eq!(by_hand, by_library);
        }
    }

    #[derive(Clone, PartialEq, Message)]
    struct Packets {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }
}
