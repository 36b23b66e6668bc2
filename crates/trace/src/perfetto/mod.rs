//! Traces for Perfetto: who ran on each CPU, who woke whom, what threads were blocked by, and how many ran and waited.
//!
//! Written as the kernel's own events are (ftrace bundles by CPU, with switches and wakings in columns), since of those the viewers make
//! threads' states themselves. What only we know is added: the cause of a block, as the kernel function that `sched_blocked_reason` names; what each
//! thread did, with causes, as slices on its track; CPUs in use, threads that waited and were blocked, as counters; and where something was lost.
//!
//! Times are on CLOCK_BOOTTIME, which is a trace's clock if nothing else is said.

mod bundle;
mod counters;
pub(crate) mod packet;
pub(crate) mod proto;
mod spins;
mod states;

use std::io::{self, Write};

use bundle::Bundles;
use counters::Counters;
use packet::{BOOTTIME, CLEARED, iid, packet, put};
use proto::*;
use states::States;
use wire::Cause;

use crate::recording::{Recording, Told};

/// Numbers of other clocks (`common/builtin_clock.proto`).
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;

/// Writes a recording.
///
/// # Errors
/// When something cannot be read or written.
pub fn write(recording: &Recording, out: &mut impl Write) -> io::Result<()> {
    put(out, &beginning(recording))?;
    put(out, &system())?;
    put(out, &processes(recording))?;
    let mut counters = Counters::new(recording.boot_ns);
    counters.tracks().iter().try_for_each(|packet| put(out, packet))?;
    let mut bundles = Bundles::new(recording);
    let mut states = States::new(&recording.cast, recording.boot_ns);
    recording.tell(|told| -> io::Result<()> {
        match told {
            Told::Moment(moment) => {
                states.moment(moment);
                bundles.take(moment).into_iter().try_for_each(|packet| put(out, &packet))?;
                counters.take(moment).iter().try_for_each(|packet| put(out, packet))
            }
            Told::Stretch(stretch) => states.take(stretch, out),
        }
    })?;
    states.rest(out)?;
    bundles.rest().into_iter().try_for_each(|packet| put(out, &packet))?;
    counters.rest().iter().try_for_each(|packet| put(out, packet))
}

/// Clocks, and names of causes.
fn beginning(recording: &Recording) -> TracePacket {
    let at = recording.start_ns;
    let clock =
        |clock_id, timestamp| Clock { clock_id: Some(clock_id), timestamp: Some(timestamp), is_incremental: None };
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

/// The kernel's release: what numbers of states mean hangs on it.
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
    let cast = &recording.cast;
    let processes = cast.processes.iter().map(|(pid, process)| Process {
        pid: Some(*pid as i32),
        ppid: Some(process.parent as i32),
        cmdline: if process.command.is_empty() { vec![process.name.clone()] } else { process.command.clone() },
    });
    let threads = cast.threads.iter().map(|(tid, thread)| Thread {
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
