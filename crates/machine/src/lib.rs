//! Reads Linux and changes nothing: CPUs and what they share, processes, control groups, how long CPUs were busy, and the
//! kernel features that this user may use.
//!
//! This crate is the only one that reads paths of /proc, /sys and /boot. It opens them below a [`Root`]: the live
//! machine, or a folder with another machine's tree. Readers return an [`Error`] that names the path. No reader trusts
//! the kernel's text to be well formed.
//!
//! | module | subject |
//! |---|---|
//! | [`root`] | the root of the trees, and reading below it |
//! | [`busy`] | how long each CPU has been busy |
//! | [`cpulist`] | sets of CPUs, `0-3,8` |
//! | `cpumask` | the same sets as hexadecimal masks, `ff,ffffffff` |
//! | [`topology`] | CPUs, SMT siblings, last-level caches, capacities |
//! | [`namespace`] | PID namespaces: whether this is a container, and whether /proc shows this process's namespace |
//! | [`process`] | /proc/PID and /proc/PID/task/TID |
//! | [`openmp`] | which mapped libraries are OpenMP runtimes |
//! | [`cgroup`] | mounts, memberships, quotas, throttling, members |
//! | [`limits`] | how many CPUs a process can really use |
//! | [`host`] | name, boot, kernel and CPU model; which container this is |
//! | [`hypervisor`] | whether this machine is a guest |
//! | [`clock_source`] | whether the CPUs' counters are clocks |
//! | [`interrupts`] | interrupts and softirqs, as the kernel counts them on each CPU |
//! | [`tracepoints`] | layouts of the scheduler's events |
//! | [`features`] | what this kernel and user may do, with reason and fix |
//! | [`state`] | everything that cox could have changed on this machine, and what differs later |

#![forbid(unsafe_code)]

pub mod busy;
pub mod cgroup;
pub mod clock_source;
mod cpuinfo;
pub mod cpulist;
mod cpumask;
mod error;
pub mod features;
pub mod host;
pub mod hypervisor;
pub mod interrupts;
pub mod limits;
pub mod namespace;
pub mod openmp;
pub mod process;
pub mod root;
pub mod state;
pub mod ticks;
pub mod topology;
pub mod tracepoints;

pub use cpulist::CpuSet;
pub use error::Error;
pub use root::Root;
