//! Encodes switches and wakings per CPU, in columns.

use std::collections::HashMap;

use wire::{Cause, Left, TraceEvent, What};

use super::packet::{iid, packet};
use super::proto::{CompactSched, FtraceEvent, FtraceEventBundle, SchedBlockedReason, TracePacket};
use crate::recording::{Recording, ThreadTable};

/// Approximate number of events in a packet.
const EVENTS: usize = 2000;
/// Age at which a packet is written even if it is not full, nanoseconds. The age is limited, because readers sort the events of different packets
/// only if their times are close together.
const OLD_NS: u64 = 500_000_000;

/// Thread states at a switch, with the tracepoint's numbers (include/trace/events/sched.h).
const RUNNABLE: i64 = 0;
const INTERRUPTIBLE: i64 = 1;
const UNINTERRUPTIBLE: i64 = 2;
const DEAD: i64 = 16;
/// State of a preempted thread: `TASK_REPORT_MAX` of kernels since 4.14.
const PREEMPTED: i64 = 256;
/// Priority of an ordinary thread. cox's trace events do not record priorities.
const PRIORITY: i32 = 120;
/// `TRACE_FLAG_HARDIRQ`: the wake-up came from an interrupt, not from a thread.
const BY_INTERRUPT: u32 = 8;

/// Waker id for an unknown waker that is a thread, not an interrupt.
const NOBODY: u32 = u32::MAX;

/// Collects kernel events for packets. Each CPU has packets of its own (Perfetto calls their content a bundle).
pub struct Bundles<'r> {
    thread_table: &'r ThreadTable,
    boot_ns: u64,
    cpus: Vec<Bundle>,
}

/// The events that are collected for the next packet of one CPU.
#[derive(Default)]
struct Bundle {
    began_ns: u64,
    sched: CompactSched,
    names: HashMap<String, u32>,
    /// For each thread id, the position of the thread's name in the packet's table of names.
    named: HashMap<u32, u32>,
    events: Vec<FtraceEvent>,
    last_switch_ns: u64,
    last_waking_ns: u64,
    has_lost: bool,
}

impl<'r> Bundles<'r> {
    pub fn new(recording: &'r Recording) -> Bundles<'r> {
        let cpus = (0..recording.cpus).map(|_| Bundle::default()).collect();
        Bundles { thread_table: &recording.thread_table, boot_ns: recording.boot_ns, cpus }
    }

    /// Adds a trace event. Returns a packet if one is now full or old enough.
    pub fn take(&mut self, trace_event: &TraceEvent) -> Option<TracePacket> {
        let at_ns = trace_event.t_ns + self.boot_ns;
        let number = u32::from(trace_event.cpu);
        let bundle = self.cpus.get_mut(number as usize)?;
        let is_empty = bundle.is_empty();
        match trace_event.what()? {
            What::Switch { left, into, in_cause, .. } => {
                in_cause.into_iter().for_each(|cause| bundle.blocked_reason(at_ns, into, cause));
                bundle.switch(at_ns, left, into, self.thread_table);
            }
            What::Waking { tid, waker, last_cpu } => {
                bundle.waking(at_ns, tid, waker, last_cpu, self.thread_table);
            }
            // A new thread is woken right after its creation and then waits for a CPU.
            What::Born { tid, .. } => bundle.waking(at_ns, tid, NOBODY, trace_event.cpu, self.thread_table),
            // The switch to this thread was lost, so the reason why the previous thread left is unknown.
            What::Arrived { tid } => bundle.switch(at_ns, Left::Blocked(None), tid, self.thread_table),
            What::Why { tid, cause } => bundle.blocked_reason(at_ns, tid, cause),
            What::Lost { .. } => bundle.has_lost = true,
            What::Sample { .. } => return None,
            _ => {}
        }
        if is_empty {
            bundle.began_ns = at_ns;
        }
        let is_full = bundle.sched.switch_timestamp.len() + bundle.sched.waking_timestamp.len() >= EVENTS;
        let is_old = at_ns.saturating_sub(bundle.began_ns) > OLD_NS;
        ((is_full || is_old) && !bundle.is_empty()).then(|| std::mem::take(bundle).packet(number))
    }

    /// Returns the unfinished packets, ordered by CPU.
    pub fn rest(self) -> impl Iterator<Item = TracePacket> {
        let bundles = (0..).zip(self.cpus).filter(|(_, bundle)| !bundle.is_empty());
        bundles.map(|(number, bundle)| bundle.packet(number))
    }
}

/// Returns the display name of a thread.
fn name(thread_table: &ThreadTable, tid: u32) -> String {
    if tid == 0 { "swapper".into() } else { thread_table.name(tid).map_or_else(|| format!("[{tid}]"), str::to_owned) }
}

impl Bundle {
    fn is_empty(&self) -> bool {
        self.sched.switch_timestamp.is_empty() && self.sched.waking_timestamp.is_empty() && !self.has_lost
    }

    /// Returns the position of a thread's name in the packet's table of names. Adds the name if it is not there. Threads with the same name share
    /// the entry.
    fn name(&mut self, thread_table: &ThreadTable, tid: u32) -> u32 {
        let Bundle { names, named, sched, .. } = self;
        *named.entry(tid).or_insert_with(|| {
            let next = names.len() as u32;
            *names.entry(name(thread_table, tid)).or_insert_with_key(|name| {
                sched.intern_table.push(name.clone());
                next
            })
        })
    }

    fn switch(&mut self, at_ns: u64, left: Left, into: u32, thread_table: &ThreadTable) {
        let name = self.name(thread_table, into);
        let state = match left {
            Left::Preempted { yielded: false } => PREEMPTED,
            Left::Preempted { yielded: true } => RUNNABLE,
            Left::Blocked(Some(Cause::Disk | Cause::PageFault)) => UNINTERRUPTIBLE,
            Left::Blocked(_) => INTERRUPTIBLE,
            Left::Dead => DEAD,
        };
        let sched = &mut self.sched;
        sched.switch_timestamp.push(at_ns - self.last_switch_ns);
        sched.switch_prev_state.push(state);
        sched.switch_next_pid.push(into as i32);
        sched.switch_next_prio.push(PRIORITY);
        sched.switch_next_comm_index.push(name);
        self.last_switch_ns = at_ns;
    }

    fn waking(&mut self, at_ns: u64, tid: u32, waker: u32, last_cpu: u16, thread_table: &ThreadTable) {
        let name = self.name(thread_table, tid);
        let sched = &mut self.sched;
        sched.waking_timestamp.push(at_ns - self.last_waking_ns);
        sched.waking_pid.push(tid as i32);
        sched.waking_target_cpu.push(last_cpu.into());
        sched.waking_prio.push(PRIORITY);
        sched.waking_comm_index.push(name);
        sched.waking_common_flags.push(if waker == 0 { BY_INTERRUPT } else { 0 });
        self.last_waking_ns = at_ns;
    }

    /// Adds an event with the cause of a block, just before the thread arrives on a CPU. The kernel would write the
    /// event at the wake-up, but without cox's causes.
    fn blocked_reason(&mut self, at_ns: u64, tid: u32, cause: Cause) {
        let is_io = matches!(cause, Cause::Disk | Cause::PageFault);
        self.events.push(FtraceEvent {
            timestamp: Some(at_ns.saturating_sub(1)),
            pid: Some(tid),
            sched_blocked_reason: Some(SchedBlockedReason {
                pid: Some(tid as i32),
                caller: Some(iid(cause)),
                io_wait: Some(is_io.into()),
            }),
        });
    }

    fn packet(self, cpu: u32) -> TracePacket {
        let bundle = FtraceEventBundle {
            cpu: Some(cpu),
            event: self.events,
            lost_events: self.has_lost.then_some(true),
            compact_sched: Some(self.sched),
        };
        TracePacket { ftrace_events: Some(bundle), ..packet() }
    }
}
