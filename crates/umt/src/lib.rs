//! Tells any runtime which of its threads block and unblock, by CPU: `cox_umt.h`.
//!
//! The functions do what `umt_enable` and `umt_thread_ctrl` of *User-Monitored Threads* (A. Roca et al., section III) do, on a stock
//! kernel. For each CPU there is a descriptor that can be polled, and counters of threads that blocked and unblocked there. In a session of
//! `cox run --overlap=bpf` BPF counts (`bells`); otherwise the library counts from the kernel's records of the program's own switches
//! (`logs`).
//!
//! [`Monitor`] is the interface for Rust; `abi`, built on it, is the one for C. The counts are defined in `include/cox_umt.h` and
//! `docs/umt.md`.
//!
//! The library has no threads: the calls that read the counts do the work.

mod abi;
mod backend;
mod bells;
mod count;
mod logs;
mod watcher;

use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use backend::Backend;
use bells::Bells;
use logs::Logs;
use wire::umt::{CPU_WORDS, CPUS, TELL_BLOCKS, TELL_IDLE, TELL_UNBLOCKS};

pub use backend::{Counts, Of};

/// The events that make descriptors ready. With the backend `perf`, every block makes them ready, whatever the flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tells(u32);

impl Tells {
    /// A registered thread blocks, or moves to another CPU while it is ready.
    pub const BLOCKS: Tells = Tells(TELL_BLOCKS);
    /// A registered thread unblocks, or moves to this CPU while it is ready.
    pub const UNBLOCKS: Tells = Tells(TELL_UNBLOCKS);
    /// A registered thread blocks, and no other registered thread is ready on that CPU. The paper on user-monitored threads (see
    /// the crate's header) mentions such an event as future work.
    pub const IDLE: Tells = Tells(TELL_IDLE);

    /// Converts the flags of `cox_umt_enable`. `None`: there are unknown flags.
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

/// Watches the program's threads. A process has one monitor, which is never freed, because threads may be using it.
#[derive(Debug)]
pub struct Monitor {
    backend: &'static dyn Backend,
    cpus: usize,
}

static CURRENT: AtomicPtr<Monitor> = AtomicPtr::new(ptr::null_mut());
static AT_FORK: Once = Once::new();

thread_local! {
    static REGISTERED: Registration = const { Registration(Cell::new(ptr::null())) };
}

/// The monitor that watches the calling thread; null if none does. The destructor unregisters a thread that ends.
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
            Some(current) if ptr::eq(current, before) => current.backend.unregister(),
            // The monitor has been disabled in the meantime: only the thread's own log, if it has one, has to be closed.
            _ if !before.is_null() => umt_client::records::discharge(),
            _ => {}
        }
    }
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Monitor {
    /// Starts to watch those threads of this process that [register](Monitor::register).
    ///
    /// # Errors
    /// `EBUSY`: a monitor is enabled already. `EPERM`: BPF does not count this process, and this user may not read the kernel's records of the
    /// program's own switches. `ENOTSUP`: BPF does not count this process, and the kernel has no such records. The kernel's error if descriptors or
    /// memory run out.
    pub fn enable(tells: Tells) -> io::Result<&'static Monitor> {
        if Monitor::current().is_some() {
            return Err(error(libc::EBUSY));
        }
        let cpus = cpus();
        let backend: &'static dyn Backend = match Bells::find(cpus) {
            Some(bells) => bells,
            None => Box::leak(Box::new(Logs::new(cpus).map_err(plain)?)),
        };
        let monitor = Box::into_raw(Box::new(Monitor { backend, cpus }));
        if CURRENT.compare_exchange(ptr::null_mut(), monitor, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: `monitor` was made above, and no other thread has a pointer to it.
            drop(unsafe { Box::from_raw(monitor) });
            return Err(error(libc::EBUSY));
        }
        AT_FORK.call_once(|| {
            // SAFETY: the function only closes descriptors and forgets pointers. If it cannot be registered, children keep descriptors that
            // they do not need.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        // SAFETY: `monitor` comes from a `Box` that is never freed from here on.
        let monitor = unsafe { &*monitor };
        monitor.backend.begin(tells.0);
        Ok(monitor)
    }

    /// Returns the monitor, if it is [enabled](Monitor::enable).
    #[must_use]
    pub fn current() -> Option<&'static Monitor> {
        // SAFETY: `CURRENT` is null, or points to a monitor that is never freed.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// Disables the monitor: unregisters all threads and closes all descriptors.
    pub fn disable() {
        // SAFETY: `CURRENT` is null, or points to a monitor that is never freed.
        let Some(before) = (unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() }) else { return };
        before.backend.end();
        let _ = REGISTERED.try_with(Registration::leave);
    }

    /// Returns the name of the backend: `bpf` or `perf`.
    #[must_use]
    pub fn backend(&self) -> &'static std::ffi::CStr {
        self.backend.name()
    }

    /// Returns the number of CPUs that have counters: the highest possible CPU number, plus one.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Returns the descriptor to poll for input; see `cox_umt_fd`. It belongs to the monitor, which closes it.
    ///
    /// # Errors
    /// `EINVAL`: no such CPU. The kernel's error if descriptors run out.
    pub fn descriptor(&self, of: Of) -> io::Result<RawFd> {
        if let Of::Cpu(cpu) = of {
            self.check(cpu)?;
        }
        self.backend.descriptor(of)
    }

    /// Clears the descriptor's readiness and returns the counts of a CPU since the last read. `None`: nothing has happened.
    ///
    /// # Errors
    /// `EINVAL`: no such CPU. `ECONNRESET`: the session has ended, so blocks are no longer counted.
    pub fn read(&self, cpu: usize) -> io::Result<Option<Counts>> {
        self.check(cpu)?;
        self.backend.read(cpu)
    }

    /// Returns how many registered threads are ready on a CPU now: running there, or waiting for it.
    ///
    /// # Errors
    /// `EINVAL`: no such CPU.
    pub fn ready(&self, cpu: usize) -> io::Result<u32> {
        self.check(cpu)?;
        Ok(self.backend.ready(cpu))
    }

    /// Registers the calling thread: it is watched until it ends, or is [unregistered](Monitor::unregister). The thread sleeps for some
    /// microseconds here, so that it is already counted when this returns.
    ///
    /// # Errors
    /// `EAGAIN`: there is no room for more threads. The kernel's error if descriptors or memory run out.
    pub fn register(&'static self) -> io::Result<()> {
        REGISTERED
            .try_with(|here| {
                if ptr::eq(here.0.get(), self) {
                    return Ok(());
                }
                self.backend.register()?;
                here.0.set(self);
                Ok(())
            })
            // The thread is ending: its thread-local variables are gone.
            .unwrap_or(Err(error(libc::EAGAIN)))
    }

    /// Unregisters the calling thread.
    pub fn unregister(&self) {
        let _ = REGISTERED.try_with(|here| {
            if ptr::eq(here.0.get(), self) {
                here.leave();
            }
        });
    }

    fn check(&self, cpu: usize) -> io::Result<()> {
        if cpu < self.cpus { Ok(()) } else { Err(error(libc::EINVAL)) }
    }
}

/// Replaces the various errors of the kernel when it does not open a log of switches by `EPERM` or `ENOTSUP`; other errors stay as they are.
fn plain(why: io::Error) -> io::Error {
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => error(libc::EPERM),
        Some(libc::ENOSYS | libc::ENOENT | libc::ENODEV | libc::EINVAL | libc::EOPNOTSUPP) => error(libc::ENOTSUP),
        _ => why,
    }
}

/// Forgets everything in a child after fork: threads, pages and logs are the parent's.
extern "C" fn in_child() {
    // SAFETY: `CURRENT` is null, or points to a monitor that is never freed.
    let before = unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    umt_client::forked();
    bells::forked();
    before.into_iter().for_each(|before| before.backend.leave_to_parent());
}

/// Returns the highest possible CPU number, plus one.
fn cpus() -> usize {
    // SAFETY: the call takes no pointers.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
    let mut mask = [0u64; CPU_WORDS];
    // SAFETY: the kernel writes at most as many bytes as the mask has.
    unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    // If CPU numbers have gaps, the C library's count is lower than the highest number.
    let highest =
        mask.iter().rposition(|word| *word != 0).map_or(0, |at| at * 64 + 64 - mask[at].leading_zeros() as usize);
    configured.max(highest).min(CPUS)
}
