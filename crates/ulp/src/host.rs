//! The host: starts ULPs in its address space, waits for them, and says how each one ended.

mod crowd;
mod outputs;
mod space;
mod spawned;
mod ulp_memory;

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{WaitOptions, waitpid};
use rustix::rand::{GetRandomFlags, getrandom};

use crowd::Crowd;
use outputs::Outputs;
use spawned::{AT_ONCE, MOST, Pending, Spawned};

use crate::carriers::{self, Carriers, Wish};
use crate::debugging::Nodes;
use crate::forwarding::{Arrived, Signals};
use crate::memory::arena::{Arena, Memory};
use crate::program::image::{Image, LoadError, Loader};
use crate::program::stack::{Start, shift};
use crate::task::{self, Beginning, Pid};

/// How a ULP ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// With this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// Returns the exit code that a shell would show.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Ended::Exit(code) => code,
            Ended::Signal(number) => 128 + number,
        }
    }
}

/// Why ULPs could not be started, or waited for. Those that ran have been killed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel refuses another process.
    #[error("ULP {number} cannot be started: {why}{}", hint(why))]
    Start {
        /// The number of the ULP.
        number: usize,
        /// The reason.
        why: io::Error,
    },
    /// A system call failed.
    #[error("{what}")]
    Os {
        /// What failed.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Returns what to do about a process that cannot be started.
fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::WouldBlock {
        " (the limit of processes: ulimit -u, pids.max of the control group)"
    } else {
        ""
    }
}

/// Copies of one program.
#[derive(Debug)]
pub struct Copies {
    /// How many.
    pub count: usize,
    /// The program.
    pub loader: Loader,
    /// The arguments of each, beginning with the program's name.
    pub arguments: Vec<CString>,
    /// Beginning of the ULPs' names (comm); the number follows.
    pub name: String,
}

/// What to start.
#[derive(Debug)]
pub struct Wanted {
    /// The programs, at least one. ULPs are numbered in their order.
    pub copies: Vec<Copies>,
    /// The environment of each.
    pub environment: Vec<CString>,
    /// Environment variable that contains the number of a ULP.
    pub rank_variable: Option<String>,
    /// Whether ULPs may leave their kernel tasks.
    pub wish: Wish,
    /// Socket of the reader of all outputs; `None`: the ULPs have the host's outputs.
    pub reader: Option<PathBuf>,
}

/// What became of the ULPs.
#[derive(Debug)]
pub struct Outcome {
    /// How each one ended, by its number; without those that ULPs have started.
    pub ended: Vec<Ended>,
    /// Number of ULPs that ULPs have started.
    pub spawned: usize,
    /// Number of carriers.
    pub carriers: usize,
    /// Why there are none.
    pub coupled: Option<String>,
    /// What all ULPs together did.
    pub counts: carriers::Totals,
    /// Which system calls have sent ULPs home from carriers, by their numbers, and how often.
    pub calls: Vec<(usize, u64)>,
    /// What the carriers have used.
    pub used: carriers::Used,
    /// The most memory that the address space has had, bytes.
    pub peak_bytes: Option<u64>,
    /// The most ULPs that ran at once.
    pub at_once: usize,
    /// The time in which ULPs were loaded and started, without waiting for others.
    pub starting: Duration,
    /// How many were started.
    pub started: usize,
    /// The limit of the address space's mappings, if it was reached when a ULP failed.
    pub full_of_mappings: Option<usize>,
}

/// Starts the ULPs, and waits until all have ended.
///
/// When this is called, this process must not have children or threads. Nothing in it may change the break of the address space (all programs share it).
///
/// # Errors
/// When a ULP cannot be started. All others are killed then.
pub fn run(mut wanted: Wanted) -> Result<Outcome, HostError> {
    space::guard_break().map_err(|errno| HostError::Os { what: "cannot guard the break", source: errno.into() })?;
    let signals = Signals::block().map_err(|source| HostError::Os { what: "cannot block signals", source })?;
    let cpus =
        carriers::allowed_cpus().map_err(|source| HostError::Os { what: "cannot read the CPU affinity", source })?;
    let count = wanted.copies.iter().map(|copies| copies.count).sum();
    let vector = wanted.copies.first().map_or(&[][..], |copies| copies.loader.vector());
    let carriers = Carriers::start(count, (MOST, AT_ONCE), &cpus, vector, wanted.wish)
        .map_err(|source| HostError::Os { what: "cannot start carriers", source })?;
    wanted.copies.iter_mut().for_each(|copies| copies.loader.add_to_vector(carriers::auxiliary_entry()));
    let longest = wanted.copies.iter().map(|copies| copies.loader.bytes()).max();
    let arena = Arena::new(longest.unwrap_or(0), count + AT_ONCE)
        .map_err(|source| HostError::Os { what: "cannot find free addresses", source })?;
    let outputs = wanted.reader.as_deref().map(Outputs::of).transpose();
    let outputs = outputs.map_err(|source| HostError::Os { what: "no reader of the outputs", source })?;
    let descriptors = wanted.copies.iter().flat_map(|copies| copies.loader.descriptors());
    let descriptors = descriptors.chain(outputs.iter().flat_map(Outputs::descriptors));
    let mut ulps = Ulps {
        close: descriptors.chain([arena.descriptor()]).collect(),
        outputs,
        arena,
        alive: HashMap::new(),
        lingering: Vec::new(),
        ended: vec![Ended::Signal(libc::SIGKILL); count],
        carriers,
        full_of_mappings: None,
        failed: 0,
        is_told_to_end: false,
        newest: None,
        pending: Vec::new(),
        spawned: 0,
        is_given_up: false,
        starting: Duration::ZERO,
        started: 0,
        at_once: 0,
        nodes: Nodes::new(count, MOST)
            .map_err(|source| HostError::Os { what: "no memory for what debuggers see", source })?,
    };
    let mut crowd = Crowd::new(space::room());
    let mut all = wanted.copies.iter().flat_map(|copies| std::iter::repeat_n(copies, copies.count)).enumerate();
    let started = all.try_for_each(|(number, copies)| {
        ulps.make_room(&mut crowd, &signals)?;
        if ulps.is_told_to_end {
            return Ok(());
        }
        let begun = Instant::now();
        ulps.start(copies, &wanted, number, signals.mask_before())?;
        ulps.starting += begun.elapsed();
        ulps.started += 1;
        ulps.at_once = ulps.at_once.max(ulps.alive.len());
        Ok(())
    });
    if let Err(error) = started {
        ulps.is_given_up = true;
        ulps.send(libc::SIGKILL);
        ulps.reap(&signals)?;
        return Err(error);
    }
    // Who has been started may wait for one that will not be.
    (ulps.started..count).for_each(|number| ulps.carriers.never_started(number));
    ulps.reap(&signals)?;
    let Ulps { carriers, ended, lingering, full_of_mappings, starting, started, spawned, at_once, .. } = ulps;
    // A carrier may still run in it.
    std::mem::forget(lingering);
    Ok(Outcome {
        ended,
        spawned,
        carriers: carriers.number(),
        coupled: carriers.coupled().map(ToString::to_string),
        counts: carriers.totals(),
        calls: carriers.calls(),
        used: carriers.used(),
        peak_bytes: space::peak_bytes(),
        starting,
        started,
        at_once,
        full_of_mappings,
    })
}

/// Returns the name of a ULP's main thread: that of the program, and the number.
fn comm(program: &str, number: usize) -> CString {
    let suffix = format!(".{number}");
    let kept: String = program.chars().take(15 - suffix.len().min(15)).collect();
    CString::new(kept + &suffix).unwrap_or_default()
}

/// How often the host looks whether carriers have parted with ULPs that were killed.
const LOOK: Duration = Duration::from_millis(20);

/// A ULP that runs.
struct Running {
    number: usize,
    image: Image,
    /// What the host keeps for a ULP that another one has started.
    spawned: Option<Spawned>,
}

/// Memory of a ULP that has ended, and what its code may still read.
struct Lingering {
    number: usize,
    memory: Memory,
    _spawned: Option<Spawned>,
}

/// The ULPs of a host.
struct Ulps {
    /// Those that run, by pid.
    alive: HashMap<i32, Running>,
    /// Those that ULPs have asked for, while it is not known whether their processes exist.
    pending: Vec<Pending>,
    /// Those that have ended while a carrier had their context.
    lingering: Vec<Lingering>,
    arena: Arena,
    /// How each one ended. Those that were never started count as killed.
    ended: Vec<Ended>,
    carriers: Carriers,
    /// Descriptors that no ULP may inherit.
    close: Vec<i32>,
    /// The reader of all outputs.
    outputs: Option<Outputs>,
    /// See [`Outcome::full_of_mappings`].
    full_of_mappings: Option<usize>,
    /// Number of ULPs that have failed.
    failed: usize,
    /// Whether a signal has come that ends programs: no more are started.
    is_told_to_end: bool,
    /// The ULP that was started after the last look at signals: a terminal may have sent one before that.
    newest: Option<i32>,
    /// See [`Outcome`].
    starting: Duration,
    started: usize,
    spawned: usize,
    at_once: usize,
    /// Whether a ULP could not be started: all that appear are killed.
    is_given_up: bool,
    /// How debuggers find the files of each.
    nodes: Nodes,
}

impl Ulps {
    /// Loads and starts one ULP.
    fn start(&mut self, copies: &Copies, wanted: &Wanted, number: usize, mask: u64) -> Result<(), HostError> {
        let mut environment = wanted.environment.clone();
        if let Some(variable) = &wanted.rank_variable {
            let beginning = format!("{variable}=");
            environment.retain(|one| !one.as_bytes().starts_with(beginning.as_bytes()));
            environment.extend(CString::new(format!("{beginning}{number}")).ok());
        }
        let image = self.load(&copies.loader, copies.arguments.clone(), environment, number)?;
        let name = comm(&copies.name, number);
        let (gs_base, pid) = (self.carriers.task_of(number), self.carriers.pid_of(number));
        let given = self.outputs.as_ref().map(|outputs| outputs.give(number)).transpose();
        let given = given.map_err(|why| HostError::Start { number, why })?;
        let Pid(pid) = task::start(&image, &Beginning { name: &name, mask, gs_base, pid, close: &self.close })
            .map_err(|why| HostError::Start { number, why })?;
        drop(given);
        self.alive.insert(pid, Running { number, image, spawned: None });
        self.newest = Some(pid);
        Ok(())
    }

    /// Maps a program for a ULP.
    fn load(
        &mut self,
        loader: &Loader,
        arguments: Vec<CString>,
        environment: Vec<CString>,
        number: usize,
    ) -> Result<Image, HostError> {
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|errno| HostError::Os { what: "no random bytes", source: errno.into() })?;
        let start = Start { arguments, environment, random, shift: shift(number) };
        Ok(loader.load(start, &mut self.arena, self.nodes.of(number))?)
    }

    /// Sends a signal to all ULPs.
    fn send(&mut self, signal: i32) {
        self.look_for_pending();
        self.pending.iter_mut().for_each(|one| one.signals.push(signal));
        for pid in self.alive.keys() {
            // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
            unsafe { libc::kill(*pid, signal) };
        }
    }

    /// Waits until all ULPs have ended, and passes signals on to them.
    fn reap(&mut self, signals: &Signals) -> Result<(), HostError> {
        self.wait(signals, Some(Duration::ZERO));
        while !self.alive.is_empty() {
            if !self.collect()? {
                self.wait(signals, None);
            }
        }
        Ok(())
    }

    /// Waits until one more ULP has room, or until it is in vain. Takes signals that have come.
    fn make_room(&mut self, crowd: &mut Crowd, signals: &Signals) -> Result<(), HostError> {
        self.wait(signals, Some(Duration::ZERO));
        while let Some(patience) = crowd.patience(self.alive.len()).filter(|_| !self.is_told_to_end) {
            let (begun, before) = (Instant::now(), self.alive.len());
            while self.alive.len() == before && begun.elapsed() < patience {
                if !self.collect()? {
                    self.wait(signals, Some(patience.saturating_sub(begun.elapsed())));
                }
            }
            if self.alive.len() == before {
                crowd.was_in_vain(before);
            }
        }
        Ok(())
    }

    /// Waits for a signal, which it passes on; at most so long, if `limit` is given.
    fn wait(&mut self, signals: &Signals, limit: Option<Duration>) {
        let look = (!self.lingering.is_empty()).then_some(LOOK);
        let arrived = signals.wait(limit.into_iter().chain(look).min());
        match (arrived, self.newest.take()) {
            (Arrived::ToAll(signal), _) => self.send(signal),
            // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
            (Arrived::FromTerminal(signal), Some(pid)) if self.alive.contains_key(&pid) => unsafe {
                libc::kill(pid, signal);
            },
            _ => {}
        }
        if let Arrived::FromTerminal(signal) = arrived {
            // The terminal has not sent it to those that do not exist yet.
            self.look_for_pending();
            self.pending.iter_mut().for_each(|one| one.signals.push(signal));
        }
        self.is_told_to_end |= arrived.ends_programs();
        self.answer_all();
        self.unmap_what_carriers_left();
    }

    /// Learns of a ULP that has ended. Returns whether there was one.
    fn collect(&mut self) -> Result<bool, HostError> {
        let (pid, status) = match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some(one)) => one,
            Ok(None) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => return Err(HostError::Os { what: "cannot wait for the ULPs", source: errno.into() }),
        };
        self.look_for_pending();
        let Some(one) = self.alive.remove(&pid.as_raw_nonzero().get()) else { return Ok(true) };
        let Running { number, image, spawned } = one;
        let ended = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        };
        if ended != Ended::Exit(0) {
            self.failed += 1;
            // Reading the mappings takes milliseconds: after the first failure, the second, the fourth, the eighth…
            if self.failed.is_power_of_two() && self.full_of_mappings.is_none() {
                self.full_of_mappings = space::reached_limit_of_mappings();
            }
        }
        if let Some(place) = self.ended.get_mut(number) {
            *place = ended;
        }
        self.nodes.ended(number);
        self.drop_pending_of(number);
        self.carriers.set_status(number, status.as_raw());
        // Memory that a carrier still runs in stays until the carrier has parted with it.
        self.lingering.push(Lingering { number, memory: image.into_memory(), _spawned: spawned });
        self.unmap_what_carriers_left();
        Ok(true)
    }

    /// Unmaps the memory of ULPs that have ended, if no carrier has their context.
    fn unmap_what_carriers_left(&mut self) {
        let Ulps { carriers, arena, lingering, .. } = self;
        for one in lingering.extract_if(.., |one| carriers.ended(one.number)) {
            arena.give_back(one.memory);
        }
    }
}
