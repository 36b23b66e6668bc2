//! The program `cox-observe`: it answers one cox, and ends with it.
//!
//! It is a state machine with one question at a time. It keeps nothing that grows: what has arrived is sent with the tick that asked for it, and
//! while cox is slow, or stopped, this process waits in a send and the kernel's rings count what they lose.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use machine::Root;
use machine::topology::Topology;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use watch::bpf::CANNOT;
use watch::{BpfObserver, Intake, Observer, Settings, WatchError};
use wire::Clock;

use crate::caller::Caller;
use crate::confine;
use crate::protocol::{
    LAYOUT, LivingRow, MAX_REQUEST, Malformed, NameRow, PairRow, Part, Reply, Request, Summary, TakerRow, VERSION,
    Wanted, Why, data, losses_in_order,
};
use crate::sessions::Session;
use crate::socket::{receive, send_message};

/// The largest room for moments that one session may have.
pub const MAX_MOMENTS_BYTES: u32 = 128 << 20;
/// What a session takes without rings for final clocks and moments, MiB: tables by thread and by CPU, samples, programs.
const OTHER_MIB: u32 = 24;

/// An observer whose final clocks are taken with each tick.
pub trait Source: Observer {
    /// See [`BpfObserver::take_finals`].
    fn take_finals(&mut self) -> Vec<Clock>;
}

impl Source for BpfObserver {
    fn take_finals(&mut self) -> Vec<Clock> {
        BpfObserver::take_finals(self)
    }
}

/// What the state machine needs of the world.
pub trait World {
    /// Loads the programs.
    ///
    /// # Errors
    /// When the kernel, or a limit, refuses.
    fn observe(&mut self, wanted: &Wanted) -> Result<Box<dyn Source>, WatchError>;

    /// Whether the threads of a process may be observed.
    ///
    /// # Errors
    /// Why not.
    fn may_observe(&self, pid: u32) -> Result<(), String>;
}

/// The conversation so far.
pub enum Dialogue {
    /// Nothing was said.
    New,
    /// Versions agree.
    Greeted,
    /// The programs are attached.
    Observing {
        /// They are.
        source: Box<dyn Source>,
        /// CPU time of this thread before there was anything to observe.
        cpu_before_ns: u64,
    },
    /// Everything was sent.
    Finished,
}

/// Why a conversation cannot go on.
#[derive(Debug)]
pub enum Broken {
    /// cox sent what no cox sends, or what it may not ask now.
    Malformed,
    /// It cannot be reached.
    Gone(io::Error),
}

impl From<Malformed> for Broken {
    fn from(_: Malformed) -> Broken {
        Broken::Malformed
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Gone(error)
    }
}

/// How answers are sent.
pub type Send<'s> = &'s mut dyn FnMut(&[u8]) -> io::Result<()>;

impl Dialogue {
    /// Answers one message.
    ///
    /// # Errors
    /// When this was the last one.
    pub fn answer(&mut self, message: &[u8], world: &mut dyn World, send: Send<'_>) -> Result<(), Broken> {
        let request = Request::decode(message)?;
        let outcome = match (&mut *self, request) {
            (Dialogue::New, Request::Hello { version, layout }) => {
                let outcome = agree(version, layout);
                if outcome.is_ok() {
                    *self = Dialogue::Greeted;
                }
                outcome
            }
            (Dialogue::Greeted, Request::Observe(wanted)) => world.observe(&wanted).map(|source| {
                *self = Dialogue::Observing { source, cpu_before_ns: arch::clock::thread_cpu_ns() };
            }),
            (Dialogue::Observing { source, .. }, Request::Launched(pid)) => {
                allowed(world, pid).and_then(|()| source.enrol_launched(pid))
            }
            (Dialogue::Observing { source, .. }, Request::Process(pid)) => {
                allowed(world, pid).and_then(|()| source.enrol(pid))
            }
            // eBPF passes over threads that are not this user's: a control group may hold both.
            (Dialogue::Observing { source, .. }, Request::Threads(tids)) => source.enrol_threads(&tids).map(|_| ()),
            (Dialogue::Observing { source, .. }, Request::Tick) => {
                let mut intake = Intake::default();
                let outcome = source.tick(&mut intake);
                send_intake(intake, source.take_finals(), send)?;
                outcome
            }
            (Dialogue::Observing { source, .. }, Request::Living) => match source.living() {
                Ok(living) => {
                    send_all(Part::Names, &living.into_iter().map(name_row).collect::<Vec<_>>(), send)?;
                    Ok(())
                }
                Err(error) => Err(error),
            },
            (Dialogue::Observing { source, cpu_before_ns }, Request::Finish) => {
                let outcome = finish(source.as_mut(), *cpu_before_ns, send)?;
                *self = Dialogue::Finished;
                outcome
            }
            _ => return Err(Broken::Malformed),
        };
        match outcome {
            Ok(()) => send(&Reply::Done.encode())?,
            Err(error) => {
                let (why, text) = match &error {
                    WatchError::Unavailable { why, .. } => (Why::Unavailable, why.clone()),
                    WatchError::NoTarget { why, .. } => (Why::NoTarget, why.clone()),
                    WatchError::System { .. } => (Why::Failed, error.to_string()),
                };
                send(&Reply::Refused(why, &text).encode())?;
            }
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

fn unavailable(why: String) -> WatchError {
    WatchError::Unavailable { what: CANNOT.into(), why }
}

fn allowed(world: &dyn World, pid: u32) -> Result<(), WatchError> {
    world.may_observe(pid).map_err(|why| WatchError::NoTarget { pid, why })
}

fn send_all<T: bytemuck::Pod>(part: Part, rows: &[T], send: Send<'_>) -> io::Result<()> {
    data(part, rows).try_for_each(|message| send(&message))
}

fn send_intake(intake: Intake, finals: Vec<Clock>, send: Send<'_>) -> io::Result<()> {
    send_all(Part::Samples, &intake.samples, send)?;
    send_all(Part::Moments, &intake.moments, send)?;
    send_all(Part::Finals, &finals, send)
}

fn name_row((tgid, tid, name): (u32, u32, String)) -> NameRow {
    let mut comm = [0; 16];
    comm.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
    NameRow { tgid, tid, comm }
}

fn finish(source: &mut dyn Source, cpu_before_ns: u64, send: Send<'_>) -> io::Result<Result<(), WatchError>> {
    let mut intake = Intake::default();
    let record = match source.finish(&mut intake) {
        Ok(record) => record,
        Err(error) => return Ok(Err(error)),
    };
    send_intake(intake, record.clocks, send)?;
    let living = record.living.iter().map(|living| LivingRow { until_ns: living.until_ns, clock: living.clock });
    send_all(Part::Living, &living.collect::<Vec<_>>(), send)?;
    send_all(Part::Cpus, &record.cpus, send)?;
    send_all(Part::Crew, &[record.crew], send)?;
    let takers = record.takers.iter().map(|(tid, taker)| TakerRow { tid: u64::from(*tid), taker: *taker });
    send_all(Part::Takers, &takers.collect::<Vec<_>>(), send)?;
    let pairs = record.pairs.iter().map(|(pair, sum)| PairRow { pair: *pair, sum: *sum });
    send_all(Part::Pairs, &pairs.collect::<Vec<_>>(), send)?;
    let summary = Summary {
        start_ns: record.start_ns,
        end_ns: record.end_ns,
        sample_period_ns: record.sample_period_ns,
        events: record.events,
        kernel_cost_ns: record.kernel_cost_ns.unwrap_or(u64::MAX),
        cpu_ns: arch::clock::thread_cpu_ns().saturating_sub(cpu_before_ns),
        losses: losses_in_order(&record.losses),
        unlisted: record.unlisted,
    };
    send_all(Part::Summary, &[summary], send).map(Ok)
}

/// This kernel, on behalf of this user.
struct Kernel {
    caller: Caller,
    session: Option<Session>,
}

impl World for Kernel {
    fn observe(&mut self, wanted: &Wanted) -> Result<Box<dyn Source>, WatchError> {
        let missing = confine::missing();
        if !missing.is_empty() {
            let why = format!(
                "cox-observe lacks {}. Fix: sudo make install, which gives it (file capabilities; a copy of the file has none, and none count under nosuid or no_new_privs)",
                missing.join(" and ")
            );
            return Err(unavailable(why));
        }
        let settings = settings(self.caller, wanted)?;
        let rings = u64::from(settings.finals_bytes) + u64::from(settings.moments_bytes.unwrap_or(0));
        self.session =
            Some(Session::begin(self.caller.uid, OTHER_MIB + rings.div_ceil(1 << 20) as u32).map_err(unavailable)?);
        Ok(Box::new(BpfObserver::new(&settings)?))
    }

    fn may_observe(&self, pid: u32) -> Result<(), String> {
        self.caller.may_observe(pid)
    }
}

/// The caller says what it wants to see, and never how much memory that takes but for one ring.
fn settings(caller: Caller, wanted: &Wanted) -> Result<Settings, WatchError> {
    if let Some(bytes) = wanted.moments_bytes {
        if !bytes.is_power_of_two() || bytes < 4096 {
            return Err(unavailable(format!("a trace buffer of {bytes} bytes")));
        }
        if bytes > MAX_MOMENTS_BYTES {
            let most = MAX_MOMENTS_BYTES >> 20;
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
        moments_bytes: wanted.moments_bytes,
        owner: (!caller.all).then_some(caller.uid),
        ..usual
    })
}

/// The whole program.
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
    let ready = confine::socket().and_then(|socket| {
        let caller = Caller::of_this_process()?;
        confine::confine().map(|()| (socket, caller))
    });
    match ready {
        Ok((socket, caller)) => {
            let mut world = Kernel { caller, session: None };
            // Whatever ended it: cox has been told, or is gone.
            let _ = converse(&socket, &mut world);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Answers until cox is gone or breaks the rules.
fn converse(socket: &OwnedFd, world: &mut Kernel) -> Result<(), Broken> {
    let mut dialogue = Dialogue::New;
    let mut buffer = [0; MAX_REQUEST];
    let mut is_told = false;
    loop {
        if wait(socket, &dialogue, is_told)? {
            let Some(message) = receive(socket, &mut buffer)? else { return Ok(()) };
            dialogue.answer(message, world, &mut |bytes| send_message(socket, bytes))?;
            is_told = false;
        } else {
            send_message(socket, &Reply::Ready.encode())?;
            is_told = true;
        }
    }
}

/// Waits for a message, or for a ring to fill unless cox has been told. Returns whether there is a message.
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
mod tests;
