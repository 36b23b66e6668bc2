//! The program `cox-observe`: one process for each cox, from its start to its end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use machine::Root;
use machine::topology::Topology;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use watch::bpf::unavailable;
use watch::noise::{Faults, Interruptions};
use watch::snapshots::Traced;
use watch::umt::{Doorbells, PROCESS_BYTES, Umt};
use watch::{BpfObserver, Settings, WatchError};
use wire::latency::MAX_PROGRAMS;
use wire::umt::PROCESSES;

use crate::caller::{Caller, Pidfd};
use crate::client::MAX_RING_BYTES;
use crate::confine;
use crate::protocol::{MAX_REQUEST, Reply, Wanted, WantedNoise, tracepoints_of};
use crate::serve::{Dialogue, Ring, Source, Table, World};
use crate::sessions::Session;
use crate::socket::{receive, send_message, send_with};

/// Maximum size of a session's buffer for trace events, bytes.
pub const MAX_TRACE_BYTES: u32 = 128 << 20;
/// Memory of an observation, MiB: tables per thread and per CPU, samples, programs, and [`HISTOGRAMS_BYTES`] of
/// histograms of interval lengths. The ring buffers for trace events and for the time accounts of ended threads are not
/// included.
const OTHER_MIB: u32 = 24;
/// Bytes that [`OTHER_MIB`] reserves for histograms of interval lengths: enough for one program on 23 CPUs.
const HISTOGRAMS_BYTES: u64 = 1 << 20;
/// Memory for thread snapshots, MiB: the table, samples, programs.
const SNAPSHOTS_MIB: u32 = 8;
/// Memory for doorbells, MiB: pages and ring buffers for the maximum number of processes in a session, and programs.
const BELLS_MIB: u32 = (PROCESSES * PROCESS_BYTES).div_ceil(1 << 20) as u32 + 4;

/// Memory of a session with noise events, MiB, without its ring and its counters: programs, and a table for the threads to follow.
const NOISE_MIB: u32 = 8;
/// A CPU's ring besides the share of the events, bytes: the kernel's own pages of it, and the page that it has at least.
const RING_BESIDE_BYTES: u64 = 4 * 4096;
/// On every CPU, the time of one page fault in this many is measured, or of fewer: measuring slows page faults of other users too.
pub const LEAST_FAULT_PERIOD: u32 = 11;

/// The [`World`] of a real session: it loads eBPF programs into the running kernel on behalf of the caller.
struct Kernel {
    caller: Caller,
    session: Option<Session>,
}

impl World for Kernel {
    fn observe(&mut self, wanted: &Wanted) -> Result<Box<dyn Source>, WatchError> {
        self.may_load()?;
        let settings = settings(wanted)?;
        self.session = Some(Session::begin(self.caller.uid, observation_mib(&settings)).map_err(unavailable)?);
        Ok(Box::new(BpfObserver::new(&settings, self.caller.owner())?))
    }

    fn keep_snapshots(&mut self, children: bool) -> Result<Box<dyn Table>, WatchError> {
        self.may_load()?;
        self.session = Some(Session::begin(self.caller.uid, SNAPSHOTS_MIB).map_err(unavailable)?);
        Ok(Box::new(Traced::new(children, self.caller.owner(), &[])?))
    }

    fn ring(&mut self) -> Result<Box<dyn Doorbells>, WatchError> {
        self.may_load()?;
        // End the previous session first, so that it does not count against the limits: the finished observation has
        // freed its memory.
        self.session = None;
        self.session = Some(Session::begin(self.caller.uid, BELLS_MIB).map_err(unavailable)?);
        Ok(Box::new(Umt::new(self.caller.owner())?))
    }

    fn interrupt(&mut self, wanted: &WantedNoise) -> Result<Box<dyn Ring>, WatchError> {
        self.may_load()?;
        let (settings, faults) = noise_settings(wanted)?;
        self.session =
            Some(Session::begin(self.caller.uid, noise_mib(&settings, possible_cpus()?)).map_err(unavailable)?);
        Ok(Box::new(Interruptions::new(&settings, self.caller.owner(), faults)?))
    }

    /// This process has the rights of the caller for files.
    fn may_read_counters(&self) -> bool {
        ["/proc/interrupts", "/proc/softirqs"].iter().all(|file| std::fs::File::open(Root::live().path(file)).is_ok())
    }

    fn may_observe(&self, pid: u32) -> Result<(), String> {
        self.caller.may_observe(pid)
    }

    fn hold(&self, pid: u32) -> Result<Pidfd, String> {
        self.caller.hold(pid)
    }
}

impl Kernel {
    /// Checks that this process has its capabilities.
    fn may_load(&self) -> Result<(), WatchError> {
        let missing = confine::missing();
        if !missing.is_empty() {
            let why = format!(
                "cox-observe lacks {}. Fix: sudo make install, which sets them as file capabilities (a copy of the file does not have them, and they have no effect under nosuid or no_new_privs)",
                missing.join(" and ")
            );
            return Err(unavailable(why));
        }
        Ok(())
    }
}

/// Returns the memory of an observation, MiB.
fn observation_mib(settings: &Settings) -> u32 {
    let rings = u64::from(settings.exited_bytes) + u64::from(settings.trace_bytes.unwrap_or(0));
    let histograms = settings.latencies.bytes(settings.cpu_limit).saturating_sub(HISTOGRAMS_BYTES);
    OTHER_MIB + (rings + histograms).div_ceil(1 << 20) as u32
}

/// Returns the memory of a session with noise events, MiB. Each CPU has its own counters, and a ring with pages of its own besides the events.
fn noise_mib(settings: &watch::noise::Settings, cpus: u32) -> u32 {
    let of_cpus = u64::from(cpus) * (wire::noise::count::ALL as u64 * 8 + RING_BESIDE_BYTES);
    NOISE_MIB + (u64::from(settings.ring_bytes) + of_cpus).div_ceil(1 << 20) as u32
}

/// Converts the caller's request for noise events to settings.
fn noise_settings(wanted: &WantedNoise) -> Result<(watch::noise::Settings, Faults), WatchError> {
    let WantedNoise { children, ring_bytes, fault_period, without } = *wanted;
    if !ring_bytes.is_power_of_two() || !(4096..=MAX_RING_BYTES).contains(&ring_bytes) {
        return Err(unavailable(format!("invalid size of the ring for noise events: {ring_bytes} bytes")));
    }
    let faults =
        fault_period.map_or(Faults::OfNamedThreads, |period| Faults::OneIn(period.max(LEAST_FAULT_PERIOD).into()));
    let without = tracepoints_of(without).into_iter().map(str::to_owned).collect();
    Ok((watch::noise::Settings { children, ring_bytes, without }, faults))
}

/// Returns one more than the highest possible CPU number.
fn possible_cpus() -> Result<u32, WatchError> {
    let topology = Topology::read(&Root::live()).map_err(|error| unavailable(error.to_string()))?;
    Ok(topology.possible.last().map_or(1, |last| last + 1))
}

/// Converts the caller's request to settings. The caller chooses what is observed. Memory sizes are fixed, except the
/// size of one ring buffer, and which programs and threads have histograms of interval lengths.
fn settings(wanted: &Wanted) -> Result<Settings, WatchError> {
    let programs = wanted.latencies.programs;
    if programs > MAX_PROGRAMS {
        return Err(unavailable(format!(
            "{programs} programs in one session, the limit of cox-observe is {MAX_PROGRAMS}"
        )));
    }
    if let Some(bytes) = wanted.trace_bytes {
        if !bytes.is_power_of_two() || bytes < 4096 {
            return Err(unavailable(format!("invalid size of the trace buffer: {bytes} bytes")));
        }
        if bytes > MAX_TRACE_BYTES {
            let most = MAX_TRACE_BYTES >> 20;
            return Err(unavailable(format!(
                "--trace-buffer is {} MiB, the limit of cox-observe is {most}",
                bytes >> 20
            )));
        }
    }
    let topology = Topology::read(&Root::live()).map_err(|error| unavailable(error.to_string()))?;
    let limit = topology.possible.last().map_or(1, |last| last + 1);
    let usual = Settings::new(topology.online.len() as u32, limit);
    Ok(Settings {
        children: wanted.children,
        sample_period_ns: if wanted.samples { usual.sample_period_ns } else { 0 },
        trace_bytes: wanted.trace_bytes,
        latencies: wanted.latencies,
        ..usual
    })
}

/// Runs the program.
pub fn main() -> ExitCode {
    confine::forget_the_environment();
    let mut words = std::env::args_os().skip(1);
    match (words.next(), words.next()) {
        (None, _) => {}
        (Some(word), None) if word == "--version" => {
            println!("cox-observe {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("cox-observe takes no arguments: it is started by cox");
            return ExitCode::from(2);
        }
    }
    let ready = arch::supported().map_err(str::to_owned).and_then(|()| confine::socket()).and_then(|socket| {
        let caller = Caller::of_this_process()?;
        confine::confine().map(|()| (socket, caller))
    });
    match ready {
        Ok((socket, caller)) => {
            let mut world = Kernel { caller, session: None };
            // An error is ignored: the connection is then closed, or cox has violated the protocol.
            let _ = converse(&socket, &mut world);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Answers requests until cox closes the socket or violates the protocol.
fn converse(socket: &OwnedFd, world: &mut Kernel) -> io::Result<()> {
    let mut dialogue = Dialogue::New;
    let mut buffer = [0; MAX_REQUEST];
    let mut is_told = false;
    loop {
        if wait(socket, &dialogue, is_told)? {
            let Some(message) = receive(socket, &mut buffer)? else { return Ok(()) };
            dialogue.answer(message, world, &mut |bytes, descriptors| send_with(socket, bytes, descriptors))?;
            is_told = false;
        } else {
            send_message(socket, &Reply::Ready.encode())?;
            is_told = true;
        }
    }
}

/// Waits for a message from cox, or until a ring buffer fills. If `is_told`, cox already knows that a ring buffer
/// fills, and this function waits only for a message. Returns whether there is a message.
fn wait(socket: &OwnedFd, dialogue: &Dialogue, is_told: bool) -> io::Result<bool> {
    let rings = match dialogue {
        Dialogue::Observing { source, .. } if !is_told => source.readiness(),
        _ => None,
    };
    let mut fds = vec![PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    fds.extend(rings.map(|rings| PollFd::from_borrowed_fd(rings, PollFlags::IN)));
    loop {
        match poll(&mut fds, None) {
            Ok(_) => return Ok(!fds[0].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::latency::Scope;

    use super::*;

    #[test]
    fn huge_requests_are_refused_by_name() {
        let wanted = |trace_bytes| Wanted { children: true, samples: true, trace_bytes, latencies: Scope::default() };
        for bytes in [0, 1, 4095, 4097, MAX_TRACE_BYTES + 1, MAX_TRACE_BYTES * 2, u32::MAX] {
            let refused = settings(&wanted(Some(bytes)));
            assert!(matches!(refused, Err(WatchError::Unavailable { .. })), "{bytes}");
        }
        let most = settings(&wanted(Some(MAX_TRACE_BYTES))).unwrap();
        assert_eq!(most.exited_bytes, Settings::EXITED_BYTES);
    }

    #[test]
    fn noise_events_take_bounded_memory_and_measure_few_faults_of_others() {
        let wanted = |ring_bytes, fault_period| WantedNoise { children: true, ring_bytes, fault_period, without: 1 };
        for bytes in [0, 1, 2048, 4097, MAX_RING_BYTES + 4096, MAX_RING_BYTES * 2, u32::MAX] {
            assert!(matches!(noise_settings(&wanted(bytes, None)), Err(WatchError::Unavailable { .. })), "{bytes}");
        }
        let (settings, faults) = noise_settings(&wanted(MAX_RING_BYTES, None)).unwrap();
        assert_eq!(
            (faults, settings.without.as_slice()),
            (Faults::OfNamedThreads, &["local_timer_entry".to_owned()][..])
        );
        assert_eq!([noise_mib(&settings, 2), noise_mib(&settings, 1024)], [137, 168]);
        for (period, measured) in [(0, 11), (1, 11), (11, 11), (100, 100)] {
            assert_eq!(noise_settings(&wanted(4096, Some(period))).unwrap().1, Faults::OneIn(measured));
        }
    }

    #[test]
    fn only_own_threads_are_observed_without_more_rights() {
        let owner = |all| Caller { uid: 5, all }.owner();
        assert_eq!([owner(false), owner(true)], [Some(5), None]);
    }

    #[test]
    fn histograms_of_interval_lengths_count_as_memory_of_the_session() {
        let asked = |programs, threads| {
            let latencies = Scope { programs, threads };
            settings(&Wanted { children: true, samples: true, trace_bytes: None, latencies })
        };
        for programs in [MAX_PROGRAMS + 1, u32::MAX] {
            let refused = asked(programs, true).unwrap_err().to_string();
            assert!(refused.contains("16"), "{refused}");
        }
        let booked = |programs, threads, cpu_limit| {
            observation_mib(&Settings { cpu_limit, ..asked(programs, threads).unwrap() })
        };
        assert_eq!([booked(1, false, 2), booked(1, true, 2)], [32, 96]);
        // What is booked covers all entries of the table, however many programs and CPUs there are.
        for (programs, cpus) in [(1, 1), (MAX_PROGRAMS, 2), (1, 1024), (MAX_PROGRAMS, 1024), (MAX_PROGRAMS, 64)] {
            let scope = Scope { programs, threads: true };
            let entries = u64::from(scope.shared(cpus) + scope.places());
            let rings_mib = Settings::EXITED_BYTES >> 20;
            let mib = u64::from(booked(programs, true, cpus) - rings_mib - OTHER_MIB + 1);
            assert!(mib << 20 >= entries * (4 * 1410 * 8), "{programs} programs on {cpus} CPUs: {mib} MiB");
        }
    }
}
