//! Traces for Paraver: `PREFIX.prv` (states and events), `.pcf` (meanings of the numbers), `.row` (names), and
//! configuration files for the usual [`views`].
//!
//! The format is that of the "Paraver trace format" manual (Barcelona Supercomputing Center): a header that lists
//! nodes, applications, tasks and threads, then one line per record, in order of time. Here a task is a process, and
//! there is one application.
//!
//! ```text
//! #DATE:provenance:NAME:VALUE              where and when the trace was recorded (a metadata line, before all records)
//! 1:CPU:1:TASK:THREAD:FROM:UNTIL:STATE     state of a thread; CPU 0 if it did not run
//! 2:CPU:1:TASK:THREAD:TIME:TYPE:VALUE      event: a migration, a sample (work or spinning), an interruption, or lost trace events
//! ```
//!
//! All numbers count from one. Times are nanoseconds from the start of the window.

pub mod noise;
mod views;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use ledger::Provenance;
use ledger::stretch::{Doing, Stretch};
use time::OffsetDateTime;
use time::macros::format_description;
use wire::{Cause, Waiting, What};

use crate::interruptions::Interruptions;
use crate::recording::Recording;
use crate::sorter::{Keyed, Sorter};

pub use views::{ENDINGS as VIEWS, views};

/// Event type: a migration. The value is the destination CPU, counted from one.
const MIGRATED: u32 = 91_000_001;
/// Event type: trace events of a CPU were lost from this time on. The value is the number of lost events.
const LOST: u32 = 91_000_002;

/// Event type: a sample. Value 1 means work; values from 2 on mean spinning, one value for each reason to wait.
const SAMPLED: u32 = 91_000_003;
/// Name of the event type [`SAMPLED`].
const SAMPLES: &str = "Sampled: work or spinning";

/// Event type: what interrupts the thread from now on, by the number of the cause, counted from one; 0: nothing.
const INTERRUPTED: u32 = 91_000_004;
/// Event type: interruptions of the thread from now on are not in the trace, because there was no room. The value is their number, of all threads.
const LEFT_OUT: u32 = 91_000_005;

/// State of a thread that is blocked by the first cause. The other causes have the next numbers.
const BLOCKED: u32 = 10;

/// The output files.
#[derive(Debug)]
pub struct Files<W> {
    /// The trace.
    pub prv: W,
    /// Names of states and events.
    pub pcf: W,
    /// Names of CPUs and threads.
    pub row: W,
}

/// Value of [`Line::until_ns`] for an event.
const EVENT: u64 = u64::MAX;

/// A line of the trace. Lines are sorted by time.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Line {
    at_ns: u64,
    /// End of the state; [`EVENT`] if the line is an event, which has no end.
    until_ns: u64,
    life: u32,
    /// CPU number, counted from one; 0 if the line belongs to no CPU.
    cpu: u32,
    /// A state, or the type of an event.
    what: u32,
    value: u32,
}

impl Keyed for Line {
    fn key(&self) -> u64 {
        self.at_ns
    }
}

/// Writes a recording, and what interrupted its threads if that is known; `provenance` says where and when it was made. Data that does not fit in memory is kept in temporary files in `folder`.
///
/// # Errors
/// When reading or writing fails.
pub fn write<W: Write>(
    recording: &Recording,
    interrupted: Option<&Interruptions>,
    provenance: Option<&Provenance>,
    files: &mut Files<W>,
    folder: &Path,
) -> io::Result<()> {
    let mut lines = Sorter::new(folder)?;
    let since_start = |t_ns: u64| t_ns.saturating_sub(recording.start_ns);
    // Process id and thread id of each life (one thread from its creation to its end). The replay numbers the lives in order of creation.
    let mut threads = BTreeMap::new();
    recording.play(|stretch| -> io::Result<()> {
        threads.insert(stretch.life, (stretch.tgid, stretch.tid));
        lines.push(Line {
            at_ns: since_start(stretch.from_ns),
            until_ns: since_start(stretch.until_ns),
            life: stretch.life,
            cpu: if stretch.doing == Doing::Run { u32::from(stretch.cpu) + 1 } else { 0 },
            what: state(stretch),
            value: 0,
        })
    })?;
    let rows = Rows::of(&threads);
    events(recording, &threads, &mut lines)?;
    interrupted.map_or(Ok(()), |all| interruptions(all, recording.start_ns, &threads, &mut lines))?;
    let lines = lines.sorted()?;

    header(recording, &rows, &mut files.prv)?;
    metadata(recording, provenance, &mut files.prv)?;
    lines.each(|line| -> io::Result<()> {
        let Some((task, thread)) = rows.place.get(&line.life) else { return Ok(()) };
        let Line { at_ns, until_ns, cpu, what, value, .. } = line;
        if *until_ns != EVENT {
            writeln!(files.prv, "1:{cpu}:1:{task}:{thread}:{at_ns}:{until_ns}:{what}")
        } else {
            writeln!(files.prv, "2:{cpu}:1:{task}:{thread}:{at_ns}:{what}:{value}")
        }
    })?;
    meanings(recording, &mut files.pcf)?;
    interrupted.map_or(Ok(()), |all| meanings_of_interruptions(all, &mut files.pcf))?;
    names(recording, &rows, &mut files.row)
}

fn state(stretch: &Stretch) -> u32 {
    match stretch.doing {
        Doing::Unknown => 0,
        Doing::Run => 1,
        Doing::WakeDelay => 2,
        Doing::Preempted { yielded: false } => 3,
        Doing::Preempted { yielded: true } => 4,
        Doing::Blocked(cause) => BLOCKED + cause as u32,
    }
}

/// Position of each life in the trace. A life is one thread from its creation to its end; an id that is reused has
/// several lives. Tasks are processes, ordered by process id. The threads of a task are the lives of its process,
/// ordered by start time.
struct Rows {
    /// Task number and thread number in the trace, both counted from one. The key is the number of a life: one thread from its creation to its end.
    place: BTreeMap<u32, (usize, usize)>,
    /// For each task: the process id, and the ids of its threads.
    tasks: Vec<(u32, Vec<u32>)>,
}

impl Rows {
    fn of(threads: &BTreeMap<u32, (u32, u32)>) -> Rows {
        let mut tasks: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (life, (tgid, tid)) in threads {
            // If the process is unknown, the thread counts as its own process.
            let process = if *tgid == 0 { *tid } else { *tgid };
            tasks.entry(process).or_default().push((*life, *tid));
        }
        let mut rows = Rows { place: BTreeMap::new(), tasks: Vec::new() };
        for (task, (process, lives)) in (1..).zip(&tasks) {
            rows.place.extend((1..).zip(lives).map(|(thread, (life, _))| (*life, (task, thread))));
            rows.tasks.push((*process, lives.iter().map(|(_, tid)| *tid).collect()));
        }
        rows
    }
}

/// Adds the lines of migrations, samples and lost trace events.
fn events(recording: &Recording, threads: &BTreeMap<u32, (u32, u32)>, lines: &mut Sorter<Line>) -> io::Result<()> {
    // A migration gives only a thread id. If the id was reused, the migration is attributed to the later thread.
    let lives: BTreeMap<u32, u32> = threads.iter().map(|(life, (_, tid))| (*tid, *life)).collect();
    let Some(first) = threads.keys().next() else { return Ok(()) };
    recording.each(|trace_event| {
        let cpu = u32::from(trace_event.cpu) + 1;
        let (life, what, value) = match trace_event.what() {
            Some(What::Migration { tid, .. }) => (lives.get(&tid), MIGRATED, cpu),
            Some(What::Lost { count }) => (Some(first), LOST, count),
            Some(What::Sample { tid, waiting }) => (lives.get(&tid), SAMPLED, sample(waiting)),
            _ => (None, 0, 0),
        };
        // A sample does not contain its CPU.
        let cpu = if what == SAMPLED { 0 } else { cpu };
        let at_ns = trace_event.t_ns.saturating_sub(recording.start_ns);
        let line = |life: &u32| Line { at_ns, until_ns: EVENT, life: *life, cpu, what, value };
        life.map(line).map_or(Ok(()), |line| lines.push(line))
    })
}

/// Adds the lines of interruptions: at each beginning its cause, and at each end that of the interruption around it.
fn interruptions(
    interrupted: &Interruptions,
    start_ns: u64,
    threads: &BTreeMap<u32, (u32, u32)>,
    lines: &mut Sorter<Line>,
) -> io::Result<()> {
    let lives: BTreeMap<u32, u32> = threads.iter().map(|(life, (_, tid))| (*tid, *life)).collect();
    let mut last_ns = start_ns;
    for (tid, nested) in interrupted.nested() {
        let Some(life) = lives.get(&tid).copied() else { continue };
        let mut open = Vec::new();
        for (at_ns, begun) in Interruptions::edges(&nested) {
            match begun {
                Some(one) => open.push((u32::from(one.cpu) + 1, one.cause + 1)),
                None => drop(open.pop()),
            }
            let (cpu, value) = open.last().copied().unwrap_or((0, 0));
            let at_ns = at_ns.saturating_sub(start_ns);
            lines.push(Line { at_ns, until_ns: EVENT, life, cpu, what: INTERRUPTED, value })?;
            last_ns = last_ns.max(start_ns + at_ns);
        }
    }
    match lives.values().next() {
        Some(life) if interrupted.left_out > 0 => {
            let value = u32::try_from(interrupted.left_out).unwrap_or(u32::MAX);
            let at_ns = last_ns - start_ns;
            lines.push(Line { at_ns, until_ns: EVENT, life: *life, cpu: 0, what: LEFT_OUT, value })
        }
        _ => Ok(()),
    }
}

fn meanings_of_interruptions(interrupted: &Interruptions, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nEVENT_TYPE\n0    {INTERRUPTED}    Interrupted by\nVALUES\n0    nothing")?;
    let mut causes = (1..).zip(&interrupted.causes);
    causes.try_for_each(|(value, (name, _))| writeln!(out, "{value}    {}", in_a_line(name)))?;
    writeln!(out, "\nEVENT_TYPE\n0    {LEFT_OUT}    Interruptions left out")
}

fn sample(waiting: Option<Waiting>) -> u32 {
    waiting.map_or(1, |waiting| waiting as u32 + 2)
}

/// Returns the time of day at which the observation began.
fn began(recording: &Recording) -> OffsetDateTime {
    let began = OffsetDateTime::from_unix_timestamp_nanos(i128::from(recording.epoch_ns + recording.start_ns));
    began.unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Writes a metadata line for each known value of the provenance. Paraver separates the fields of such a line by colons, and requires at least four:
/// date, action, application and original trace. Lines with an unknown action have no effect. The date is `unknown` for a recording of perf, which
/// does not contain the time of day.
fn metadata(recording: &Recording, provenance: Option<&Provenance>, out: &mut impl Write) -> io::Result<()> {
    let format = format_description!("[year][month][day][hour][minute][second]");
    let date = match recording.epoch_ns {
        0 => "unknown".to_owned(),
        _ => began(recording).format(format).map_err(io::Error::other)?,
    };
    let known = provenance.map(Provenance::known).unwrap_or_default();
    known.iter().try_for_each(|(name, value)| writeln!(out, "#{date}:provenance:{name}:{}", in_a_line(value)))
}

fn header(recording: &Recording, rows: &Rows, out: &mut impl Write) -> io::Result<()> {
    let date = began(recording)
        .format(format_description!("[day]/[month]/[year] at [hour]:[minute]"))
        .map_err(io::Error::other)?;
    let tasks: Vec<String> = rows.tasks.iter().map(|(_, threads)| format!("{}:1", threads.len())).collect();
    let (length_ns, cpus, count) = (recording.end_ns - recording.start_ns, recording.cpus, tasks.len());
    writeln!(out, "#Paraver ({date}):{length_ns}_ns:1({cpus}):1:{count}({})", tasks.join(","))
}

/// Colours of states: green for running, red for waiting for a CPU. Blocked states go from blue to grey.
const COLOURS: [(&str, u32, &str); 5] = [
    ("Unknown", 0, "{200,200,200}"),
    ("Run", 1, "{44,160,44}"),
    ("Wake delay", 2, "{255,152,32}"),
    ("Preempted", 3, "{214,39,40}"),
    ("Yielded", 4, "{150,30,90}"),
];

fn meanings(recording: &Recording, out: &mut impl Write) -> io::Result<()> {
    let causes = Cause::ALL.iter().zip(BLOCKED..);
    writeln!(out, "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n\nSTATES")?;
    COLOURS.iter().try_for_each(|(name, number, _)| writeln!(out, "{number}    {name}"))?;
    causes.clone().try_for_each(|(cause, number)| writeln!(out, "{number}    Blocked: {}", cause.name()))?;
    writeln!(out, "\nSTATES_COLOR")?;
    COLOURS.iter().try_for_each(|(_, number, colour)| writeln!(out, "{number}    {colour}"))?;
    causes.clone().try_for_each(|(_, number)| {
        let step = (number - BLOCKED) * 12;
        writeln!(out, "{number}    {{{},{},{}}}", 60 + step / 2, 90 + step, 210 - step / 3)
    })?;
    writeln!(out, "\nEVENT_TYPE\n0    {MIGRATED}    Moved to CPU\nVALUES")?;
    (0..recording.cpus).try_for_each(|cpu| writeln!(out, "{}    CPU {cpu}", cpu + 1))?;
    writeln!(out, "\nEVENT_TYPE\n0    {SAMPLED}    {SAMPLES}\nVALUES\n{}    Work", sample(None))?;
    Waiting::ALL.iter().try_for_each(|waiting| {
        let how = if waiting.is_spinning() { "Spinning" } else { "In the kernel" };
        writeln!(out, "{}    {how}: {}", sample(Some(*waiting)), waiting.name())
    })?;
    writeln!(out, "\nEVENT_TYPE\n0    {LOST}    Trace events lost")
}

fn names(recording: &Recording, rows: &Rows, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "LEVEL CPU SIZE {}", recording.cpus)?;
    (0..recording.cpus).try_for_each(|cpu| writeln!(out, "CPU {cpu}"))?;
    writeln!(out, "\nLEVEL THREAD SIZE {}", rows.place.len())?;
    for tid in rows.tasks.iter().flat_map(|(_, threads)| threads) {
        writeln!(out, "{tid} {}", in_a_line(recording.thread_table.name(*tid).unwrap_or("?")))?;
    }
    writeln!(out, "\nLEVEL TASK SIZE {}", rows.tasks.len())?;
    for (process, _) in &rows.tasks {
        let name = recording.thread_table.processes.get(process).map_or("?", |process| process.name.as_str());
        writeln!(out, "{process} {}", in_a_line(name))?;
    }
    Ok(())
}

/// Replaces control characters: a thread may give itself any name, including one with a newline.
fn in_a_line(name: &str) -> String {
    name.replace(char::is_control, "?")
}
