//! The server side, in `cox-observe`: a state machine that answers one request at a time. The only state that grows is
//! the pidfds of at most 128 processes. Data is sent only when cox asks for it. If cox is slow or stopped, this process
//! blocks in a send, and the kernel's ring buffers count the events they lose.

mod noise;
mod ringing;

use std::io;
use std::os::fd::BorrowedFd;

use watch::bpf::unavailable;
use watch::snapshots::{ThreadSnapshots, Traced};
use watch::umt::Doorbells;
use watch::{BpfObserver, Intake, Observer, WatchError};
use wire::{Clock, Record};

use crate::caller::Pidfd;
use crate::protocol::{
    LAYOUT, Malformed, NameRow, PairRow, Part, PreemptorRow, Reply, Request, Summary, VERSION, Wanted, WantedNoise,
    Why, data,
};

pub use noise::{Noise, Ring};
pub use ringing::Ringing;

/// Minimum sampling period, nanoseconds: each sample costs the interrupted CPU some microseconds.
const LEAST_SAMPLING_NS: u64 = 100_000;

/// An observer from which the time accounts (clocks) of ended threads can be taken at each tick.
pub trait Source: Observer {
    /// See [`BpfObserver::take_finals`].
    fn take_finals(&mut self) -> Vec<Clock>;
}

impl Source for BpfObserver {
    fn take_finals(&mut self) -> Vec<Clock> {
        BpfObserver::take_finals(self)
    }
}

/// Keeps thread snapshots in a table whose maps can be sent to another process.
pub trait Table: ThreadSnapshots {
    /// See [`Traced::maps`].
    fn maps(&self) -> [BorrowedFd<'_>; 2];
}

impl Table for Traced {
    fn maps(&self) -> [BorrowedFd<'_>; 2] {
        Traced::maps(self)
    }
}

/// The interface of the state machine to the system. Tests replace it.
pub trait World {
    /// Loads and attaches the observing eBPF programs.
    ///
    /// # Errors
    /// When the kernel or a limit refuses.
    fn observe(&mut self, wanted: &Wanted) -> Result<Box<dyn Source>, WatchError>;

    /// Loads and attaches the programs that keep thread snapshots.
    ///
    /// # Errors
    /// When the kernel or a limit refuses.
    fn keep_snapshots(&mut self, children: bool) -> Result<Box<dyn Table>, WatchError>;

    /// Loads and attaches the eBPF programs that ring doorbells (wake standby threads).
    ///
    /// # Errors
    /// When the kernel or a limit refuses.
    fn ring(&mut self) -> Result<Box<dyn Doorbells>, WatchError>;

    /// Loads and attaches the eBPF programs that report what interrupts threads.
    ///
    /// # Errors
    /// When the kernel or a limit refuses.
    fn interrupt(&mut self, wanted: &WantedNoise) -> Result<Box<dyn Ring>, WatchError>;

    /// Returns whether the caller can read the kernel's counters of interrupts.
    fn may_read_counters(&self) -> bool;

    /// Returns whether the threads of a process may be observed.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn may_observe(&self, pid: u32) -> Result<(), String>;

    /// Opens a pidfd of a process whose threads may be observed.
    ///
    /// # Errors
    /// The reason why the threads may not be observed.
    fn hold(&self, pid: u32) -> Result<Pidfd, String>;
}

/// The state of the conversation.
pub enum Dialogue {
    /// cox has not sent a message yet.
    New,
    /// cox has sent its protocol version and layout, and they are the same as in this program.
    Greeted,
    /// The observing eBPF programs are attached.
    Observing {
        /// The observer.
        source: Box<dyn Source>,
        /// CPU time of this thread before the observation started, nanoseconds.
        cpu_before_ns: u64,
    },
    /// The eBPF programs that keep thread snapshots are attached.
    Snapshots(Box<dyn Table>),
    /// The eBPF programs that ring doorbells (wake standby threads) are attached.
    Ringing(Ringing),
    /// The eBPF programs that report what interrupts threads are loaded.
    Noise(Noise),
    /// The observation has ended, and its record was sent.
    Finished,
}

/// Reason why a request is not done.
#[derive(Debug)]
enum Failure {
    /// The request is refused, and the conversation continues.
    Refused(WatchError),
    /// cox cannot be reached, or its message is not allowed in this state. The conversation ends.
    Ended(io::Error),
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Failure {
        Failure::Refused(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Ended(error)
    }
}

/// Sends a message, with descriptors if there are any.
pub type Send<'s> = &'s mut dyn FnMut(&[u8], &[BorrowedFd<'_>]) -> io::Result<()>;

impl Dialogue {
    /// Answers one message.
    ///
    /// # Errors
    /// When the conversation cannot continue: the message is invalid or not allowed in this state, or cox cannot be
    /// reached.
    pub fn answer(&mut self, message: &[u8], world: &mut dyn World, send: Send<'_>) -> io::Result<()> {
        match self.perform(Request::decode(message)?, world, send) {
            Ok(()) => send(&Reply::Done.encode(), &[])?,
            Err(Failure::Refused(error)) => {
                let (why, text) = match &error {
                    WatchError::Unavailable { why, .. } => (Why::Unavailable, why.clone()),
                    WatchError::NoTarget { why, .. } => (Why::NoTarget, why.clone()),
                    WatchError::System { .. } => (Why::Failed, error.to_string()),
                };
                send(&Reply::Refused(why, &text).encode(), &[])?;
            }
            Err(Failure::Ended(error)) => return Err(error),
        }
        if let Dialogue::Ringing(ringing) = self {
            ringing.prepare();
        }
        Ok(())
    }

    /// Performs a request, and sends all of the answer but its last message.
    fn perform(&mut self, request: Request, world: &mut dyn World, send: Send<'_>) -> Result<(), Failure> {
        match (&mut *self, request) {
            (Dialogue::New, Request::Hello { version, layout }) => {
                agree(version, layout)?;
                *self = Dialogue::Greeted;
            }
            (Dialogue::Greeted, Request::Observe(wanted)) => {
                let source = world.observe(&wanted)?;
                *self = Dialogue::Observing { source, cpu_before_ns: arch::clock::thread_cpu_ns() };
            }
            (Dialogue::Observing { source, .. }, Request::Launched(pid)) => {
                allowed(world, pid)?;
                source.enrol_launched(pid)?;
            }
            (Dialogue::Observing { source, .. }, Request::Process(pid)) => {
                allowed(world, pid)?;
                source.enrol(pid)?;
            }
            // A control group may also contain threads of other users: the eBPF programs skip them.
            (Dialogue::Observing { source, .. }, Request::Threads(tids)) => {
                source.enrol_threads(&tids)?;
            }
            (Dialogue::Observing { source, .. }, Request::Tick) => {
                let mut intake = Intake::default();
                let ticked = source.tick(&mut intake);
                send_intake(intake, source.take_finals(), send)?;
                ticked?;
            }
            (Dialogue::Observing { source, .. }, Request::Living) => {
                let names: Vec<NameRow> = source.living()?.into_iter().map(name_row).collect();
                send_all(Part::Names, &names, send)?;
            }
            (Dialogue::Observing { source, cpu_before_ns }, Request::Snapshot) => {
                let mut intake = Intake::default();
                let record = source.snapshot(&mut intake)?;
                // The record already contains the time accounts of ended threads. Discard the observer's own copies, so
                // that each account is sent only once.
                source.take_finals();
                send_record(record, intake, *cpu_before_ns, send)?;
            }
            (Dialogue::Observing { source, cpu_before_ns }, Request::Finish) => {
                let mut intake = Intake::default();
                let finished = source.finish(&mut intake);
                let sent = finished.map(|record| send_record(record, intake, *cpu_before_ns, send));
                *self = Dialogue::Finished;
                sent??;
            }
            (Dialogue::Greeted, Request::Snapshots { children }) => {
                let table = world.keep_snapshots(children)?;
                send(&Reply::Maps.encode(), &table.maps())?;
                *self = Dialogue::Snapshots(table);
            }
            (Dialogue::Snapshots(table), Request::Process(pid)) => {
                allowed(world, pid)?;
                table.enrol(pid)?;
            }
            (Dialogue::Snapshots(table), Request::Sample { mean_ns, cpus }) => {
                table.sample_on(&cpus, mean_ns.max(LEAST_SAMPLING_NS))?;
            }
            (Dialogue::Snapshots(table), Request::Tick) => send_all(Part::Samples, &table.take_samples()?, send)?,
            // Also allowed after an observation has finished, for cox doctor. It tries both kinds of eBPF programs in
            // one helper process: first those that observe, then those that ring doorbells. The first kind has been
            // removed from the kernel by then.
            (Dialogue::Greeted | Dialogue::Finished, Request::Doorbells) => {
                *self = Dialogue::Ringing(Ringing::new(world.ring()?));
            }
            (Dialogue::Ringing(ringing), Request::Give(pid)) => ringing.give(pid, world, send)?,
            (Dialogue::Ringing(ringing), Request::Over(process)) => ringing.over(process)?,
            (Dialogue::Ringing(ringing), Request::Gone(process)) => ringing.gone(process)?,
            (Dialogue::Ringing(ringing), Request::Finish) => {
                ringing.end();
                *self = Dialogue::Finished;
            }
            (Dialogue::Greeted, Request::Noise(wanted)) => {
                let noise = Noise::new(world.interrupt(&wanted)?, wanted.ring_bytes);
                noise.send_state(send)?;
                *self = Dialogue::Noise(noise);
            }
            (Dialogue::Noise(noise), Request::Process(pid)) => noise.follow(pid, world)?,
            (Dialogue::Noise(noise), Request::Threads(tids)) => noise.follow_threads(&tids, world)?,
            // Also after Finish: what is in the ring can still be read.
            (Dialogue::Noise(noise), Request::Tick) => noise.send_events(send)?,
            (Dialogue::Noise(noise), Request::Counts) => noise.send_counts(world, send)?,
            (Dialogue::Noise(noise), Request::Finish) => noise.end(),
            _ => return Err(Failure::Ended(Malformed.into())),
        }
        Ok(())
    }
}

fn agree(version: u32, layout: u32) -> Result<(), WatchError> {
    if (version, layout) == (VERSION, LAYOUT) {
        return Ok(());
    }
    Err(unavailable("cox and cox-observe are of different versions. Fix: install both again (make install)".into()))
}

fn allowed(world: &dyn World, pid: u32) -> Result<(), WatchError> {
    world.may_observe(pid).map_err(|why| WatchError::NoTarget { pid, why })
}

fn send_all<T: bytemuck::Pod>(part: Part, rows: &[T], send: Send<'_>) -> io::Result<()> {
    data(part, rows).try_for_each(|message| send(&message, &[]))
}

fn send_intake(intake: Intake, finals: Vec<Clock>, send: Send<'_>) -> io::Result<()> {
    send_all(Part::Samples, &intake.samples, send)?;
    send_all(Part::TraceEvents, &intake.trace_events, send)?;
    send_all(Part::Finals, &finals, send)
}

fn name_row((tgid, tid, name): (u32, u32, String)) -> NameRow {
    let mut comm = [0; 16];
    comm.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
    NameRow { tgid, tid, comm }
}

fn send_record(record: Record, intake: Intake, cpu_before_ns: u64, send: Send<'_>) -> io::Result<()> {
    send_intake(intake, record.clocks, send)?;
    send_all(Part::Living, &record.living, send)?;
    send_all(Part::Cpus, &record.cpus, send)?;
    send_all(Part::TrackedThreads, &[record.tracked], send)?;
    let preemptors =
        record.preemptors.iter().map(|(tid, preemptor)| PreemptorRow { tid: u64::from(*tid), preemptor: *preemptor });
    send_all(Part::Preemptors, &preemptors.collect::<Vec<_>>(), send)?;
    let pairs = record.pairs.iter().map(|(pair, sum)| PairRow { pair: *pair, sum: *sum });
    send_all(Part::Pairs, &pairs.collect::<Vec<_>>(), send)?;
    send_all(Part::Latencies, &record.latencies, send)?;
    let summary = Summary {
        start_ns: record.start_ns,
        end_ns: record.end_ns,
        sample_period_ns: record.sample_period_ns,
        events: record.events,
        kernel_cost_ns: record.kernel_cost_ns.unwrap_or(u64::MAX),
        cpu_ns: arch::clock::thread_cpu_ns().saturating_sub(cpu_before_ns),
        latencies_of_programs: record.latencies_of_programs.into(),
        losses: record.losses,
        unlisted: record.unlisted,
    };
    send_all(Part::Summary, &[summary], send)
}

#[cfg(test)]
mod tests;
