//! The host: starts ULPs in its address space, waits for them, and says how each one ended.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{WaitOptions, waitpid};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::carriers::{self, Carriers, Wish};
use crate::forwarding::{Arrived, Signals};
use crate::program::image::{Image, LoadError, Loader};
use crate::program::layout;
use crate::program::stack::Start;
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

/// What to start.
#[derive(Debug)]
pub struct Wanted {
    /// Number of ULPs.
    pub count: usize,
    /// The arguments of each, beginning with the program's name.
    pub arguments: Vec<CString>,
    /// The environment of each.
    pub environment: Vec<CString>,
    /// Environment variable that contains the number of a ULP.
    pub rank_variable: Option<String>,
    /// Beginning of the ULPs' names (comm); the number follows.
    pub name: String,
    /// Whether ULPs may leave their kernel tasks.
    pub wish: Wish,
}

/// What became of the ULPs.
#[derive(Debug)]
pub struct Outcome {
    /// How each one ended, by its number.
    pub ended: Vec<Ended>,
    /// Number of carriers.
    pub carriers: usize,
    /// Why there are none.
    pub coupled: Option<String>,
    /// What all ULPs together did.
    pub counts: carriers::Totals,
}

/// Starts the ULPs, and waits until all have ended.
///
/// When this is called, this process must not have children or threads. Nothing in it may change the break of the address space (see [`guard_break`]).
///
/// # Errors
/// When a ULP cannot be started. All others are killed then.
pub fn run(loader: &mut Loader, wanted: &Wanted) -> Result<Outcome, HostError> {
    guard_break().map_err(|errno| HostError::Os { what: "cannot guard the break", source: errno.into() })?;
    let signals = Signals::block().map_err(|source| HostError::Os { what: "cannot block signals", source })?;
    let cpus =
        carriers::allowed_cpus().map_err(|source| HostError::Os { what: "cannot read the CPU affinity", source })?;
    let carriers = Carriers::start(wanted.count, &cpus, loader.vector(), wanted.wish)
        .map_err(|source| HostError::Os { what: "cannot start carriers", source })?;
    loader.add_to_vector(carriers::auxiliary_entry());
    let mut ulps = Ulps {
        alive: HashMap::new(),
        lingering: Vec::new(),
        ended: vec![Ended::Signal(libc::SIGKILL); wanted.count],
        carriers,
    };
    for number in 0..wanted.count {
        if let Err(error) = ulps.start(loader, wanted, number, signals.mask_before()) {
            ulps.send(libc::SIGKILL);
            ulps.reap(&signals)?;
            return Err(error);
        }
    }
    ulps.reap(&signals)?;
    let Ulps { carriers, ended, lingering, .. } = ulps;
    // A carrier may still run in it.
    std::mem::forget(lingering);
    Ok(Outcome {
        ended,
        carriers: carriers.number(),
        coupled: carriers.coupled().map(ToString::to_string),
        counts: carriers.totals(),
    })
}

/// How often the host looks whether carriers have parted with ULPs that were killed.
const LOOK: Duration = Duration::from_millis(20);

/// The ULPs of a host.
struct Ulps {
    /// Number and memory of those that run, by pid.
    alive: HashMap<i32, (usize, Image)>,
    /// Those that have ended while a carrier had their context.
    lingering: Vec<(usize, Image)>,
    /// How each one ended. Those that were never started count as killed.
    ended: Vec<Ended>,
    carriers: Carriers,
}

impl Ulps {
    /// Loads and starts one ULP.
    fn start(&mut self, loader: &Loader, wanted: &Wanted, number: usize, mask: u64) -> Result<(), HostError> {
        let mut environment = wanted.environment.clone();
        if let Some(variable) = &wanted.rank_variable {
            let beginning = format!("{variable}=");
            environment.retain(|one| !one.as_bytes().starts_with(beginning.as_bytes()));
            environment.extend(CString::new(format!("{beginning}{number}")).ok());
        }
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|errno| HostError::Os { what: "no random bytes", source: errno.into() })?;
        let image = loader.load(Start { arguments: wanted.arguments.clone(), environment, random })?;
        let suffix = format!(".{number}");
        let kept: String = wanted.name.chars().take(15 - suffix.len().min(15)).collect();
        let name = CString::new(kept + &suffix).unwrap_or_default();
        let (gs_base, pid) = (self.carriers.task_of(number), self.carriers.pid_of(number));
        let Pid(pid) = task::start(&image, &Beginning { name: &name, mask, gs_base, pid })
            .map_err(|why| HostError::Start { number, why })?;
        self.alive.insert(pid, (number, image));
        Ok(())
    }

    /// Sends a signal to all ULPs.
    fn send(&self, signal: i32) {
        for pid in self.alive.keys() {
            // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
            unsafe { libc::kill(*pid, signal) };
        }
    }

    /// Waits until all ULPs have ended, and passes signals on to them.
    fn reap(&mut self, signals: &Signals) -> Result<(), HostError> {
        while !self.alive.is_empty() {
            let (pid, status) = match waitpid(None, WaitOptions::NOHANG) {
                Ok(Some(one)) => one,
                Ok(None) => {
                    let limit = (!self.lingering.is_empty()).then_some(LOOK);
                    if let Arrived::ToAll(signal) = signals.wait(limit) {
                        self.send(signal);
                    }
                    self.unmap_what_carriers_left();
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(HostError::Os { what: "cannot wait for the ULPs", source: errno.into() }),
            };
            let Some((number, image)) = self.alive.remove(&pid.as_raw_nonzero().get()) else { continue };
            self.ended[number] = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Ended::Exit(code),
                (None, signal) => Ended::Signal(signal.unwrap_or(0)),
            };
            // Memory that a carrier still runs in stays until the carrier has parted with it.
            self.lingering.push((number, image));
            self.unmap_what_carriers_left();
        }
        Ok(())
    }

    /// Unmaps the memory of ULPs that have ended, if no carrier has their context.
    fn unmap_what_carriers_left(&mut self) {
        let carriers = &self.carriers;
        self.lingering.retain(|(number, _)| !carriers.ended(*number));
    }
}

/// Makes the break of the address space immovable: all ULPs share it, and each libc takes it for its own. malloc(3) uses mmap(2) if the break cannot grow.
/// (mallopt(3) and brk(2) fail for programs that insist on it.)
fn guard_break() -> Result<(), Errno> {
    // SAFETY: sbrk(0) changes nothing.
    let end = layout::up(unsafe { libc::sbrk(0) } as u64);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: a mapping that replaces nothing.
    match unsafe { mmap_anonymous(end as *mut _, layout::PAGE as usize, ProtFlags::empty(), flags) } {
        // Something is there already.
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}
