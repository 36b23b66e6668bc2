//! The settings of the kernel that make CPUs quiet at run time: which file, from which level on, what it needs, and
//! why.
//!
//! What each file does: Documentation/admin-guide/{sysctl,mm,kernel-parameters,workqueue,cpu-isolation} and
//! networking/scaling of Linux. A file that does not exist on a kernel is left out there.
//!
//! Not in the list, because they endanger the machine or the user's data for little:
//!
//! - `sched_rt_runtime_us`: a spinning real-time thread can then stop a CPU.
//! - Longer intervals of writeback: more is lost in a crash.
//! - `ignore_ce`: hides errors of the memory.
//! - Taking the quiet CPUs offline and on again, which moves the timers that are bound to them: it stops the machine for up to
//!   100 ms, breaks partitions, and ends threads of the kernel whose masks could not be restored.
//!
//! Not in the list, because they keep nothing away that another row does not:
//!
//! - Masks of single workqueues: the kernel applies the mask of all to each.
//! - `xps_cpus`: chooses the queue by which a CPU sends, not the CPU that is interrupted.
//! - `/dev/cpu_dma_latency`: limits the sleep states of all CPUs; `pm_qos_resume_latency_us` does so for the quiet ones.
//! - `khugepaged/defrag`: khugepaged hardly ever runs with the row below.
//!
//! Not in the list, because they change the speed or the memory of all programs, and only a measurement says in which direction:
//!
//! - Transparent huge pages (`enabled`, `defrag`): the program itself may need them; madvise(2) and prctl(2) decide for one program.
//! - `swappiness`: memory of the program that must not be swapped is locked by mlockall(2).
//! - `scaling_min_freq`: with the governor `performance`, the frequency stays as high as it can. Turbo (`no_turbo`, `boost`) is a
//!   setting of all CPUs.
//! - `resctrl`: caches and memory bandwidth are divided for the whole machine, by its administrator.
//!
//! Not in the list, because only the boot line has it: `tsc=nowatchdog`. The kernel leaves out its check of the clock where it
//! trusts the TSC.

use std::path::PathBuf;

use changes::Knob;
use machine::CpuSet;

use crate::level::Level;

/// A row of the checklist.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The level from which on the setting is changed.
    pub level: Level,
    /// The file. A folder `*` stands for all folders; `{cpu}` stands for the number of each quiet CPU.
    pub path: &'static str,
    /// Makes the knob of a file; its kind is the form of the file's value.
    pub knob: fn(PathBuf) -> Knob,
    /// The value that it needs.
    pub needs: Needs,
    /// What the change keeps away from the quiet CPUs.
    pub why: &'static str,
    /// What the change costs the rest of the machine, or how its undo differs from the others; empty if nothing is
    /// known.
    pub price: &'static str,
}

impl Row {
    /// Returns the row's paths, in which `*` still stands for folders, for these CPUs.
    pub fn paths(&self, cpus: &CpuSet) -> Vec<String> {
        if !self.path.contains("{cpu}") {
            return vec![self.path.to_owned()];
        }
        cpus.iter().map(|cpu| self.path.replace("{cpu}", &cpu.to_string())).collect()
    }
}

/// The value that a setting needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The CPUs that it has now, without the quiet ones; if none is left, all housekeeping CPUs. No CPU at all means
    /// "off" and stays.
    Housekeeping,
    /// This number, unless it is higher already.
    AtLeast(u64),
    /// This word or number.
    Exactly(&'static str),
    /// This word, but a setting with the word `except` stays: the undo could not restore what the kernel forgets then.
    Unless {
        /// The word that it needs.
        word: &'static str,
        /// The word with which it stays.
        except: &'static str,
        /// What the kernel would forget.
        forgets: &'static str,
    },
}

/// All rows, in the order in which they are applied.
pub const ROWS: &[Row] = &[
    Row {
        level: Level::Irq,
        path: "/proc/irq/default_smp_affinity",
        knob: Knob::CpuMask,
        needs: Needs::Housekeeping,
        why: "interrupts that drivers add later",
        price: "",
    },
    Row {
        level: Level::Work,
        path: "/sys/devices/virtual/workqueue/cpumask",
        knob: Knob::CpuMask,
        needs: Needs::Housekeeping,
        why: "work items that may run anywhere",
        price: "",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/vm/stat_interval",
        knob: Knob::File,
        needs: Needs::AtLeast(120),
        why: "vmstat_update, each second on each CPU",
        price: "counters of /proc/vmstat are older",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/kernel/watchdog_cpumask",
        knob: Knob::CpuList,
        needs: Needs::Housekeeping,
        why: "the watchdog's timer, every 4 s",
        price: "lockups of quiet CPUs are not detected",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/kernel/nmi_watchdog",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "the watchdog's non-maskable interrupts",
        price: "hard lockups are not detected",
    },
    Row {
        level: Level::Full,
        path: "/sys/kernel/rcu_normal",
        knob: Knob::File,
        needs: Needs::Exactly("1"),
        why: "interrupts of expedited RCU grace periods",
        price: "changes of networks, cgroups and BPF take longer on the whole machine",
    },
    Row {
        level: Level::Full,
        path: "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        knob: Knob::File,
        needs: Needs::AtLeast(600_000),
        why: "TLB flushes when khugepaged makes huge pages",
        price: "memory becomes huge pages later, also after madvise(2)",
    },
    Row {
        level: Level::Full,
        path: "/sys/kernel/mm/ksm/run",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "page faults and TLB flushes of same-page merging",
        price: "no more pages are merged",
    },
    Row {
        level: Level::Full,
        path: "/sys/module/damon_reclaim/parameters/enabled",
        knob: Knob::File,
        needs: Needs::Exactly("N"),
        why: "page faults after proactive reclaim",
        price: "",
    },
    Row {
        level: Level::Full,
        path: "/sys/module/damon_lru_sort/parameters/enabled",
        knob: Knob::File,
        needs: Needs::Exactly("N"),
        why: "scans of the program's pages",
        price: "",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/kernel/numa_balancing",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "page faults by which the kernel learns where memory is used",
        price: "memory no longer follows threads to other nodes",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/vm/compaction_proactiveness",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "TLB flushes of proactive compaction",
        price: "putting it back starts a compaction",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/kernel/timer_migration",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "timers of idle CPUs, which busy ones take over",
        price: "idle housekeeping CPUs wake up for their own timers",
    },
    Row {
        level: Level::Full,
        path: "/sys/devices/system/machinecheck/machinecheck0/check_interval",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "the search for corrected errors, every 5 minutes",
        price: "corrected errors without an interrupt of their own are not found",
    },
    Row {
        level: Level::Full,
        path: "/proc/sys/net/core/rps_default_mask",
        knob: Knob::CpuMask,
        needs: Needs::Housekeeping,
        why: "packets of network devices that are added later",
        price: "",
    },
    Row {
        level: Level::Full,
        path: "/sys/class/net/*/queues/*/rps_cpus",
        knob: Knob::CpuMask,
        needs: Needs::Housekeeping,
        why: "packets that other CPUs received",
        price: "",
    },
    Row {
        level: Level::Full,
        path: "/sys/block/*/queue/rq_affinity",
        knob: Knob::File,
        needs: Needs::Exactly("2"),
        why: "completing I/O of other CPUs, where a disk's interrupt cannot be moved",
        price: "a CPU that starts I/O is interrupted when it is complete",
    },
    Row {
        level: Level::Full,
        path: "/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us",
        knob: Knob::File,
        needs: Needs::Exactly("n/a"),
        why: "slow exits from deep sleep states",
        price: "the CPU uses more power while it is idle",
    },
    // Before the governor: with `performance`, intel_pstate refuses other values than `performance`, also when they are restored.
    Row {
        level: Level::Full,
        path: "/sys/devices/system/cpu/cpu{cpu}/cpufreq/energy_performance_preference",
        knob: Knob::File,
        needs: Needs::Exactly("performance"),
        why: "changes of the clock frequency by the processor",
        price: "the CPU uses more power",
    },
    Row {
        level: Level::Full,
        path: "/sys/devices/system/cpu/cpu{cpu}/power/energy_perf_bias",
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "changes of the clock frequency by the processor",
        price: "the CPU uses more power",
    },
    Row {
        level: Level::Full,
        path: "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor",
        knob: Knob::File,
        // The governor `userspace` begins with the frequency that the CPU has (drivers/cpufreq/cpufreq_userspace.c).
        needs: Needs::Unless { word: "performance", except: "userspace", forgets: "the frequency in scaling_setspeed" },
        why: "changes of the clock frequency",
        price: "the CPU uses more power",
    },
    // kernel/sched/core.c, `sched_can_stop_tick`: any task of the class SCHED_DEADLINE keeps the tick, and so does the server, which counts as
    // one. On 6.18 it was still queued on CPUs that had long been idle.
    Row {
        level: Level::Tickless,
        path: FAIR_SERVER,
        knob: Knob::File,
        needs: Needs::Exactly("0"),
        why: "the tick that the fair server keeps; it guards normal threads from real-time ones",
        price: "a real-time thread that never sleeps can stop normal threads on this CPU; the kernel's log warns of that",
    },
];

/// The nanoseconds per second that a CPU reserves for normal threads when real-time threads would take all its time; in debugfs. Not touched before Linux 6.18.
pub const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_levels_and_name_settings_of_the_kernel() {
        assert!(ROWS.iter().map(|row| row.level).is_sorted());
        for row in ROWS {
            assert!(
                ["/proc/sys/", "/proc/irq/", "/sys/"].iter().any(|folder| row.path.starts_with(folder)),
                "{}",
                row.path
            );
            let of_cpus = matches!((row.knob)(row.path.into()), Knob::CpuMask(_) | Knob::CpuList(_));
            assert_eq!(of_cpus, row.needs == Needs::Housekeeping, "{}", row.path);
        }
    }
}
