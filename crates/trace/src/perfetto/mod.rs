//! Traces for Perfetto: the thread on each CPU, wake-ups, causes of blocks, and the numbers of running and waiting
//! threads.
//!
//! Switches and wakings are written in the form of the kernel's own events (ftrace bundles per CPU, in columns),
//! because viewers derive thread states from them. cox adds what the kernel does not record. The cause of a block is
//! written as the kernel function in `sched_blocked_reason`, and the states of each thread, with causes, as slices on
//! its track. What interrupted a thread, if noise was measured, is on a track of its own under it. There are counters of CPUs in use, of waiting threads and of blocked threads. Marks show where trace
//! events were lost.
//!
//! Times are on CLOCK_BOOTTIME, the default clock of a trace.

mod bundle;
mod counters;
mod interruptions;
pub mod noise;
pub(crate) mod packet;
pub(crate) mod proto;
mod spins;
mod states;

use std::io::{self, Write};

use bundle::Bundles;
use counters::Counters;
use packet::{BOOTTIME, CLEARED, MONOTONIC, REALTIME, clock, iid, packet, put};
use proto::*;
use states::States;
use wire::Cause;

use crate::interruptions::Interruptions;
use crate::recording::{Recording, ReplayItem};

/// Writes a recording, and what interrupted its threads if that is known.
///
/// # Errors
/// When reading or writing fails.
pub fn write(recording: &Recording, interrupted: Option<&Interruptions>, out: &mut impl Write) -> io::Result<()> {
    put(out, &beginning(recording))?;
    put(out, &system())?;
    put(out, &processes(recording))?;
    let mut counters = Counters::new(recording.boot_ns);
    counters.tracks().iter().try_for_each(|packet| put(out, packet))?;
    let mut bundles = Bundles::new(recording);
    let mut states = States::new(&recording.thread_table, recording.boot_ns);
    recording.tell(|told| -> io::Result<()> {
        match told {
            ReplayItem::TraceEvent(trace_event) => {
                states.trace_event(trace_event);
                bundles.take(trace_event).into_iter().try_for_each(|packet| put(out, &packet))?;
                counters.take(trace_event).iter().try_for_each(|packet| put(out, packet))
            }
            ReplayItem::Stretch(stretch) => states.take(stretch, out),
        }
    })?;
    let tracks = states.tracks();
    states.rest(out)?;
    interrupted.map_or(Ok(()), |all| interruptions::write(all, recording.boot_ns, &tracks, out))?;
    bundles.rest().into_iter().try_for_each(|packet| put(out, &packet))?;
    counters.rest().iter().try_for_each(|packet| put(out, packet))
}

/// Returns the packet with the clocks and the names of causes.
fn beginning(recording: &Recording) -> TracePacket {
    let at = recording.start_ns;
    let name = |cause: &Cause| InternedString { iid: Some(iid(*cause)), str: Some(cause.name().into()) };
    TracePacket {
        sequence_flags: Some(CLEARED),
        timestamp: Some(recording.boot_ns + at),
        clock_snapshot: Some(ClockSnapshot {
            clocks: vec![
                clock(BOOTTIME, recording.boot_ns + at),
                clock(MONOTONIC, at),
                clock(REALTIME, recording.epoch_ns + at),
            ],
        }),
        interned_data: Some(InternedData {
            kernel_symbols: Cause::ALL.iter().map(name).collect(),
            ..InternedData::default()
        }),
        ..packet()
    }
}

/// Returns the packet with the kernel's release, which determines the meaning of state numbers.
fn system() -> TracePacket {
    let read = |what: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{what}"));
        text.ok().map(|text| text.trim_end().to_owned())
    };
    let machine = Some(std::env::consts::ARCH.to_owned());
    let utsname = Utsname { sysname: Some("Linux".into()), release: read("osrelease"), machine };
    TracePacket { system_info: Some(SystemInfo { utsname: Some(utsname) }), ..packet() }
}

fn processes(recording: &Recording) -> TracePacket {
    let thread_table = &recording.thread_table;
    let processes = thread_table.processes.iter().map(|(pid, process)| Process {
        pid: Some(*pid as i32),
        ppid: Some(process.parent as i32),
        cmdline: if process.command.is_empty() { vec![process.name.clone()] } else { process.command.clone() },
    });
    let threads = thread_table.threads.iter().map(|(tid, thread)| Thread {
        tid: Some(*tid as i32),
        name: Some(thread.name.clone()),
        tgid: Some(thread.process as i32),
    });
    let process_tree = ProcessTree { processes: processes.collect(), threads: threads.collect() };
    TracePacket {
        timestamp: Some(recording.boot_ns + recording.start_ns),
        process_tree: Some(process_tree),
        ..packet()
    }
}
