//! What the decisions need to know of the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use changes::{Error, Knob, KnobIo, Thread, probe};
use machine::CpuSet;
use machine::topology::Topology;

/// The machine, as far as making CPUs quiet depends on it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// CPUs and their cores.
    pub topology: Topology,
    /// CPUs of cox's cpuset; a container may have fewer than the machine. The mask that cox inherited does not matter.
    pub allowed: CpuSet,
    /// CPUs without load balancing since boot (`isolcpus=domain`).
    pub isolated: CpuSet,
    /// CPUs whose tick the kernel can stop while one thread runs (`nohz_full=`); `None`: this kernel cannot.
    pub nohz_full: Option<CpuSet>,
    /// CPUs that other cgroups have for themselves, by the cgroup's folder: partitions, and in version 1 exclusive cpusets
    /// (`cpuset.cpu_exclusive`) below the root.
    pub partitions: BTreeMap<PathBuf, CpuSet>,
    /// CPUs that other sessions keep quiet, by the folder of their cpuset.
    pub quieted: BTreeMap<PathBuf, CpuSet>,
    /// Device interrupts, in the order of their numbers.
    pub interrupts: Vec<Interrupt>,
    /// Files of the checklist that exist, with their values.
    pub files: BTreeMap<PathBuf, String>,
    /// Where cpusets can be made.
    pub cpusets: Cpusets,
    /// Processes of irqbalance, which moves interrupts back.
    pub irqbalance: Vec<Thread>,
    /// Whether the kernel surely shows which interrupts it manages, so that nobody has to try: since Linux 6.13.
    pub shows_managed: bool,
    /// Whether the fair server may keep the tick of an idle CPU, and can be switched off: seen on 6.18 and 7.3. Linux 6.12 stops it when a CPU becomes
    /// idle; there, a change of its runtime is refused after a partition has been made, and makes the kernel warn (6.12.117, kernel/sched/deadline.c).
    pub fair_server_stays: bool,
    /// Whether the kernel forgets the masks that programs have set when their cpuset changes: before Linux 6.2.
    pub forgets_masks: bool,
}

impl Facts {
    /// Returns the knob of the interrupt at this place in the list. Interrupts with one name are counted.
    #[must_use]
    pub fn knob(&self, at: usize) -> Knob {
        let name = self.interrupts[at].name.clone();
        let ordinal = self.interrupts[..at].iter().filter(|other| other.name == name).count();
        Knob::Interrupt { name, ordinal: ordinal as u32 }
    }

    /// Finds out which of the interrupts that come to `candidates` the kernel manages: writes to each the affinity that it
    /// has, which changes nothing. Needs root. Does nothing on kernels that show it.
    pub fn probe_interrupts(&mut self, knob_io: &dyn KnobIo, candidates: &CpuSet) {
        if self.shows_managed {
            return;
        }
        for at in 0..self.interrupts.len() {
            let interrupt = &self.interrupts[at];
            let is_open = !interrupt.is_fixed && !interrupt.effective.intersection(candidates).is_empty();
            if is_open && matches!(probe(knob_io, &self.knob(at)), Err(Error::Unmovable { .. })) {
                self.interrupts[at].is_fixed = true;
            }
        }
    }

    /// Returns the CPU that the kernel booted on. It usually keeps the time for all CPUs: on kernels that were booted
    /// with `nohz_full` always, on others whenever it does not sleep (kernel/time/tick-sched.c).
    #[must_use]
    pub fn boot_cpu(&self) -> Option<u32> {
        self.topology.online.first()
    }
}

/// A device interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number, which may be another one after the driver has been loaded again.
    pub number: u32,
    /// Names of its devices, as in /proc/interrupts.
    pub name: String,
    /// CPUs that it may interrupt.
    pub affinity: CpuSet,
    /// CPUs that it interrupts at present.
    pub effective: CpuSet,
    /// Whether nobody may move it: its file has no right to write. False for all before Linux 6.12, where only an
    /// attempt tells.
    pub is_fixed: bool,
    /// Whether it is message-signalled (MSI). Only such an interrupt can be managed: its driver has one for each queue
    /// of a device, spreads them over the CPUs, and each comes if a thread on its CPUs uses the queue. Others that
    /// cannot be moved are bound by the kernel, as a timer is (`IRQF_NOBALANCING`).
    pub is_message: bool,
}

impl Cpusets {
    /// Returns where the hierarchy is mounted in which cpusets can be made.
    #[must_use]
    pub fn mount(&self) -> Option<&Path> {
        match self {
            Cpusets::V1 { mount, .. } | Cpusets::V2 { mount, .. } => Some(mount),
            Cpusets::V2Harmful { .. } | Cpusets::Foreign { .. } | Cpusets::None => None,
        }
    }
}

/// Where cpusets can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpusets {
    /// A hierarchy of version 1.
    V1 {
        /// Where it is mounted.
        mount: PathBuf,
        /// Prefix of its files: `cpuset.`, or nothing if it was mounted with `noprefix`.
        prefix: &'static str,
    },
    /// The hierarchy of version 2 with the controller cpuset.
    V2 {
        /// Where it is mounted.
        mount: PathBuf,
        /// Whether the end of a partition gives unbound workers all CPUs, also those that the boot line keeps them
        /// from: before Linux 6.3 (`update_tasks_cpumask`; seen with 6.1.0-50).
        frees_workers: bool,
    },
    /// A hierarchy of version 2 whose partitions do harm. Before Linux 6.1, the kernel gives its threads of single CPUs
    /// the CPUs of the root cpuset when these change: work items then run on the wrong CPUs, and nobody can give such a
    /// thread its CPU back (`update_tasks_cpumask` in kernel/cgroup/cpuset.c; seen with 5.10.223).
    V2Harmful {
        /// The kernel's release.
        release: String,
    },
    /// Not here: this process sees only a part of the machine's cpusets or threads. The rest would stay on the quiet CPUs, while
    /// interrupts and settings of the whole machine were changed.
    Foreign {
        /// What shows that.
        why: String,
    },
    /// Nowhere.
    None,
}
