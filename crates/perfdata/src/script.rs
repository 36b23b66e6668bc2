//! Reads the text that `perf script` prints about a scheduler recording.
//!
//! A line is `comm tid [cpu] seconds: system:event: fields`, where names may contain blanks. The text has process
//! records only with `--show-task-events`, and losses only with `--show-lost-events`. It does not show which events
//! were recorded in interrupts. Times are in microseconds, with `--ns` in nanoseconds.
//!
//! Fields have the kernel's form (`comm=a pid=7 prio=120 target_cpu=002`). For switches and wake-ups they may have
//! another one (`a:7 [120] CPU:002`): that of a libtraceevent plugin (`plugin_sched_switch.c`), which perf uses if it
//! is installed. Lines in neither form are counted.

use std::io::{self, BufRead, Read};

use wire::{Cause, Left};

use crate::ending::{Cut, Ending};
use crate::error::Error;
use crate::event::{Comm, Event, Kind, Raw, comm};

/// Maximum length of a line, bytes. A line consists of two names, some numbers and a command's name.
const LONGEST: u64 = 4096;
/// If more bytes than this were read and none of the lines was an event, reading ends.
const PATIENCE: u64 = 1 << 20;

/// The events that a libtraceevent plugin prints in another form than the kernel.
const OF_TWO_FORMS: [&str; 4] = ["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new"];

/// Reads the text of `perf script`.
pub(crate) fn read(input: &mut impl BufRead, mut each: impl FnMut(&Event) -> io::Result<()>) -> Result<Ending, Error> {
    let mut ending = Ending::default();
    let mut line = Vec::new();
    let (mut at_bytes, mut last_ns, mut has_waking) = (0, 0, false);
    loop {
        line.clear();
        let got = input.by_ref().take(LONGEST).read_until(b'\n', &mut line)? as u64;
        if got == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        let parsed = std::str::from_utf8(&line).ok().and_then(parse);
        match parsed {
            // A truncated line is not used: its last number may be truncated too.
            _ if !is_whole && got < LONGEST => {
                ending.cut = Some(Cut { at_bytes, why: "the last line is incomplete" });
            }
            // If the text has sched_waking, sched_wakeup is ignored: it reports the same wake-up, later.
            Some((_, "sched_wakeup")) if has_waking => ending.skipped += 1,
            Some((None, name)) => {
                ending.unclear += u64::from(OF_TWO_FORMS.contains(&name));
                ending.skipped += 1;
            }
            Some((Some(event), name)) => {
                has_waking |= name == "sched_waking";
                ending.late += u64::from(event.t_ns < last_ns);
                last_ns = last_ns.max(event.t_ns);
                match event.kind {
                    Kind::Lost { count } => ending.lost = ending.lost.saturating_add(count),
                    _ => ending.events += 1,
                }
                each(&event)?;
            }
            None => ending.skipped += 1,
        }
        at_bytes += got;
        if ending.events == 0 && at_bytes > PATIENCE {
            break;
        }
    }
    match ending {
        Ending { events: 0, unclear: 0, .. } => Err(Error::Foreign),
        Ending { events: 0, .. } => Err(Error::UnknownForm),
        _ => Ok(ending),
    }
}

/// Parses a line. Returns the event and the name of its tracepoint, which is empty for perf's own records. The event is
/// `None` if its fields could not be parsed. Returns `None` if the line is not an event, or if the event's numbers are
/// out of range.
fn parse(line: &str) -> Option<(Option<Event>, &str)> {
    event(line).filter(|(event, _)| event.as_ref().is_none_or(Event::is_possible))
}

fn event(line: &str) -> Option<(Option<Event>, &str)> {
    let line = line.trim_end();
    // Take the first bracket that contains a CPU number, because a name may contain brackets.
    let (before, cpu, after) = line.match_indices(" [").find_map(|(at, _)| {
        let (cpu, after) = line[at + 2..].split_once(']')?;
        let cpu: u32 = cpu.parse().ok()?;
        Some((&line[..at], cpu, after.trim_start()))
    })?;
    let ids = before.trim_end().rsplit(' ').next()?;
    let (pid, tid) = ids.split_once('/').unwrap_or(("-1", ids));
    let (pid, tid): (i32, i32) = (pid.parse().ok()?, tid.parse().ok()?);
    let (time, rest) = after.split_once(": ")?;
    // perf prints the interrupt flags, if they were requested, before the time.
    let t_ns = nanoseconds(time.rsplit(' ').next()?)?;
    let rest = rest.trim_start();
    if let Some(record) = rest.strip_prefix("PERF_RECORD_") {
        return Some((Some(Event { t_ns, cpu, pid, tid, kind: self::record(record)? }), ""));
    }
    let (name, fields) = rest.split_once(": ")?;
    let name = name.trim_end_matches(':').rsplit(':').next()?;
    Some((kind(name, fields).map(|kind| Event { t_ns, cpu, pid, tid, kind }), name))
}

/// Parses a time such as `61240.175849`, with six or nine digits after the point.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, part) = text.split_once('.')?;
    let digits = part.len();
    if !matches!(digits, 6 | 9) || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = part.parse::<u64>().ok()? * if digits == 6 { 1000 } else { 1 };
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

/// Returns the text between two keys, or from a key to the end of the line.
fn between<'l>(line: &'l str, key: &str, next: &str) -> Option<&'l str> {
    let rest = &line[line.find(key)? + key.len()..];
    Some(if next.is_empty() { rest } else { &rest[..rest.find(next)?] })
}

/// Returns the number that follows a key, up to a space.
fn number<T: std::str::FromStr>(line: &str, key: &str) -> Option<T> {
    between(line, key, "")?.split([' ', ',']).next()?.parse().ok()
}

fn kind(name: &str, fields: &str) -> Option<Kind> {
    let named = |key, next| between(fields, key, next).map(|name| comm(name.as_bytes()));
    Some(match name {
        "sched_switch" => switch(fields)?,
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
            let (comm, tid) = woken(fields)?;
            Kind::Waking { tid, comm, is_new: name == "sched_wakeup_new", by_interrupt: false }
        }
        "sched_migrate_task" => Kind::Migration {
            tid: number(fields, " pid=")?,
            from: number(fields, " orig_cpu=")?,
            to: number(fields, " dest_cpu=")?,
        },
        "sched_stat_runtime" => Kind::Ran { tid: number(fields, " pid=")?, run_ns: number(fields, " runtime=")? },
        "sched_process_fork" => Kind::Forked {
            parent: number(fields, " pid=")?,
            child: number(fields, " child_pid=")?,
            comm: named("child_comm=", " child_pid=")?,
        },
        "sched_process_exec" => Kind::Execed { tid: number(fields, " pid=")?, caller: number(fields, " old_pid=")? },
        "sched_process_exit" => Kind::Exited { tid: number(fields, " pid=")? },
        _ => return None,
    })
}

/// Returns the woken thread. A plugin prints `name:17 [120] success=1 CPU:002`. On kernels without the field `success`,
/// it prints an error in its place, or nothing.
fn woken(fields: &str) -> Option<(Comm, u32)> {
    if fields.starts_with("comm=") {
        return Some((comm(between(fields, "comm=", " pid=")?.as_bytes()), number(fields, " pid=")?));
    }
    let (who, _) = fields.rsplit_once(']')?;
    with_plugin(who)
}

fn switch(fields: &str) -> Option<Kind> {
    let (before, after) = fields.split_once(" ==> ")?;
    let (prev, prev_comm, state, next, next_comm);
    if before.starts_with("prev_comm=") {
        prev_comm = comm(between(before, "prev_comm=", " prev_pid=")?.as_bytes());
        prev = number(before, " prev_pid=")?;
        state = between(before, " prev_state=", "")?.trim();
        next_comm = comm(between(after, "next_comm=", " next_pid=")?.as_bytes());
        next = number(after, " next_pid=")?;
    } else {
        // The form of the perf plugins: `name:17 [120] S ==> name:18 [0]`.
        let (who, left) = before.rsplit_once(']')?;
        (prev_comm, prev) = with_plugin(who)?;
        state = left.trim();
        (next_comm, next) = with_plugin(after.rsplit_once(']')?.0)?;
    }
    let (left, raw) = state_of(state)?;
    Some(Kind::Switch { prev, prev_comm, left, raw, next, next_comm })
}

/// Parses `name:17 [120`.
fn with_plugin(text: &str) -> Option<(Comm, u32)> {
    let (who, _priority) = text.rsplit_once(" [")?;
    let (name, tid) = who.rsplit_once(':')?;
    Some((comm(name.as_bytes()), tid.parse().ok()?))
}

/// Returns why a thread left its CPU, and its state as far as `perf sched timehist` distinguishes it, from the letters
/// of `prev_state`.
fn state_of(state: &str) -> Option<(Left, Raw)> {
    let blocked = |cause| Left::Blocked(Some(cause));
    Some(match state.bytes().next()? {
        b'R' if state == "R" => (Left::Preempted { yielded: false }, Raw::Running),
        b'R' => (Left::Preempted { yielded: false }, Raw::Preempted),
        b'X' | b'x' | b'Z' => (Left::Dead, Raw::Other),
        b'T' | b't' => (blocked(Cause::Stopped), Raw::Other),
        b'D' if state == "D" => (blocked(Cause::Unspecified), Raw::Uninterruptible),
        letter if letter.is_ascii_alphabetic() => (blocked(Cause::Unspecified), Raw::Other),
        _ => return None,
    })
}

/// Parses the records that `--show-task-events` and `--show-lost-events` add, after the prefix `PERF_RECORD_`.
fn record(record: &str) -> Option<Kind> {
    if let Some(count) = record.strip_prefix("LOST lost ") {
        return Some(Kind::Lost { count: count.trim().parse().ok()? });
    }
    if let Some(rest) = record.strip_prefix("COMM") {
        let (how, rest) = rest.split_once(": ")?;
        let (name, ids) = rest.rsplit_once(':')?;
        let (pid, tid) = ids.split_once('/')?;
        let (pid, tid) = (pid.parse().ok()?, tid.trim().parse().ok()?);
        return Some(Kind::Comm { pid, tid, comm: comm(name.as_bytes()), exec: how.contains("exec") });
    }
    // `FORK(17830:17830):(17772:17772)`
    let (what, rest) = record.split_once('(')?;
    let mut ids = rest.split(['(', ')', ':']).filter(|id| !id.is_empty()).map(|id| id.parse::<u32>().ok());
    let mut id = || ids.next().flatten();
    let (pid, tid, parent_pid, parent) = (id()?, id()?, id()?, id()?);
    match what {
        "FORK" => Some(Kind::Fork { pid, parent_pid, tid, parent }),
        "EXIT" => Some(Kind::Exit { tid }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
