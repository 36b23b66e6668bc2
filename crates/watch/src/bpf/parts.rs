//! The parts of the BPF object (clocks, snapshots, overlap and noise): their settings, and the BPF programs and maps that each part needs.

use std::ffi::OsStr;

use Part::{Clocks, Noise as Interrupts, Overlap, Snapshots as Snaps};
use wire::latency::Scope;

use super::libbpf::kernel_casts;
use crate::sampling;

/// Settings of the part that keeps clocks: one account of time for each thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether child processes of tracked processes are tracked.
    pub children: bool,
    /// Time between samples of user instruction pointers on a CPU, nanoseconds; 0: no sampling.
    pub sample_period_ns: u64,
    /// Number of CPUs in an unrestricted affinity mask.
    pub cpus_in_full_mask: u32,
    /// One more than the highest possible CPU number.
    pub cpu_limit: u32,
    /// Whether to use `bpf_rdonly_cast`, which Linux has since 6.2 (`verifier.bpf.h`).
    pub casts: bool,
    /// Size of the ring buffer for the clocks (accounts of time) of dead threads, bytes. It must hold the clocks of all threads that die between two
    /// ticks of the session. A power of two, and at least a page.
    pub exited_bytes: u32,
    /// Size of the ring for trace events, bytes. A power of two, and at least a page. `None`: no trace.
    pub trace_bytes: Option<u32>,
    /// Which programs and threads get histograms of interval lengths.
    pub latencies: Scope,
}

impl Settings {
    /// Size of a ring buffer for the clocks (accounts of time) of 15,000 threads that die between two ticks of the session, bytes.
    pub const EXITED_BYTES: u32 = 8 << 20;

    /// Returns the usual settings for a machine with `cpus_in_full_mask` CPUs in an unrestricted affinity mask, and with CPU numbers below
    /// `cpu_limit`.
    pub fn new(cpus_in_full_mask: u32, cpu_limit: u32) -> Settings {
        Settings {
            children: true,
            sample_period_ns: sampling::period_ns(),
            cpus_in_full_mask,
            cpu_limit,
            casts: kernel_casts(),
            exited_bytes: Settings::EXITED_BYTES,
            trace_bytes: None,
            latencies: Scope::default(),
        }
    }
}

/// Maximum number of threads that get a snapshot during a session. The same number is in snapshots.bpf.h.
pub(crate) const PLACES: usize = 65536;

/// Settings of the part that keeps thread snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshots {
    /// Whether child processes of tracked processes are tracked.
    pub children: bool,
}

/// Settings of the part that reports what interrupts threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Whether child processes of followed processes are followed.
    pub children: bool,
    /// Size of the rings for events together, bytes: one for each CPU that is online. A power of two, and at least a page.
    pub ring_bytes: u32,
    /// Tracepoints that are left out although the kernel has them, by name.
    pub without: Vec<String>,
}

/// The parts of the BPF object that are loaded. Other parts cost nothing: the verifier removes their code, and their maps are not created.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Clocks: accounts of time by thread, for an observer.
    pub clocks: Option<Settings>,
    /// Snapshots: the present state of each thread, for packing.
    pub snapshots: Option<Snapshots>,
    /// Overlap: counts of runnable threads, and doorbells that wake standby threads.
    pub overlap: bool,
    /// Noise: what interrupts threads, and when.
    pub noise: Option<Noise>,
    /// If set, only threads of this user can be tracked, and threads of other users are not named.
    pub owner: Option<u32>,
}

impl Parts {
    fn has(&self, part: Part) -> bool {
        match part {
            Part::Clocks => self.clocks.is_some(),
            Part::Snapshots => self.snapshots.is_some(),
            Part::Overlap => self.overlap,
            Part::Noise => self.noise.is_some(),
        }
    }

    /// Returns whether programs that were loaded with the parts in `self` can serve a handle for `part`. `alone` has the settings that the handle
    /// needs: `self` must have the same settings for this part, and the same `owner`.
    pub(super) fn fits(&self, part: Part, alone: &Parts) -> bool {
        let fits = match part {
            Clocks => self.clocks == alone.clocks,
            Snaps => self.snapshots == alone.snapshots,
            Overlap => self.overlap,
            Interrupts => self.noise == alone.noise,
        };
        fits && self.owner == alone.owner
    }

    /// Returns whether the BPF program with this name is needed for these parts.
    pub(super) fn needs(&self, program: &OsStr) -> bool {
        let is_needed = match program.to_str() {
            Some("on_switch") => self.clocks.is_some(),
            Some("on_plain_switch") => self.clocks.is_none(),
            _ => true,
        };
        is_needed && [&TRACEPOINTS[..], &OTHER_PROGRAMS].iter().all(|table| self.any_of(needed_by(table, program)))
    }

    pub(super) fn any_of(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.has(*part))
    }
}

/// A part of the BPF object. The numbers are those of `ENROL_CLOCK`, `ENROL_SNAPSHOT`, `ENROL_OVERLAP` and `ENROL_NOISE` in
/// `threads.bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Clocks = 1,
    Snapshots = 2,
    Overlap = 4,
    Noise = 8,
}

/// The programs at tracepoints, and the parts that need them, in the order in which they are attached. The tracepoints of thread creation come before
/// those of context switches, so that no switch of a tracked thread is missed.
pub(super) const TRACEPOINTS: [(&str, &[Part]); 8] = [
    ("on_newtask", ALL),
    ("on_wakeup_new", &[Clocks]),
    ("on_exec", ALL),
    ("on_waking", &[Clocks, Snaps]),
    ("on_wakeup", &[Overlap]),
    ("on_migrate", &[Clocks, Overlap, Interrupts]),
    ("on_switch", ALL),
    ("on_plain_switch", ALL),
];

const ALL: &[Part] = &[Clocks, Snaps, Overlap, Interrupts];

/// The programs of the noise part, each at a tracepoint of its own: `on_NAME` at NAME. A kernel need not have all of the tracepoints: `csd_*` and `ipi_send_cpu` are new in
/// 6.4, and the interrupt vectors are those of x86.
pub(crate) const INTERRUPTIONS: [&str; 41] = [
    "on_local_timer_entry",
    "on_local_timer_exit",
    "on_reschedule_entry",
    "on_reschedule_exit",
    "on_call_function_entry",
    "on_call_function_exit",
    "on_call_function_single_entry",
    "on_call_function_single_exit",
    "on_irq_work_entry",
    "on_irq_work_exit",
    "on_x86_platform_ipi_entry",
    "on_x86_platform_ipi_exit",
    "on_spurious_apic_entry",
    "on_spurious_apic_exit",
    "on_error_apic_entry",
    "on_error_apic_exit",
    "on_thermal_apic_entry",
    "on_thermal_apic_exit",
    "on_threshold_apic_entry",
    "on_threshold_apic_exit",
    "on_deferred_error_apic_entry",
    "on_deferred_error_apic_exit",
    "on_irq_handler_entry",
    "on_irq_handler_exit",
    "on_softirq_entry",
    "on_softirq_exit",
    "on_hrtimer_expire_entry",
    "on_hrtimer_expire_exit",
    "on_timer_expire_entry",
    "on_timer_expire_exit",
    "on_csd_function_entry",
    "on_csd_function_exit",
    "on_csd_queue_cpu",
    "on_ipi_send_cpu",
    "on_ipi_send_cpumask",
    "on_workqueue_execute_start",
    "on_nmi_handler",
    "on_tlb_flush",
    "on_tick_stop",
    "on_page_fault_user",
    "on_page_fault_kernel",
];

/// Returns the tracepoint at which a program of [`INTERRUPTIONS`] runs.
pub(crate) const fn tracepoint(program: &str) -> &str {
    match program.split_at_checked("on_".len()) {
        Some((_, tracepoint)) => tracepoint,
        None => program,
    }
}

/// Returns the program of the noise part with this name; `None` if it is not one of [`INTERRUPTIONS`].
pub(super) fn interruption(program: &OsStr) -> Option<&'static str> {
    INTERRUPTIONS.into_iter().find(|name| program == *name)
}

/// The BPF programs that do not run at a tracepoint and that only some parts (clocks, snapshots, overlap, noise) need, with those parts.
pub(super) const OTHER_PROGRAMS: [(&str, &[Part]); 6] = [
    ("on_sample", &[Clocks]),
    ("dump_clocks", &[Clocks]),
    ("on_look", &[Snaps]),
    ("on_minor_fault", &[Interrupts]),
    ("on_major_fault", &[Interrupts]),
    ("name_function", &[Interrupts]),
];

/// The BPF maps that only some parts (clocks, snapshots, overlap, noise) need, with those parts.
pub(super) const MAPS: [(&str, &[Part]); 17] = [
    ("exited", &[Clocks]),
    ("samples", &[Clocks]),
    ("unlisted", &[Clocks]),
    ("wakeups", &[Clocks]),
    ("preemptors", &[Clocks]),
    ("trace_events", &[Clocks]),
    ("latencies", &[Clocks]),
    ("snapshots", &[Snaps]),
    ("snapshot_counts", &[Snaps]),
    ("looks", &[Snaps]),
    ("others", &[Snaps]),
    ("other_since", &[Snaps]),
    ("program_pages", &[Overlap]),
    ("kernel_pages", &[Overlap]),
    ("bells", &[Overlap]),
    ("noise_rings", &[Interrupts]),
    ("noise_counts", &[Interrupts]),
];

/// Returns the parts (clocks, snapshots, overlap, noise) that need the BPF program or map with this name.
pub(super) fn needed_by(table: &[(&str, &'static [Part])], name: &OsStr) -> &'static [Part] {
    table.iter().find(|(named, _)| name == *named).map_or(ALL, |(_, parts)| *parts)
}
