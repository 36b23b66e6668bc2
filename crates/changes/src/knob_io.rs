//! Reading and writing knobs.

use std::io;

use machine::CpuSet;

use crate::error::Error;
use crate::knob::{Knob, Thread, Value};
use crate::setting::Setting;

pub(crate) mod attr;
mod live;
mod way_back;

pub use live::LiveKnobIo;

/// What reads and writes knobs: the machine, or a test's idea of one.
pub trait KnobIo {
    /// The present value.
    ///
    /// # Errors
    /// [`Error::Gone`] when the thread has ended or the file is not there.
    fn read(&self, knob: &Knob) -> Result<Value, Error>;

    /// Set a value.
    ///
    /// # Errors
    /// [`Error::Gone`] as above, or [`Error::Knob`] with the kernel's answer.
    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error>;

    /// Look at a value and set what `decide` makes of it, if anything, with one look at the thread's identity
    /// for both. The value before.
    ///
    /// # Errors
    /// As reading and writing.
    fn exchange(&self, knob: &Knob, decide: &dyn Fn(&Value) -> Option<Value>) -> Result<Value, Error>;

    /// What sets the knob of a thread from any other thread and as fast as can be, for a handle.
    ///
    /// # Errors
    /// [`Error::Gone`] as above, or [`Error::Knob`] for a knob that is no thread's.
    fn writer(&self, knob: &Knob) -> Result<Box<dyn Writer>, Error>;

    /// Whether `original` could be put back from `wanted`.
    ///
    /// # Errors
    /// [`Error::OneWay`] when it could not.
    fn way_back(&self, knob: &Knob, original: &Value, wanted: &Value) -> Result<(), Error>;

    /// The CPUs that a thread could have whatever its affinity: those of its cpuset that are online.
    ///
    /// # Errors
    /// [`Error::Gone`] when the thread has ended, or when the machine's files cannot be read.
    fn possible_cpus(&self, thread: Thread) -> Result<CpuSet, Error>;

    /// The kernel's random id of this boot.
    ///
    /// # Errors
    /// When /proc cannot be read.
    fn boot_id(&self) -> Result<String, Error>;

    /// When a process or thread started; `None` when there is none, or only its zombie.
    fn started_ns(&self, tid: u32) -> Option<u64>;

    /// The ids of all threads of the process that `leader` leads, zombies too.
    ///
    /// # Errors
    /// [`Error::Gone`] when the process has ended.
    fn threads_of(&self, leader: Thread) -> Result<Vec<u32>, Error>;
}

/// Sets one knob of one thread.
pub trait Writer: Send + Sync {
    /// Set it. Must not look at anything else first, allocate or wait.
    ///
    /// # Errors
    /// The kernel's answer, ESRCH when the thread has ended.
    fn write(&self, setting: &Setting) -> io::Result<()>;

    /// Whether the thread's affinity is within that of `bounds`. Must not allocate or wait.
    ///
    /// # Errors
    /// The kernel's answer, ESRCH when the thread has ended; EINVAL for bounds that are no affinity.
    fn is_within(&self, bounds: &Setting) -> io::Result<bool>;
}
