//! What each thread did, as slices on its track: `running`, `runnable (preempted)`, `blocked (disk)`, … Viewers make states of switches themselves,
//! but do not tell our causes from one another, nor whether a thread waits because it was woken or because it lost its CPU. Within `running` lies
//! what samples saw of spinning ([`spins`](super::spins)).
//!
//! A slice is two packets. That they are small: each thread has a sequence of its own, where the track is the default, names are told once, and times
//! are differences. That they are few bytes: they are written compressed, as Perfetto's own service does if it is asked to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use ledger::stretch::{Doing, Stretch};
use wire::{Cause, Moment, What};

use super::proto::*;
use super::spins::{Spins, name as spin_name};
use super::{BOOTTIME, CLEARED, NEEDED, put};
use crate::recording::Cast;

/// Sequences of threads begin here; before it are those of everything else.
const FIRST_SEQUENCE: u32 = 100;
/// Numbers of threads' tracks begin here.
const FIRST_TRACK: u64 = 1 << 32;
/// A clock of one sequence: its times are differences (`common/builtin_clock.proto`: from 64 on).
const DIFFERENCES: u32 = 64;

/// Kinds of [`TrackEvent`]s.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;

/// Bytes that are compressed at once.
const BATCH: usize = 256 << 10;

/// Names of slices that are no blocks.
const RUNNING: (u64, &str) = (1, "running");
const WOKEN: (u64, &str) = (2, "runnable (woken)");
const PREEMPTED: (u64, &str) = (3, "runnable (preempted)");
const YIELDED: (u64, &str) = (4, "runnable (yielded)");
const UNKNOWN: (u64, &str) = (5, "unknown");
/// The number of the first cause's name.
const BLOCKED: u64 = 10;
/// … and of the first reason to spin.
const SPINNING: u64 = 48;

/// Writes slices.
pub struct States<'r> {
    cast: &'r Cast,
    boot_ns: u64,
    /// By the number of the life.
    lives: BTreeMap<u32, Life>,
    spins: Spins,
    batch: Vec<u8>,
}

/// A thread that has been told of.
struct Life {
    sequence: u32,
    /// The last time that was written.
    told_ns: u64,
    /// Names that its sequence knows, by their bits.
    known: u64,
}

impl<'r> States<'r> {
    pub fn new(cast: &'r Cast, boot_ns: u64) -> States<'r> {
        States { cast, boot_ns, lives: BTreeMap::new(), spins: Spins::default(), batch: Vec::new() }
    }

    /// Takes what happened: samples, for the stretch that they lie in.
    pub fn moment(&mut self, moment: &Moment) {
        if let Some(What::Sample { tid, waiting }) = moment.what() {
            self.spins.sample(tid, moment.t_ns, waiting);
        }
    }

    /// Takes what a thread did; those of one thread come in order.
    pub fn take(&mut self, stretch: &Stretch, out: &mut impl Write) -> io::Result<()> {
        if !self.lives.contains_key(&stretch.life) {
            self.begin(stretch)?;
        }
        let (from_ns, until_ns) = (stretch.from_ns + self.boot_ns, stretch.until_ns + self.boot_ns);
        let (iid, name) = slice(stretch.doing);
        self.event(stretch.life, from_ns, SLICE_BEGIN, Some((iid, &name)))?;
        if stretch.doing == Doing::Run {
            for spin in self.spins.within(stretch.tid, stretch.from_ns, stretch.until_ns) {
                let name = (SPINNING + spin.waiting as u64, spin_name(spin.waiting));
                let name = Some((name.0, name.1.as_str()));
                let (first_ns, last_ns) = (spin.first_ns + self.boot_ns, spin.last_ns + self.boot_ns);
                if first_ns == last_ns {
                    self.event(stretch.life, first_ns, INSTANT, name)?;
                } else {
                    self.event(stretch.life, first_ns, SLICE_BEGIN, name)?;
                    self.event(stretch.life, last_ns, SLICE_END, None)?;
                }
            }
        }
        self.event(stretch.life, until_ns, SLICE_END, None)?;
        if self.batch.len() >= BATCH { self.flush(out) } else { Ok(()) }
    }

    /// Something on a thread's track. A name is told when it is new.
    fn event(&mut self, life: u32, at_ns: u64, r#type: i32, name: Option<(u64, &str)>) -> io::Result<()> {
        let Some(life) = self.lives.get_mut(&life) else { return Ok(()) };
        let since_ns = at_ns.saturating_sub(life.told_ns);
        life.told_ns = life.told_ns.max(at_ns);
        let new = name.filter(|(iid, _)| life.known & 1 << iid == 0);
        life.known |= name.map_or(0, |(iid, _)| 1 << iid);
        let told = |(iid, name): (u64, &str)| EventName { iid: Some(iid), name: Some(name.to_owned()) };
        let interned = |name| InternedData { event_names: vec![told(name)], ..InternedData::default() };
        let name_iid = name.map(|(iid, _)| iid);
        let packet = TracePacket {
            timestamp: Some(since_ns),
            trusted_packet_sequence_id: Some(life.sequence),
            sequence_flags: Some(NEEDED),
            interned_data: new.map(interned),
            track_event: Some(TrackEvent { r#type: Some(r#type), name_iid, ..TrackEvent::default() }),
            ..TracePacket::default()
        };
        put(&mut self.batch, &packet)
    }

    /// Writes what is left.
    pub fn rest(mut self, out: &mut impl Write) -> io::Result<()> {
        if self.batch.is_empty() { Ok(()) } else { self.flush(out) }
    }

    /// A thread's clock, and its track.
    fn begin(&mut self, stretch: &Stretch) -> io::Result<()> {
        let at_ns = stretch.from_ns + self.boot_ns;
        let sequence = FIRST_SEQUENCE + self.lives.len() as u32;
        let track = FIRST_TRACK + u64::from(stretch.life);
        let told = self.cast.threads.get(&stretch.tid);
        let process = if stretch.tgid == 0 { told.map_or(stretch.tid, |thread| thread.process) } else { stretch.tgid };
        let clock = |clock_id, timestamp, is_incremental| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
            is_incremental,
        };
        let packet = || TracePacket { trusted_packet_sequence_id: Some(sequence), ..TracePacket::default() };
        let defaults = TracePacketDefaults {
            track_event_defaults: Some(TrackEventDefaults { track_uuid: Some(track) }),
            timestamp_clock_id: Some(DIFFERENCES),
        };
        let clocks = vec![clock(DIFFERENCES, 0, Some(true)), clock(BOOTTIME, at_ns, None)];
        let thread = ThreadDescriptor {
            pid: Some(process as i32),
            tid: Some(stretch.tid as i32),
            thread_name: told.map(|thread| thread.name.clone()),
        };
        put(
            &mut self.batch,
            &TracePacket {
                sequence_flags: Some(CLEARED),
                trace_packet_defaults: Some(defaults),
                clock_snapshot: Some(ClockSnapshot { clocks }),
                ..packet()
            },
        )?;
        let track = TrackDescriptor { uuid: Some(track), thread: Some(thread), ..TrackDescriptor::default() };
        put(&mut self.batch, &TracePacket { track_descriptor: Some(track), ..packet() })?;
        self.lives.insert(stretch.life, Life { sequence, told_ns: at_ns, known: 0 });
        Ok(())
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&self.batch)?;
        self.batch.clear();
        put(out, &TracePacket { compressed_packets: Some(zlib.finish()?), ..TracePacket::default() })
    }
}

/// The number of a slice's name, and the name.
fn slice(doing: Doing) -> (u64, String) {
    let (iid, name) = match doing {
        Doing::Run => RUNNING,
        Doing::WakeDelay => WOKEN,
        Doing::Preempted { yielded: false } => PREEMPTED,
        Doing::Preempted { yielded: true } => YIELDED,
        Doing::Unknown => UNKNOWN,
        Doing::Blocked(cause) => return (BLOCKED + cause as u64, format!("blocked ({})", cause.name())),
    };
    (iid, name.to_owned())
}

// A name is a bit of `known`.
const _: () =
    assert!(BLOCKED + (Cause::ALL.len() as u64) <= SPINNING && SPINNING + (wire::Waiting::ALL.len() as u64) <= 64);

#[cfg(test)]
mod tests {
    use prost::Message;
    use wire::Waiting;

    use super::*;

    #[test]
    fn a_thread_is_told_of_once_and_times_are_differences() {
        let cast = Cast::default();
        let mut states = States::new(&cast, 1000);
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
            states.moment(&Moment::new(t_ns, 0, what));
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

    #[derive(Clone, PartialEq, Message)]
    struct Packets {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }
}
