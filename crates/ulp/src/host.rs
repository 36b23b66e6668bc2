//! The host: starts ULPs in its address space, waits for them, and says how each one ended.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{WaitOptions, waitpid};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::forwarding::{Arrived, Signals};
use crate::program::image::{Image, LoadError, Loader};
use crate::program::layout;
use crate::program::stack::Start;
use crate::task::{self, Pid};

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
}

/// Starts the ULPs, and waits until all have ended. Returns how each one ended, by its number.
///
/// This process must not have other children, and nothing in it may change the break of the address space (see [`guard_break`]).
///
/// # Errors
/// When a ULP cannot be started. All others are killed then.
pub fn run(loader: &Loader, wanted: &Wanted) -> Result<Vec<Ended>, HostError> {
    guard_break().map_err(|errno| HostError::Os { what: "cannot guard the break", source: errno.into() })?;
    let signals = Signals::block().map_err(|source| HostError::Os { what: "cannot block signals", source })?;
    let mut alive: HashMap<i32, (usize, Image)> = HashMap::new();
    for number in 0..wanted.count {
        match start(loader, wanted, number, signals.mask_before()) {
            Ok((Pid(pid), image)) => alive.insert(pid, (number, image)),
            Err(error) => {
                send(&alive, libc::SIGKILL);
                reap(&mut alive, wanted.count, &signals)?;
                return Err(error);
            }
        };
    }
    reap(&mut alive, wanted.count, &signals)
}

/// Loads and starts one ULP.
fn start(loader: &Loader, wanted: &Wanted, number: usize, mask: u64) -> Result<(Pid, Image), HostError> {
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
    let pid = task::start(&image, &name, mask).map_err(|why| HostError::Start { number, why })?;
    Ok((pid, image))
}

/// Sends a signal to all ULPs.
fn send(alive: &HashMap<i32, (usize, Image)>, signal: i32) {
    for pid in alive.keys() {
        // SAFETY: kill has no conditions. The pid is that of a child that has not been waited for.
        unsafe { libc::kill(*pid, signal) };
    }
}

/// Waits for all ULPs, and passes signals on to them. Returns how each one ended, by its number; those that were never started count as killed.
fn reap(alive: &mut HashMap<i32, (usize, Image)>, count: usize, signals: &Signals) -> Result<Vec<Ended>, HostError> {
    let mut ended = vec![Ended::Signal(libc::SIGKILL); count];
    while !alive.is_empty() {
        let (pid, status) = match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some(one)) => one,
            Ok(None) => {
                if let Arrived::ToAll(signal) = signals.wait() {
                    send(alive, signal);
                }
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(HostError::Os { what: "cannot wait for the ULPs", source: errno.into() }),
        };
        let Some((number, _image)) = alive.remove(&pid.as_raw_nonzero().get()) else { continue };
        ended[number] = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        };
    }
    Ok(ended)
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
