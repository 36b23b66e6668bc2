//! Knobs: what can be changed and restored. The crate's documentation defines the term.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A thread. Its start time distinguishes it from a later thread with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Start time on CLOCK_BOOTTIME, as in [`machine::process::Stat`], ns.
    pub start_ns: u64,
}

/// Something that can be changed and restored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// The CPUs that a thread may run on: sched_setaffinity(2).
    Affinity(Thread),
    /// A thread's scheduling class, nice value, priority and slice: sched_setattr(2).
    Scheduling(Thread),
    /// The text of a file below /proc or /sys, without its final line end.
    File(PathBuf),
    /// A file that has a set of CPUs as a hexadecimal mask: `smp_affinity`, `rps_cpus`, the `cpumask` of workqueues.
    CpuMask(PathBuf),
    /// A file that has a set of CPUs as a list: `smp_affinity_list`, `watchdog_cpumask`, `cpuset.cpus`.
    CpuList(PathBuf),
    /// A file that shows all its possible values, the present one in brackets: `always [madvise] never`.
    Choice(PathBuf),
    /// The affinity of an interrupt, which is found by its name at each access because numbers change.
    Interrupt {
        /// The name in /proc/interrupts: that of the device, or of all devices that share it, separated by `, `.
        name: String,
        /// Which of the interrupts with this name, in the order of their numbers, from 0.
        ordinal: u32,
    },
    /// A cgroup, by its folder. Only a cgroup that the session has made is removed again.
    Directory(PathBuf),
    /// The cgroup that a thread is in.
    Membership {
        /// The thread. In a version-2 hierarchy the whole process changes its cgroup, so name its first thread.
        thread: Thread,
        /// The hierarchy, by its mount point.
        hierarchy: PathBuf,
    },
    /// Whether a controller of a version-2 hierarchy is on for the cgroups below one: a word of its
    /// `cgroup.subtree_control`. If it is off, their files of that controller do not exist.
    Controller {
        /// The cgroup, by its folder.
        cgroup: PathBuf,
        /// The controller: `cpuset`.
        name: String,
    },
    /// Whether a process runs or is stopped: SIGCONT and SIGSTOP to its first thread. For a service that would set other
    /// knobs back, without its manager.
    Running(Thread),
}

/// The value of [`Knob::Running`] of a process that is not stopped.
pub const RUNNING: &str = "running";
/// The value of [`Knob::Running`] of a stopped process.
pub const STOPPED: &str = "stopped";

impl Knob {
    /// Returns the thread whose knob this is; `None` for other knobs.
    #[must_use]
    pub fn thread(&self) -> Option<Thread> {
        match self {
            Knob::Affinity(thread)
            | Knob::Scheduling(thread)
            | Knob::Membership { thread, .. }
            | Knob::Running(thread) => Some(*thread),
            _ => None,
        }
    }

    /// Returns the same knob of another thread; `None` for knobs that do not belong to a thread.
    #[must_use]
    pub fn of(&self, thread: Thread) -> Option<Knob> {
        match self {
            Knob::Affinity(_) => Some(Knob::Affinity(thread)),
            Knob::Scheduling(_) => Some(Knob::Scheduling(thread)),
            Knob::Membership { hierarchy, .. } => Some(Knob::Membership { thread, hierarchy: hierarchy.clone() }),
            _ => None,
        }
    }

    /// Returns the file of a knob that is one file; `None` for other knobs.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Knob::File(path) | Knob::CpuMask(path) | Knob::CpuList(path) | Knob::Choice(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knob::Affinity(thread) => write!(f, "affinity of thread {}", thread.tid),
            Knob::Scheduling(thread) => write!(f, "scheduling of thread {}", thread.tid),
            Knob::File(path) | Knob::CpuMask(path) | Knob::CpuList(path) | Knob::Choice(path) => {
                write!(f, "{}", path.display())
            }
            Knob::Interrupt { name, ordinal: 0 } => write!(f, "affinity of interrupt {name}"),
            Knob::Interrupt { name, ordinal } => write!(f, "affinity of interrupt {name} (number {})", ordinal + 1),
            Knob::Directory(path) => write!(f, "cgroup {}", path.display()),
            Knob::Membership { thread, hierarchy } => {
                write!(f, "cgroup of thread {} in {}", thread.tid, hierarchy.display())
            }
            Knob::Controller { cgroup, name } => write!(f, "controller {name} below {}", cgroup.display()),
            Knob::Running(thread) => write!(f, "execution of process {}", thread.tid),
        }
    }
}
