//! Reading and writing of knobs.

use std::io;
use std::path::{Path, PathBuf};

use machine::CpuSet;

use crate::error::Error;
use crate::knob::{Knob, Thread};
use crate::setting::Setting;
use crate::unmoved::Why;
use crate::value::Value;

pub(crate) mod affinity;
pub(crate) mod attr;
mod cgroups;
mod interrupts;
mod kernel_file;
mod live;
mod way_back;

pub use kernel_file::value_of;
pub use live::LiveKnobIo;

/// Reads and writes knobs: on the real machine, or on a simulated one in tests.
pub trait KnobIo {
    /// Returns the present value.
    ///
    /// # Errors
    /// [`Error::Gone`] if the thread has ended or the file does not exist.
    fn read(&self, knob: &Knob) -> Result<Value, Error>;

    /// Sets a value.
    ///
    /// # Errors
    /// [`Error::Gone`] if the thread has ended or the file does not exist, or [`Error::Knob`] with the
    /// kernel's error.
    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error>;

    /// Reads a value and passes it to `decide`. If `decide` returns a value, sets that value. The thread's identity is
    /// checked only once. Returns the value that was read.
    ///
    /// # Errors
    /// The same as [`KnobIo::read`] and [`KnobIo::write`].
    fn exchange(&self, knob: &Knob, decide: &dyn Fn(&Value) -> Option<Value>) -> Result<Value, Error>;

    /// Returns a writer that sets a thread's knob as fast as possible, from any thread; for a
    /// [`KnobHandle`](crate::KnobHandle).
    ///
    /// # Errors
    /// [`Error::Gone`] if the thread has ended, or [`Error::Knob`] for a knob that does not belong to a
    /// thread.
    fn writer(&self, knob: &Knob) -> Result<Box<dyn Writer>, Error>;

    /// Checks that a knob whose value is changed from `original` to `wanted` could be set back to `original`.
    ///
    /// # Errors
    /// [`Error::OneWay`] if it could not.
    fn way_back(&self, knob: &Knob, original: &Value, wanted: &Value) -> Result<(), Error>;

    /// Returns the CPUs that a thread could use with any affinity mask: the online CPUs of its cpuset.
    ///
    /// # Errors
    /// [`Error::Gone`] if the thread has ended; also fails if the machine's files cannot be read.
    fn possible_cpus(&self, thread: Thread) -> Result<CpuSet, Error>;

    /// Returns the CPUs that are online.
    ///
    /// # Errors
    /// Fails if the machine's files cannot be read.
    fn online_cpus(&self) -> Result<CpuSet, Error>;

    /// Returns why the kernel lets nobody set this thread's affinity at present: [`Why::Bound`] or [`Why::Deadline`]. `None`
    /// if it does, or the thread has ended.
    fn fixed(&self, thread: Thread) -> Option<Why>;

    /// Returns the kernel's random id of this boot.
    ///
    /// # Errors
    /// Fails if /proc cannot be read.
    fn boot_id(&self) -> Result<String, Error>;

    /// Returns the start time of a process or thread, ns; `None` if it does not exist, is about to
    /// end, or is a zombie.
    fn started_ns(&self, tid: u32) -> Option<u64>;

    /// Returns the ids of all threads of the process that `leader` leads, zombies included.
    ///
    /// # Errors
    /// [`Error::Gone`] if the process has ended.
    fn threads_of(&self, leader: Thread) -> Result<Vec<u32>, Error>;

    /// Returns the task that a thread comes from: the first thread of its process, or, for a first thread, the parent
    /// process. `None` if there is none, if the thread has ended, and for threads of the kernel, which inherit no mask.
    fn creator_of(&self, tid: u32) -> Option<u32>;

    /// Returns the hierarchy that a cgroup belongs to, by its mount point. The cgroup need not exist.
    ///
    /// # Errors
    /// [`Error::Knob`] if the folder is not in a cgroup hierarchy.
    fn hierarchy_of(&self, cgroup: &Path) -> Result<PathBuf, Error>;

    /// Returns the ids of all threads in a cgroup, without those in cgroups below it.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist.
    fn members_of(&self, cgroup: &Path) -> Result<Vec<u32>, Error>;

    /// Returns the cgroups directly below `cgroup` that would lose values of their own if this controller were turned off.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist.
    fn users_of(&self, cgroup: &Path, controller: &str) -> Result<Vec<PathBuf>, Error>;

    /// Returns the same file of the cgroups directly below that of a file `cpuset.cpus`; none outside version 1, where
    /// nobody copies the CPUs of a cgroup to a new one in it.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist.
    fn nested_cpusets(&self, file: &Path) -> Result<Vec<PathBuf>, Error>;

    /// Returns the ids of all threads.
    ///
    /// # Errors
    /// Fails if /proc cannot be read.
    fn all_threads(&self) -> Result<Vec<u32>, Error>;

    /// Returns whether the kernel forgets the masks that programs have set when their cpuset changes: before Linux 6.2.
    fn forgets_masks(&self) -> bool;
}

/// Converts the kernel's error of a write. An affinity is refused with EINVAL or EBUSY also for other reasons, so this looks
/// at the thread again. The creator of a thread of the kernel may bind it to a CPU after somebody has seen it (kthread_bind).
pub(crate) fn refused(knob_io: &dyn KnobIo, knob: &Knob, answer: io::Error) -> Error {
    let (Knob::Affinity(thread), Some(libc::EINVAL | libc::EBUSY)) = (knob, answer.raw_os_error()) else {
        return Error::of_write(knob, answer);
    };
    if knob_io.started_ns(thread.tid) != Some(thread.start_ns) {
        return Error::Gone(Box::new(knob.clone()));
    }
    match knob_io.fixed(*thread) {
        Some(why) => Error::Unmovable { knob: Box::new(knob.clone()), why },
        None => Error::of_write(knob, answer),
    }
}

/// Writes the value that a knob has, to find out whether it could be changed. Returns the value.
///
/// # Errors
/// [`Error::Unmovable`] for an interrupt that the kernel manages; [`Error::Gone`]; else the kernel's error.
pub fn probe(knob_io: &dyn KnobIo, knob: &Knob) -> Result<Value, Error> {
    knob_io.exchange(knob, &|now| Some(now.clone()))
}

/// Sets one knob of one thread.
pub trait Writer: Send + Sync {
    /// Sets the knob. Must not make other checks, allocate memory or wait.
    ///
    /// # Errors
    /// The kernel's error; ESRCH if the thread has ended.
    fn write(&self, setting: &Setting) -> io::Result<()>;

    /// Returns whether the thread's affinity is within the affinity `bounds`. Must not allocate memory or wait.
    ///
    /// # Errors
    /// The kernel's error; ESRCH if the thread has ended, EINVAL if `bounds` is not an affinity.
    fn is_within(&self, bounds: &Setting) -> io::Result<bool>;
}
