//! Which threads of a program block and unblock, by CPU, for any runtime: `cox_umt.h`.
//!
//! The meaning of `umt_enable` and `umt_thread_ctrl` of *User-Monitored Threads* (A. Roca et al., section III), without their kernel: for each CPU a
//! descriptor that can be polled, and counters of threads that blocked and unblocked there. By BPF in a session of `cox run --overlap=bpf`
//! (`bells`), else by the kernel's records of the program's own switches (`logs`).
//!
//! [`Monitor`] is the interface for Rust; `abi`, on top of it, the one for C. What figures mean is in `include/cox_umt.h` and `docs/umt.md`.
//!
//! There are no threads here: whoever polls and reads does the work.

mod abi;
mod bells;
mod count;
mod counts;
mod logs;
mod watcher;

use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use bells::Bells;
use logs::Logs;
use wire::umt::{CPU_WORDS, CPUS, TELL_BLOCKS, TELL_IDLE, TELL_UNBLOCKS};

pub use counts::{Counts, Of};

/// What makes descriptors ready. Without privileges it is each block, whatever is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tells(u32);

impl Tells {
    /// Each registered thread that blocks, or leaves the CPU for another one while it is ready.
    pub const BLOCKS: Tells = Tells(TELL_BLOCKS);
    /// Each that unblocks, or comes to the CPU.
    pub const UNBLOCKS: Tells = Tells(TELL_UNBLOCKS);
    /// A block behind which no registered thread is ready on that CPU: what the paper leaves to the future.
    pub const IDLE: Tells = Tells(TELL_IDLE);

    /// From the flags of `cox_umt_enable`. `None`: there are others.
    #[must_use]
    pub fn from_flags(flags: u32) -> Option<Tells> {
        match flags {
            0 => Some(Tells::BLOCKS),
            _ => (flags & !(TELL_BLOCKS | TELL_UNBLOCKS | TELL_IDLE) == 0).then_some(Tells(flags)),
        }
    }
}

impl std::ops::BitOr for Tells {
    type Output = Tells;

    fn bitor(self, other: Tells) -> Tells {
        Tells(self.0 | other.0)
    }
}

/// The program's threads are watched. There is one for a process, and it is never freed, because threads may be using it.
#[derive(Debug)]
pub struct Monitor {
    way: Way,
    cpus: usize,
}

#[derive(Debug)]
enum Way {
    Bells(&'static Bells),
    Logs(Logs),
}

static CURRENT: AtomicPtr<Monitor> = AtomicPtr::new(ptr::null_mut());
static AT_FORK: Once = Once::new();

thread_local! {
    static REGISTERED: Registration = const { Registration(Cell::new(ptr::null())) };
}

/// By whom the calling thread is watched. A thread that ends is unregistered.
struct Registration(Cell<*const Monitor>);

impl Drop for Registration {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Registration {
    fn leave(&self) {
        let before = self.0.replace(ptr::null());
        match Monitor::current() {
            Some(current) if ptr::eq(current, before) => current.lose(),
            // Disabled since: only what is this thread's own is left.
            _ if !before.is_null() => signal::records::discharge(),
            _ => {}
        }
    }
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Monitor {
    /// Watches this process' threads: those that [register](Monitor::register).
    ///
    /// # Errors
    /// `EBUSY`: it is done already. `EPERM`, `ENOTSUP`: there is no session, and the kernel gives this user, or nobody, records of its own
    /// threads. What the kernel says when descriptors or memory run out.
    pub fn enable(tells: Tells) -> io::Result<&'static Monitor> {
        if Monitor::current().is_some() {
            return Err(error(libc::EBUSY));
        }
        let cpus = cpus();
        let way = match Bells::find(cpus) {
            Some(bells) => Way::Bells(bells),
            None => Way::Logs(Logs::new(cpus).map_err(plain)?),
        };
        let monitor = Box::into_raw(Box::new(Monitor { way, cpus }));
        if CURRENT.compare_exchange(ptr::null_mut(), monitor, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and nobody has seen it.
            drop(unsafe { Box::from_raw(monitor) });
            return Err(error(libc::EBUSY));
        }
        AT_FORK.call_once(|| {
            // SAFETY: a function that only closes descriptors and forgets pointers. Without room for it children have descriptors too many.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        // SAFETY: never freed from here on.
        let monitor = unsafe { &*monitor };
        if let Way::Bells(bells) = &monitor.way {
            bells.tells(tells.0);
        }
        Ok(monitor)
    }

    /// What is there, if it is [enabled](Monitor::enable).
    #[must_use]
    pub fn current() -> Option<&'static Monitor> {
        // SAFETY: null, or never freed.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// Ends it: all threads are unregistered, all descriptors closed.
    pub fn disable() {
        // SAFETY: null, or never freed.
        let Some(before) = (unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() }) else { return };
        match &before.way {
            Way::Bells(bells) => bells.end(),
            Way::Logs(logs) => logs.end(),
        }
        let _ = REGISTERED.try_with(Registration::leave);
    }

    /// Whose word it is: `bpf` or `perf`.
    #[must_use]
    pub fn backend(&self) -> &'static std::ffi::CStr {
        match &self.way {
            Way::Bells(_) => c"bpf",
            Way::Logs(_) => c"perf",
        }
    }

    /// CPUs that are told apart: the highest that there may be, and one.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// What can be polled for input; see `cox_umt_fd`. It is this object's to close.
    ///
    /// # Errors
    /// `EINVAL`: no such CPU. What the kernel says when descriptors run out.
    pub fn descriptor(&self, of: Of) -> io::Result<RawFd> {
        if let Of::Cpu(cpu) = of {
            self.check(cpu)?;
        }
        match &self.way {
            Way::Bells(bells) => bells.descriptor(of),
            Way::Logs(logs) => logs.descriptor(of),
        }
    }

    /// What has happened on a CPU since it was read last, and takes the descriptor's readiness away. `None`: nothing.
    ///
    /// # Errors
    /// `EINVAL`: no such CPU. `ECONNRESET`: the session has ended, nobody counts.
    pub fn read(&self, cpu: usize) -> io::Result<Option<Counts>> {
        self.check(cpu)?;
        match &self.way {
            Way::Bells(bells) => bells.read(cpu),
            Way::Logs(logs) => Ok(logs.read(cpu)),
        }
    }

    /// Registered threads that are ready on a CPU now: running there, or waiting for it.
    ///
    /// # Errors
    /// `EINVAL`: no such CPU.
    pub fn ready(&self, cpu: usize) -> io::Result<u32> {
        self.check(cpu)?;
        Ok(match &self.way {
            Way::Bells(bells) => bells.ready(cpu),
            Way::Logs(logs) => logs.ready(cpu),
        })
    }

    /// The calling thread is watched until it ends, or is [unregistered](Monitor::unregister). It sleeps for an instant in here, so that it is known
    /// when this returns.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room for more threads. What the kernel says when descriptors or memory run out.
    pub fn register(&'static self) -> io::Result<()> {
        REGISTERED
            .try_with(|here| {
                if ptr::eq(here.0.get(), self) {
                    return Ok(());
                }
                match &self.way {
                    Way::Bells(bells) => bells.register(),
                    Way::Logs(logs) => logs.register(),
                }?;
                here.0.set(self);
                Ok(())
            })
            // At the end of a thread.
            .unwrap_or(Err(error(libc::EAGAIN)))
    }

    /// The calling thread is watched no more.
    pub fn unregister(&self) {
        let _ = REGISTERED.try_with(|here| {
            if ptr::eq(here.0.get(), self) {
                here.leave();
            }
        });
    }

    fn lose(&self) {
        match &self.way {
            Way::Bells(bells) => bells.unregister(),
            Way::Logs(logs) => logs.unregister(),
        }
    }

    fn check(&self, cpu: usize) -> io::Result<()> {
        if cpu < self.cpus { Ok(()) } else { Err(error(libc::EINVAL)) }
    }
}

/// Why there are no records, in few words.
fn plain(why: io::Error) -> io::Error {
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => error(libc::EPERM),
        Some(libc::ENOSYS | libc::ENOENT | libc::ENODEV | libc::EINVAL | libc::EOPNOTSUPP) => error(libc::ENOTSUP),
        _ => why,
    }
}

/// In a child after fork nobody is watched: threads, pages and logs are the parent's.
extern "C" fn in_child() {
    // SAFETY: null, or never freed.
    let before = unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    signal::forked();
    bells::forked();
    if let Some(Way::Logs(logs)) = before.map(|before| &before.way) {
        logs.leave_to_parent();
    }
}

/// The highest CPU that there may be, and one.
fn cpus() -> usize {
    // SAFETY: asks for a number.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
    let mut mask = [0u64; CPU_WORDS];
    // SAFETY: the kernel writes at most so many bytes.
    unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    // Where numbers have gaps the C library's count is less than the highest.
    let highest =
        mask.iter().rposition(|word| *word != 0).map_or(0, |at| at * 64 + 64 - mask[at].leading_zeros() as usize);
    configured.max(highest).min(CPUS)
}
