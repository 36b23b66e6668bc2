//! Converts records to events, in the order of the records.

use foldhash::{HashMap, HashMapExt};

use crate::about::FEATURES;
use crate::attr::{Attr, Shape, Stamp};
use crate::bytes::{u32_at, u64_at};
use crate::ending::Ending;
use crate::error::Error;
use crate::event::{Event, Kind, comm};
use crate::format::{Field, Format, States};
use crate::records::Head;
use crate::rounds::Decoded;
use crate::tracing;

/// Record types (perf_event_open(2)). Types from 64 on are defined by the perf tool.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTR: u32 = 64;
const TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const HEADER_FEATURE: u32 = 80;
/// Flag of a COMM record: the name was set by an exec.
const BY_EXEC: u16 = 1 << 13;
/// Flag of a LOST_SAMPLES record: the user's BPF filter dropped these samples, so they are not lost.
const BY_FILTER: u16 = 1 << 15;
/// Common flags of a tracepoint: recorded in a hardware interrupt or in a soft interrupt.
const IN_INTERRUPT: i64 = 0x08 | 0x10;
/// Maximum number of event descriptions (`perf_event_attr`) in a recording.
pub(crate) const MOST_ATTRS: usize = 4096;
/// Maximum number of event ids in a recording. An event has an id on each CPU: 10 events on 1024 CPUs have 10,240 ids.
pub(crate) const MOST_IDS: usize = 1 << 20;

/// A tracepoint that this crate decodes, with the positions of its fields.
#[derive(Clone, Copy, Debug)]
enum Point {
    Switch { prev: Field, prev_comm: Field, state: Field, next: Field, next_comm: Field, states: States },
    Waking { tid: Field, comm: Field, flags: Field, is_new: bool },
    Migration { tid: Field, from: Field, to: Field },
    Ran { tid: Field, run: Field },
    Forked { parent: Field, child: Field, comm: Field },
    Execed { tid: Field, caller: Field },
    Exited { tid: Field },
}

impl Point {
    fn of(format: &Format) -> Option<Point> {
        let field = |name| format.field(name);
        Some(match format.name.as_str() {
            "sched_switch" => Point::Switch {
                prev: field("prev_pid")?,
                prev_comm: field("prev_comm")?,
                state: field("prev_state")?,
                next: field("next_pid")?,
                next_comm: field("next_comm")?,
                states: format.states(),
            },
            name @ ("sched_waking" | "sched_wakeup" | "sched_wakeup_new") => Point::Waking {
                tid: field("pid")?,
                comm: field("comm")?,
                flags: field("common_flags")?,
                is_new: name == "sched_wakeup_new",
            },
            "sched_migrate_task" => {
                Point::Migration { tid: field("pid")?, from: field("orig_cpu")?, to: field("dest_cpu")? }
            }
            "sched_stat_runtime" => Point::Ran { tid: field("pid")?, run: field("runtime")? },
            "sched_process_fork" => {
                Point::Forked { parent: field("parent_pid")?, child: field("child_pid")?, comm: field("child_comm")? }
            }
            "sched_process_exec" => Point::Execed { tid: field("pid")?, caller: field("old_pid")? },
            "sched_process_exit" => Point::Exited { tid: field("pid")? },
            _ => return None,
        })
    }

    #[inline]
    fn event(&self, payload: &[u8]) -> Option<Kind> {
        Some(match self {
            Point::Switch { prev, prev_comm, state, next, next_comm, states } => {
                let state = state.number(payload)? as u64;
                Kind::Switch {
                    prev: prev.id(payload)?,
                    prev_comm: prev_comm.comm(payload)?,
                    left: states.left(state),
                    raw: states.raw(state),
                    next: next.id(payload)?,
                    next_comm: next_comm.comm(payload)?,
                }
            }
            Point::Waking { tid, comm, flags, is_new } => Kind::Waking {
                tid: tid.id(payload)?,
                comm: comm.comm(payload)?,
                is_new: *is_new,
                by_interrupt: flags.number(payload)? & IN_INTERRUPT != 0,
            },
            Point::Migration { tid, from, to } => {
                Kind::Migration { tid: tid.id(payload)?, from: from.id(payload)?, to: to.id(payload)? }
            }
            Point::Ran { tid, run } => Kind::Ran { tid: tid.id(payload)?, run_ns: run.number(payload)? as u64 },
            Point::Forked { parent, child, comm } => {
                Kind::Forked { parent: parent.id(payload)?, child: child.id(payload)?, comm: comm.comm(payload)? }
            }
            Point::Execed { tid, caller } => Kind::Execed { tid: tid.id(payload)?, caller: caller.id(payload)? },
            Point::Exited { tid } => Kind::Exited { tid: tid.id(payload)? },
        })
    }
}

/// Layout of an event's samples, and the positions of the payload's fields.
#[derive(Clone, Copy, Debug)]
struct Known {
    shape: Shape,
    point: Point,
}

/// The state that is needed to decode the records of a recording.
pub(crate) struct Decoder<'k> {
    attrs: Vec<Attr>,
    by_id: HashMap<u64, usize>,
    formats: Vec<Format>,
    /// Formats of this machine's tracepoints, for a recording that lacks its own.
    known: &'k [Format],
    /// One entry per event, computed when the first sample arrives; an entry is `None` if this crate does not decode
    /// the event.
    points: Option<Vec<Option<Known>>>,
    /// Losses that the kernel reported, and losses that perf reported at its end; see [`Ending::lost`].
    lost: u64,
    lost_samples: u64,
    pub(crate) ending: Ending,
}

impl<'k> Decoder<'k> {
    pub(crate) fn new(known: &'k [Format]) -> Decoder<'k> {
        Decoder {
            attrs: Vec::new(),
            by_id: HashMap::new(),
            formats: Vec::new(),
            known,
            points: None,
            lost: 0,
            lost_samples: 0,
            ending: Ending::default(),
        }
    }

    pub(crate) fn add_attr(&mut self, bytes: &[u8], ids: &[u8]) {
        let Some(attr) = Attr::parse(bytes).filter(|_| self.attrs.len() < MOST_ATTRS) else { return };
        for id in ids.chunks_exact(8).filter_map(|id| u64_at(id, 0)) {
            if self.by_id.len() < MOST_IDS {
                self.by_id.insert(id, self.attrs.len());
            }
        }
        self.attrs.push(attr);
        self.points = None;
    }

    pub(crate) fn add_tracing_data(&mut self, blob: &[u8]) {
        self.formats = tracing::formats(blob);
        self.points = None;
    }

    pub(crate) fn add_feature(&mut self, feature: u64, bytes: &[u8]) {
        self.ending.about.take(feature, bytes);
    }

    /// Decodes a record. `behind` is the data that follows the record in the file, if its type has such data.
    pub(crate) fn record(&mut self, head: Head, body: &[u8], behind: &[u8]) -> Result<Option<Decoded>, Error> {
        if head.kind == LOST {
            add(&mut self.lost, u64_at(body, 8));
        }
        match head.kind {
            SAMPLE => {
                self.make_points()?;
                let event = self.sample(body);
                match event {
                    Some(_) => self.ending.events += 1,
                    None => self.ending.skipped += 1,
                }
                return Ok(event.map(Decoded::Event));
            }
            // A LOST_SAMPLES record has no time, so it is only counted.
            LOST_SAMPLES if head.flags & BY_FILTER == 0 => add(&mut self.lost_samples, u64_at(body, 0)),
            LOST | COMM | EXIT | FORK => match self.other(head, body).filter(Event::is_possible) {
                Some(event) => return Ok(Some(Decoded::Event(event))),
                None => self.ending.skipped += 1,
            },
            FINISHED_ROUND => return Ok(Some(Decoded::Mark)),
            HEADER_ATTR => {
                let size = u32_at(body, 4).map_or(0, |size| size as usize).min(body.len());
                let (attr, ids) = body.split_at(size);
                self.add_attr(attr, ids);
            }
            TRACING_DATA => self.add_tracing_data(behind),
            HEADER_FEATURE => match u64_at(body, 0).filter(|feature| FEATURES.contains(feature)) {
                Some(feature) => self.add_feature(feature, &body[8..]),
                None => self.ending.skipped += 1,
            },
            _ => self.ending.skipped += 1,
        }
        Ok(None)
    }

    /// Returns the summary after all records. `late` is the number of events that came too late to be sorted; see
    /// [`Ending::late`].
    pub(crate) fn finish(mut self, late: u64) -> Result<Ending, Error> {
        self.ending.late = late;
        self.ending.lost = self.lost.max(self.lost_samples);
        match self.ending.cut {
            _ if self.ending.events > 0 => Ok(self.ending),
            Some(cut) => Err(Error::Damaged(cut.why)),
            None => Err(Error::NoEvents),
        }
    }

    fn make_points(&mut self) -> Result<(), Error> {
        if self.points.is_some() {
            return Ok(());
        }
        if !self.attrs.iter().any(|attr| attr.tracepoint().is_some()) {
            return Err(Error::NoEvents);
        }
        let formats = if self.formats.is_empty() { self.known } else { &self.formats };
        if formats.is_empty() {
            return Err(Error::NoFormats);
        }
        self.ending.borrowed_formats = self.formats.is_empty();
        let by_id: HashMap<u64, &Format> = formats.iter().map(|format| (format.id, format)).collect();
        let format_of = |attr: &Attr| attr.tracepoint().and_then(|id| by_id.get(&id)).copied();
        // If the recording has sched_waking, sched_wakeup is ignored: it reports the same wake-up, later.
        let has_waking = self.attrs.iter().filter_map(format_of).any(|format| format.name == "sched_waking");
        let wanted = |format: &&Format| !(has_waking && format.name == "sched_wakeup");
        let point = |attr| format_of(attr).filter(wanted).and_then(Point::of);
        let points = self.attrs.iter().map(|attr| Some(Known { shape: attr.shape()?, point: point(attr)? }));
        self.points = Some(points.collect());
        Ok(())
    }

    /// Returns the index of the event that a record belongs to.
    fn owner(&self, id: Option<u64>) -> Option<usize> {
        match (self.attrs.len(), id) {
            (1, _) => Some(0),
            (_, Some(id)) => self.by_id.get(&id).copied(),
            _ => None,
        }
    }

    fn sample(&self, body: &[u8]) -> Option<Event> {
        let owner = self.owner(self.attrs.first()?.id_of_sample(body))?;
        let Known { shape, point } = self.points.as_ref()?.get(owner)?.as_ref()?;
        let (stamp, payload) = shape.sample(body)?;
        Some(event(stamp, point.event(payload)?)).filter(|event| event.t_ns != 0 && event.is_possible())
    }

    fn other(&self, head: Head, body: &[u8]) -> Option<Event> {
        let first = self.attrs.first()?;
        let owner = self.owner(first.id_of_record(body)).unwrap_or(0);
        let stamp = self.attrs[owner].stamp_of_record(body);
        let word = |at: usize| u32_at(body, at * 4);
        let kind = match head.kind {
            COMM => {
                Kind::Comm { pid: word(0)?, tid: word(1)?, comm: comm(body.get(8..)?), exec: head.flags & BY_EXEC != 0 }
            }
            FORK => Kind::Fork { pid: word(0)?, parent_pid: word(1)?, tid: word(2)?, parent: word(3)? },
            EXIT => Kind::Exit { tid: word(2)? },
            LOST => Kind::Lost { count: u64_at(body, 8)? },
            _ => return None,
        };
        // The body of a fork or exit record contains the time, too; it is used if the record has no stamp.
        let own_ns = matches!(head.kind, FORK | EXIT).then(|| u64_at(body, 16)).flatten().unwrap_or(0);
        let stamp = stamp.unwrap_or(Stamp { t_ns: own_ns, ..Stamp::default() });
        // If all bits of the time are set, time and CPU are unknown.
        let stamp = if stamp.t_ns == u64::MAX { Stamp { t_ns: 0, cpu: 0, ..stamp } } else { stamp };
        Some(event(stamp, kind))
    }
}

fn add(sum: &mut u64, count: Option<u64>) {
    *sum = sum.saturating_add(count.unwrap_or(0));
}

fn event(stamp: Stamp, kind: Kind) -> Event {
    let Stamp { t_ns, cpu, pid, tid } = stamp;
    Event { t_ns, cpu, pid, tid, kind }
}
