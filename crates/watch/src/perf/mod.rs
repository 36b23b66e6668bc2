//! The `perf` backend: context-switch records from perf events of the tracked threads. It needs no privilege if kernel.perf_event_paranoid is 2 or
//! less.
//!
//! Switch-in and switch-out are exact, with the preempt bit. perf does not show wake-ups (so wake delay counts as blocked time), why threads
//! block, what else runs on the CPUs, or samples in kernel code. A program that changes its user id at exec (sudo) is no longer tracked after
//! that: the kernel removes the events from it, which looks like an EXIT.
//!
//! 1. Every online CPU has one ring. It belongs to an event that cox opens for this purpose and that counts nothing, so it outlives all tracked
//!    threads.
//! 2. Every thread that is enrolled gets one event per CPU, redirected to that CPU's ring. One event for all CPUs would not do, because an inherited
//!    event that is not bound to a CPU cannot be mapped. A thread that is created inherits its creator's events before it runs.
//! 3. A tick empties the rings and sorts the records by time (`rounds`), and `roster` turns them into events. The rings ask for a tick when they
//!    are half full.
//!
//! Cost, as CPU time of the program, measured on two CPUs. The worst case is a pipe ping-pong within one CPU, with four records per round trip: 42 %
//! of each round trip. Each thread that is created and joined costs 10 µs × the number of CPUs. A program that switches or creates threads all the
//! time should be observed by BPF.

pub(crate) mod event;
mod parse;
mod profile;
mod ring;
mod roster;
mod rounds;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use arch::monotonic_ns;
use machine::process::{Doing, Stat, Task};
use machine::{Error, Root};
use rustix::event::epoll;
use wire::layout::comm_text;
use wire::record::Losses;
use wire::{Backend, Record, Sample};

pub use self::profile::Profile;
use crate::observer::{Intake, Observer, WatchError};
use ring::Ring;
use roster::Roster;
use rounds::Rounds;

/// Ring sizes to try. The record of a switch takes 32 bytes. The reader is woken when a ring is half full and must run before it is full, although
/// the program keeps the machine busy. An unprivileged user may lock 516 KiB per CPU (kernel.perf_event_mlock_kb), shared by all of the user's
/// perf events: enough for the third size and its control page. In addition, each process may lock RLIMIT_MEMLOCK.
const RING_BYTES: [usize; 7] = [2 << 20, 1 << 20, 512 << 10, 256 << 10, 128 << 10, 64 << 10, 32 << 10];
/// Upper limit of the size of all rings together, however many CPUs there are. It is needed because this memory is not available to other
/// programs.
const ALL_RINGS_BYTES: usize = 64 << 20;

/// Longest time from a thread's appearance in /proc to its FORK record.
const FORK_TO_RECORD: Duration = Duration::from_millis(1);

/// The `perf` backend as an [`Observer`].
#[derive(Debug)]
pub struct PerfObserver {
    children: bool,
    /// CPU time of a thread between two samples, nanoseconds; 0: no samples.
    sample_period_ns: u64,
    root: Root,
    rings: Vec<CpuRing>,
    /// An epoll descriptor that is readable when a ring is half full.
    half_full: OwnedFd,
    /// The events of the tracked threads. Closing them ends the observation.
    events: Vec<OwnedFd>,
    rounds: Rounds<parse::Record>,
    roster: Roster,
    /// Samples and events that the next tick will pass on.
    ready: Intake,
    seen: u64,
    losses: Losses,
    start_ns: u64,
}

#[derive(Debug)]
struct CpuRing {
    cpu: u32,
    ring: Ring,
    /// True from the time when the ring was found full until the kernel has reported how many records were lost. If none was lost, the kernel
    /// never reports this.
    was_full: bool,
}

impl PerfObserver {
    /// Opens and maps one ring per CPU, and tests on cox itself what the tracked threads will need. With `children`, child processes of tracked
    /// processes are tracked; leaving them out needs Linux 5.13. With `samples`, instruction pointers are sampled.
    ///
    /// # Errors
    /// [`WatchError::Unavailable`] with the reason and what to do if the kernel or the user's rights do not allow it; [`WatchError::System`] for
    /// anything unexpected.
    pub fn new(children: bool, samples: bool) -> Result<PerfObserver, WatchError> {
        let root = Root::live();
        let refusal =
            |error| event::refusal(error, root.read_number("/proc/sys/kernel/perf_event_paranoid").ok(), children);
        let cpus = crate::online::cpus()?;
        let probe = cpus.first().copied().unwrap_or(0);
        let sample_period_ns = if samples { crate::sampling::period_ns() } else { 0 };
        event::open(event::member(children, sample_period_ns), Some(0), Some(probe)).map_err(refusal)?;
        let rings = map_rings(&cpus)?;
        let half_full =
            watch_rings(&rings).map_err(|source| WatchError::system("watching the perf rings by epoll", source))?;
        Ok(PerfObserver {
            children,
            sample_period_ns,
            root,
            rings,
            half_full,
            events: Vec::new(),
            rounds: Rounds::new(),
            roster: Roster::new(children),
            ready: Intake::default(),
            seen: 0,
            losses: Losses::default(),
            start_ns: monotonic_ns(),
        })
    }

    /// Returns the size of each CPU's ring in bytes: the largest that the user's limits allow.
    pub fn ring_bytes(&self) -> usize {
        self.rings.first().map_or(0, |first| first.ring.data_bytes())
    }

    fn stat(&self, pid: u32, tid: u32) -> Result<Stat, Error> {
        Task::thread(&self.root, pid, tid).stat()
    }

    /// Opens perf events on a thread, one for each CPU. Returns `false` if the thread has ended.
    fn watch(&mut self, pid: u32, tid: u32) -> Result<bool, WatchError> {
        let Ok(stat) = self.stat(pid, tid) else { return Ok(false) };
        let t_ns = monotonic_ns();
        let mut events = Vec::with_capacity(self.rings.len());
        for CpuRing { cpu, ring, .. } in &self.rings {
            match event::open(event::member(self.children, self.sample_period_ns), Some(tid), Some(*cpu)) {
                Ok(event) => {
                    event::redirect(&event, ring.owner())
                        .map_err(|source| WatchError::system("redirecting a perf event to its CPU's ring", source))?;
                    events.push(event);
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
                Err(error) => return Err(event::refusal_of(pid, tid, error)),
            }
        }
        self.events.append(&mut events);
        self.roster.enrol(t_ns, pid, tid, comm_text(&stat.comm_bytes), &mut self.ready.events);
        Ok(true)
    }

    /// Empties the rings into `rounds`, `ready` and `losses`.
    fn read_rings(&mut self) {
        let PerfObserver { rings, rounds, ready, seen, losses, .. } = self;
        for CpuRing { ring, was_full, .. } in rings {
            let drained = ring.drain(|bytes| match parse::parse(bytes) {
                Some(parse::Record::Sample { at, ip }) => {
                    ready.samples.push(Sample { ip, tid: at.tid, tgid: at.pid, t_ns: at.t_ns, ..Sample::default() });
                }
                Some(parse::Record::Lost { records }) => {
                    losses.events += records;
                    *was_full = false;
                }
                Some(parse::Record::LostSamples { samples }) => losses.samples += samples,
                Some(parse::Record::Throttled) => losses.samples += 1,
                Some(record) => {
                    if let Some(t_ns) = record.t_ns() {
                        *seen += 1;
                        rounds.push(t_ns, record);
                    }
                }
                None => losses.events += 1,
            });
            losses.events += u64::from(!drained.sensible);
            *was_full |= drained.was_full;
        }
    }

    /// Reads all records and turns them into events without waiting for the next round.
    fn flush(&mut self) {
        self.read_rings();
        for record in self.rounds.release_all() {
            self.roster.apply(record, &mut self.ready.events);
        }
        self.count_hidden();
    }

    /// Makes the epoll descriptor `half_full` unreadable until a ring becomes half full again.
    fn acknowledge(&self) -> Result<(), WatchError> {
        let mut woken = Vec::with_capacity(self.rings.len().max(1));
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.half_full, rustix::buffer::spare_capacity(&mut woken), Some(&none)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(WatchError::system("waiting for the perf rings by epoll", error)),
        }
    }

    fn hand_over(&mut self, intake: &mut Intake) {
        intake.events.append(&mut self.ready.events);
        intake.samples.append(&mut self.ready.samples);
    }

    /// Counts as lost the threads that the kernel has hidden from perf at an exec and that are still alive (crates/observe/src/hidden.rs says when
    /// that happens).
    fn count_hidden(&mut self) {
        for (tgid, tid) in self.roster.take_hidden() {
            let lives = self.stat(tgid, tid).is_ok_and(|stat| stat.doing() != Doing::Ended);
            self.losses.members += u64::from(lives);
        }
    }

    /// Returns the tracked threads that are gone according to /proc.
    fn vanished(&self) -> Vec<u32> {
        let gone = |tgid, tid| self.stat(tgid, tid).map_or_else(|error| error.is_gone(), |_| false);
        self.roster.members().filter(|(tgid, tid)| gone(*tgid, *tid)).map(|(_, tid)| tid).collect()
    }

    /// Returns the results of the observation up to `end_ns`, without the events themselves: the number of events, the losses and the sampling
    /// period.
    fn record(&self, end_ns: u64) -> Record {
        let mut record = Record::new(Backend::Perf, self.start_ns, end_ns);
        record.sample_period_ns = self.sample_period_ns;
        record.events = self.seen;
        record.losses = self.losses;
        record
    }
}

impl Observer for PerfObserver {
    fn backend(&self) -> Backend {
        Backend::Perf
    }

    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        let mut watched = HashSet::new();
        loop {
            let listed = match Task::process(&self.root, pid).threads() {
                Ok(listed) => listed,
                Err(error) if error.is_gone() => break,
                Err(error) => return Err(WatchError::system(format!("reading /proc/{pid}/task"), error.into_io())),
            };
            let mut unknown: Vec<u32> =
                listed.into_iter().filter(|tid| !watched.contains(tid) && !self.roster.has(*tid)).collect();
            if unknown.is_empty() {
                break;
            }
            // A thread that appears in a later list was created after the first list was read. If its creator had perf events, the thread has
            // inherited them, and its FORK record is about to arrive. Otherwise, it gets events here.
            if !watched.is_empty() {
                sleep(FORK_TO_RECORD);
                self.flush();
                unknown.retain(|tid| !self.roster.has(*tid));
            }
            for tid in unknown {
                self.watch(pid, tid)?;
                watched.insert(tid);
            }
        }
        if self.roster.members().any(|(tgid, _)| tgid == pid) {
            Ok(())
        } else {
            Err(WatchError::NoTarget { pid, why: "there is no such process".to_owned() })
        }
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.half_full.as_fd())
    }

    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError> {
        self.acknowledge()?;
        let begin_ns = monotonic_ns();
        self.read_rings();
        for record in self.rounds.release(begin_ns) {
            self.roster.apply(record, &mut self.ready.events);
        }
        self.count_hidden();
        self.hand_over(intake);
        Ok(())
    }

    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError> {
        self.flush();
        let processes: BTreeSet<u32> = self.roster.members().map(|(tgid, _)| tgid).collect();
        let mut living = Vec::new();
        for tgid in processes {
            for tid in Task::process(&self.root, tgid).threads().unwrap_or_default() {
                match self.stat(tgid, tid) {
                    Ok(stat) if stat.doing() != Doing::Ended => living.push((tgid, tid, comm_text(&stat.comm_bytes))),
                    _ => {}
                }
            }
        }
        Ok(living)
    }

    fn snapshot(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        let end_ns = monotonic_ns();
        self.flush();
        self.hand_over(intake);
        Ok(self.record(end_ns))
    }

    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        self.flush();
        let vanished = self.vanished();
        for event in &self.events {
            event::stop(event).map_err(|source| WatchError::system("stopping a perf event", source))?;
        }
        let end_ns = monotonic_ns();
        self.flush();
        // If records were lost because a ring was full, the kernel reports their number only when it next writes to that ring. It has written nothing
        // more to the rings with `was_full`, so each of them counts as one lost event.
        self.losses.events += self.rings.iter().filter(|of_cpu| of_cpu.was_full).count() as u64;
        // A thread disappears from /proc after its EXIT record, so the EXIT records of these threads were lost.
        for tid in vanished {
            if self.roster.has(tid) {
                self.losses.events += 1;
                self.roster.bury(end_ns, tid, &mut self.ready.events);
            }
        }
        self.hand_over(intake);
        Ok(self.record(end_ns))
    }
}

/// Maps one ring per CPU, all of the same size: the largest that the user's limits allow.
fn map_rings(cpus: &[u32]) -> Result<Vec<CpuRing>, WatchError> {
    let mut refused = io::Error::from(io::ErrorKind::OutOfMemory);
    let least_bytes = RING_BYTES[RING_BYTES.len() - 1];
    let fits = |bytes: &usize| *bytes == least_bytes || bytes.saturating_mul(cpus.len()) <= ALL_RINGS_BYTES;
    for bytes in RING_BYTES.into_iter().filter(fits) {
        match map_rings_of(cpus, bytes) {
            Ok(rings) => return Ok(rings),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) => refused = error,
            Err(error) => return Err(WatchError::system("mapping a perf ring", error)),
        }
    }
    Err(WatchError::Unavailable {
        what: format!("perf backend: cannot map {} KiB per CPU", least_bytes >> 10),
        why: format!(
            "{refused}: the user's perf buffers fill kernel.perf_event_mlock_kb and ulimit -l. Fix: end the user's other \
             perf sessions, raise either limit, or use --backend proc"
        ),
    })
}

fn map_rings_of(cpus: &[u32], bytes: usize) -> io::Result<Vec<CpuRing>> {
    let watermark_bytes = u32::try_from(bytes / 2).unwrap_or(u32::MAX);
    let mut rings = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        match event::open(event::ring_owner(watermark_bytes), Some(0), Some(*cpu)) {
            Ok(owner) => rings.push(CpuRing { cpu: *cpu, ring: Ring::map(owner, bytes)?, was_full: false }),
            // The CPU has gone offline in the meantime, so it needs no ring.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

/// Creates an epoll instance that becomes readable when a ring gets half full. It is edge-triggered: the thread on which the rings' events were
/// opened may end before the session, and a level-triggered instance would then stay readable.
fn watch_rings(rings: &[CpuRing]) -> io::Result<OwnedFd> {
    let half_full = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for CpuRing { cpu, ring, .. } in rings {
        let which = epoll::EventData::new_u64(u64::from(*cpu));
        epoll::add(&half_full, ring.owner(), which, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    }
    Ok(half_full)
}
