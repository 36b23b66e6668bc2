//! Confines the privileged process before it reads its first message. Its caller chose its environment, descriptors,
//! signals and working directory, so all of them are reset, and all other privileges are dropped.
//!
//! All calls that need unsafe code are in this module.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::Mode;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{AddressFamily, SocketType, getpeername};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, chdir, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit, umask,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// All capabilities that the process needs.
const NEEDED: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// Signals that a terminal or a supervisor sends to cox and to all processes it started. They are ignored, because cox
/// decides when a session ends.
const IGNORED: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGPIPE,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGUSR1,
];

/// Removes every environment variable. Must be the first call in main, before any code can read a variable.
pub fn forget_the_environment() {
    // SAFETY: main calls this function before anything else, so there is only one thread, and no pointer into the
    // environment exists.
    unsafe { libc::clearenv() };
}

/// Returns the socket that is this process's standard input.
///
/// # Errors
/// When standard input is not such a socket: a terminal, a file, or closed.
pub fn socket() -> Result<OwnedFd, String> {
    use rustix::net::sockopt::{socket_domain, socket_type};
    let input = stdin();
    let is_ours = socket_domain(input).is_ok_and(|family| family == AddressFamily::UNIX)
        && socket_type(input).is_ok_and(|kind| kind == SocketType::SEQPACKET)
        && getpeername(input).is_ok();
    if !is_ours {
        return Err("cox-observe is started by cox, which talks to it over a socket; it does nothing by itself".into());
    }
    let socket = close_all_but_the_standard_ones().and_then(|()| Ok(fcntl_dupfd_cloexec(stdin(), 3)?));
    socket.map_err(|error| format!("cox-observe: cannot set up its descriptors: {error}"))
}

fn close_all_but_the_standard_ones() -> io::Result<()> {
    // SAFETY: main calls this function at its start, when no object owns a descriptor above the standard ones yet.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Drops all remaining privileges. Afterwards the process has no rights beyond its user's except CAP_BPF and
/// CAP_PERFMON, and it ends when cox ends.
///
/// # Errors
/// Names the first step that the kernel refused.
pub fn confine() -> Result<(), String> {
    let step = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(step("/dev/null"))?;
    dup2_stdin(&null)
        .and(dup2_stdout(&null))
        .and(dup2_stderr(&null))
        .map_err(|error| step("descriptors")(error.into()))?;
    umask(Mode::from_raw_mode(0o077));
    chdir("/").map_err(|error| step("chdir")(error.into()))?;
    order_signals().map_err(step("signals"))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(|error| step("limits")(error.into()))?;
    set_no_new_privs(true).map_err(|error| step("no_new_privs")(error.into()))?;
    let held = capabilities(None).map_err(|error| step("capabilities")(error.into()))?;
    let kept = held.permitted.intersection(NEEDED);
    let only = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, only).map_err(|error| step("capabilities")(error.into()))?;
    // The last two settings must follow the change of capabilities, which resets both.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| step("dumpable")(error.into()))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| step("death signal")(error.into()))
}

/// Returns the names of the needed capabilities that this process lacks.
#[must_use]
pub fn missing() -> Vec<&'static str> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let needed = [(CapabilitySet::BPF, "CAP_BPF"), (CapabilitySet::PERFMON, "CAP_PERFMON")];
    needed.into_iter().filter(|(capability, _)| !held.contains(*capability)).map(|(_, name)| name).collect()
}

fn order_signals() -> io::Result<()> {
    for signal in IGNORED {
        // SAFETY: ignoring a signal installs no handler.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: sigemptyset initialises the set before sigprocmask reads it, and the set is valid during both calls.
    let failed = unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
