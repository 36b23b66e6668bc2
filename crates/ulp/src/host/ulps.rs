//! The ULPs of a host, from their start to their end.

use std::collections::HashMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use rustix::rand::{GetRandomFlags, getrandom};

use super::crowd::Crowd;
use super::error::HostError;
use super::outputs::Outputs;
use super::space;
use super::wanted::{Copies, OnCrash, Wanted};
use crate::carriers::{Carriers, Crashes};
use crate::debugging::Nodes;
use crate::forwarding::{Arrived, Signals};
use crate::memory::arena::{Arena, Memory};
use crate::program::image::{Image, Loader};
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

/// Returns the name of a ULP's main thread: that of the program, and the number.
pub(super) fn comm(program: &str, number: usize) -> CString {
    let suffix = format!(".{number}");
    let kept: String = program.chars().take(15 - suffix.len().min(15)).collect();
    CString::new(kept + &suffix).unwrap_or_default()
}

/// How often the host looks whether carriers have parted with ULPs that were killed.
const LOOK: Duration = Duration::from_millis(20);

/// A ULP that runs.
pub(super) struct Running {
    pub(super) number: usize,
    pub(super) image: Image,
    /// What the host keeps for a ULP that another one has started.
    pub(super) spawned: Option<Spawned>,
}

/// What the host keeps for a ULP that another one has started, as long as it has memory.
#[derive(Debug)]
pub(super) struct Spawned {
    /// The path of its program, which its code reads.
    pub(super) _path: CString,
    /// The list of descriptors that it closes when it begins.
    pub(super) _close: Vec<i32>,
}

/// A program that is mapped, while it is not known whether its process exists.
pub(super) struct Pending {
    /// Number of the ULP that has asked for it.
    pub(super) requester: usize,
    pub(super) running: Running,
    /// Signals that all ULPs have got meanwhile.
    pub(super) signals: Vec<i32>,
}

/// Memory of a ULP that has ended, and what its code may still read.
pub(super) struct Lingering {
    number: usize,
    memory: Memory,
    _spawned: Option<Spawned>,
}

/// The ULPs of a host.
pub(super) struct Ulps {
    /// Those that run, by pid.
    pub(super) alive: HashMap<i32, Running>,
    /// Those that ULPs have asked for, while it is not known whether their processes exist.
    pub(super) pending: Vec<Pending>,
    /// Those that have ended while a carrier had their context.
    pub(super) lingering: Vec<Lingering>,
    pub(super) arena: Arena,
    /// How each one ended. Those that were never started count as killed.
    pub(super) ended: Vec<Ended>,
    pub(super) carriers: Carriers,
    /// Descriptors that no ULP may inherit.
    pub(super) close: Vec<i32>,
    /// The reader of all outputs.
    pub(super) outputs: Option<Outputs>,
    /// The limit of mappings, if it was reached when a ULP failed.
    pub(super) full_of_mappings: Option<usize>,
    /// Number of ULPs that have failed.
    pub(super) failed: usize,
    /// Whether a signal has come that ends programs: no more are started.
    pub(super) is_told_to_end: bool,
    /// The ULP that was started after the last look at signals: a terminal may have sent one before that.
    pub(super) newest: Option<i32>,
    /// What the outcome tells: how long starting took, how many were started, by the host and by ULPs, and how many ran at once.
    pub(super) starting: Duration,
    pub(super) started: usize,
    pub(super) spawned: usize,
    pub(super) at_once: usize,
    /// Whether a ULP could not be started: all that appear are killed.
    pub(super) is_given_up: bool,
    /// What ULPs have noted of their crashes, and who learns of it.
    pub(super) crashes: Option<(Crashes, OnCrash)>,
    /// How debuggers find the files of each.
    pub(super) nodes: Nodes,
}

impl Ulps {
    /// Loads and starts one ULP.
    pub(super) fn start(
        &mut self,
        copies: &Copies,
        wanted: &Wanted,
        number: usize,
        mask: u64,
    ) -> Result<(), HostError> {
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
        let prepare = self.crashes.is_some().then_some(Crashes::PREPARE);
        let Pid(pid) = task::start(&image, &Beginning { name: &name, mask, gs_base, pid, close: &self.close, prepare })
            .map_err(|why| HostError::Start { number, why })?;
        drop(given);
        self.alive.insert(pid, Running { number, image, spawned: None });
        self.newest = Some(pid);
        Ok(())
    }

    /// Maps a program for a ULP.
    pub(super) fn load(
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
    pub(super) fn send(&mut self, signal: i32) {
        self.keep_for_pending(signal);
        for pid in self.alive.keys() {
            // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
            unsafe { libc::kill(*pid, signal) };
        }
    }

    /// Waits until all ULPs have ended, and passes signals on to them.
    pub(super) fn reap(&mut self, signals: &Signals) -> Result<(), HostError> {
        self.wait(signals, Some(Duration::ZERO));
        while !self.alive.is_empty() {
            if !self.collect()? {
                self.wait(signals, None);
            }
        }
        Ok(())
    }

    /// Waits until one more ULP has room, or until it is in vain. Takes signals that have come.
    pub(super) fn make_room(&mut self, crowd: &mut Crowd, signals: &Signals) -> Result<(), HostError> {
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
        let arrived = signals.wait(limit.into_iter().chain(look).chain(self.carriers.patience()).min());
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
            self.keep_for_pending(signal);
        }
        self.is_told_to_end |= arrived.ends_programs();
        self.answer_all();
        self.carriers.relieve(&self.arena.addresses());
        self.unmap_what_carriers_left();
    }

    /// Learns of a ULP that has ended. Returns whether there was one.
    fn collect(&mut self) -> Result<bool, HostError> {
        let (pid, status) = match wait(WaitOptions::NOHANG) {
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
        if let (Some((crashes, on_crash)), Ended::Signal(signal)) = (&mut self.crashes, ended)
            && let Some(crash) = crashes.of(number, pid.as_raw_nonzero().get(), signal)
        {
            on_crash(&crash);
        }
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
