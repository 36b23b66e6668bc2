//! The rule of each feature: a pure function from facts to a verdict. A comment names the kernel version or option that
//! the rule depends on.

use super::available::Available;
use super::facts::Facts;
use super::kernel::Setting;
use crate::cgroup::{Hierarchy, Mode, Version};
use crate::process::Capabilities;

/// Capabilities that tracing programs need since Linux 5.8. CAP_SYS_ADMIN includes both.
const BPF_CAPABILITIES: [(u32, &str); 2] = [(Capabilities::BPF, "CAP_BPF"), (Capabilities::PERFMON, "CAP_PERFMON")];

const OTHER_BACKEND: &str = "use --backend perf or proc, which see less";

pub(super) fn btf(facts: &Facts) -> Available {
    if facts.btf {
        return Available::yes("/sys/kernel/btf/vmlinux");
    }
    off(facts, "DEBUG_INFO_BTF", "there is no /sys/kernel/btf/vmlinux", "use a kernel that provides this file")
}

pub(super) fn bpf_record(facts: &Facts) -> Available {
    if !facts.release.has_task_registers() && !facts.bpf_backported {
        let reason = format!("Linux {} is older than 5.15", facts.release);
        return Available::no(reason, format!("use a newer kernel, or {OTHER_BACKEND}"));
    }
    if !facts.btf {
        return Available::no("the kernel has no type information (CONFIG_DEBUG_INFO_BTF)", OTHER_BACKEND);
    }
    for option in ["BPF_SYSCALL", "BPF_EVENTS"] {
        if facts.config.as_ref().is_some_and(|config| !config.is_set(option)) {
            return Available::no(format!("CONFIG_{option} is not set"), OTHER_BACKEND);
        }
    }
    if let Some(refusal) = lacks_bpf_capabilities(facts) {
        return refusal;
    }
    if facts.lockdown_confidentiality {
        return Available::unknown(
            "kernel lockdown is in confidentiality mode, which refuses programs that read kernel memory",
            format!("try --backend bpf; if it is refused, {OTHER_BACKEND}"),
        );
    }
    Available::yes("tp_btf, task storage, ring buffer")
}

/// Judges whether this user may lock enough memory for BPF maps. The maps count against the memory cgroup since Linux 5.11, and against
/// RLIMIT_MEMLOCK before.
pub(super) fn bpf_memory(facts: &Facts) -> Available {
    if facts.release.is_at_least(5, 11) {
        return Available::yes("since Linux 5.11, eBPF maps count towards the memory cgroup: no limit to raise");
    }
    if facts.memlock_bytes == u64::MAX {
        return Available::yes("locked memory is unlimited (ulimit -l)");
    }
    if facts.initial_user_namespace && facts.effective.has(Capabilities::SYS_RESOURCE) {
        return Available::yes("CAP_SYS_RESOURCE, to raise the limit of locked memory");
    }
    Available::no(
        format!(
            "Linux {} counts eBPF maps as locked memory, limited to {} KiB",
            facts.release,
            facts.memlock_bytes / 1024
        ),
        "ulimit -l unlimited",
    )
}

/// Judges whether perf can record switches. Since Linux 4.17, a switch record tells whether the thread was preempted.
pub(super) fn perf_switches(facts: &Facts) -> Available {
    if !facts.release.is_at_least(4, 17) {
        return Available::no(
            format!("Linux {} is older than 4.17: no preemption mark in switch records", facts.release),
            "use --backend proc, which sees less",
        );
    }
    own_threads_by_perf(facts)
}

pub(super) fn user_sampling(facts: &Facts) -> Available {
    /// The rate at which cox samples.
    const WANTED_HZ: u64 = 1000;
    match (own_threads_by_perf(facts), facts.perf_max_sample_rate_hz) {
        (Available::Yes { how }, Some(max)) if max < WANTED_HZ => {
            Available::yes(format!("{how}, at most {max} samples/s (kernel.perf_event_max_sample_rate)"))
        }
        (Available::Yes { how }, _) => Available::yes(format!("software clock event, {how}")),
        (other, _) => other,
    }
}

/// Returns whether a user may call perf_event_open for the user's own threads, without samples of kernel code.
///
/// The sysctl perf_event_paranoid decides. In the mainline kernel, levels up to 2 have a meaning, and 2 still allows
/// this. Debian, Ubuntu, Android and others add higher levels that forbid every use without CAP_SYS_ADMIN. (Ubuntu's
/// kernels since the end of 2025 accept CAP_PERFMON.) Such kernels have the option SECURITY_PERF_EVENTS_RESTRICT. A
/// kernel without that option treats 3 and more as 2.
fn own_threads_by_perf(facts: &Facts) -> Available {
    let Some(level) = facts.perf_event_paranoid else {
        return Available::no("the kernel has no perf events (CONFIG_PERF_EVENTS)", "use --backend proc");
    };
    if may(facts, Capabilities::SYS_ADMIN) {
        return Available::yes("CAP_SYS_ADMIN");
    }
    let perfmon = may(facts, Capabilities::PERFMON);
    let lower = "sudo sysctl kernel.perf_event_paranoid=2";
    if level > 2 {
        let plain_kernel = facts
            .config
            .as_ref()
            .is_some_and(|config| config.setting("SECURITY_PERF_EVENTS_RESTRICT") == Setting::Absent);
        if !plain_kernel && perfmon {
            return Available::unknown(
                format!("perf_event_paranoid is {level}: many kernels then require CAP_SYS_ADMIN, not CAP_PERFMON"),
                format!("try --backend perf, or {lower}"),
            );
        }
        if !plain_kernel {
            return Available::no(
                format!("perf_event_paranoid is {level}, which forbids perf events to users"),
                format!("{lower}; or use --backend proc, which sees less"),
            );
        }
    }
    if perfmon {
        return Available::yes("CAP_PERFMON");
    }
    if facts.seccomp_filter {
        // The default filters of container engines allow perf_event_open only with CAP_PERFMON or a stronger
        // capability.
        return Available::unknown(
            format!(
                "perf_event_paranoid {level} allows perf events, but a seccomp filter (of a container) may forbid them"
            ),
            "try --backend perf, or start the container with --cap-add PERFMON",
        );
    }
    Available::yes(format!("perf_event_paranoid {level}"))
}

/// Judges the scheduler clocks, which exist with CONFIG_SCHED_INFO. A process that has just started can find its own
/// clocks at 0 for two reasons:
///
/// - Before Linux 5.14, the clocks do not advance without delay accounting (`nodelayacct`).
/// - Ticks and context switches update the clocks. On a CPU without a tick (nohz_full), neither may have happened yet. The
///   clocks then lag; they are correct as soon as the thread is switched out.
pub(super) fn task_schedstat(facts: &Facts) -> Available {
    const FILE: &str = "/proc/PID/task/TID/schedstat";
    let needs_delayacct = !facts.release.is_at_least(5, 14);
    match facts.schedstat {
        Some(stat) if stat.run_ns > 0 => Available::yes(FILE),
        Some(_) if needs_delayacct && facts.nodelayacct != Some(false) => Available::no(
            "the clocks in /proc/PID/schedstat stand still (booted with nodelayacct)",
            "boot without nodelayacct, or use --backend bpf or perf",
        ),
        Some(_) => match facts.nohz_full.as_ref().filter(|cpus| !cpus.is_empty()) {
            Some(cpus) => Available::yes(format!(
                "{FILE}; on CPUs {cpus} (nohz_full) its clocks lag until the thread is switched out"
            )),
            None => Available::yes(format!("{FILE}; its clocks lag until a tick or a switch-out updates them")),
        },
        None => off(
            facts,
            "SCHED_INFO",
            "there is no /proc/PID/schedstat",
            "use --backend bpf or perf, or a kernel that provides this file",
        ),
    }
}

pub(super) fn sched_statistics(facts: &Facts) -> Available {
    match facts.schedstats_sysctl {
        Some(0) => Available::no(
            "kernel.sched_schedstats is 0",
            "sudo sysctl kernel.sched_schedstats=1 (costs a little on every switch)",
        ),
        Some(_) => Available::yes("kernel.sched_schedstats is 1"),
        None => off(
            facts,
            "SCHEDSTATS",
            "there is no sysctl kernel.sched_schedstats",
            "cox does not need this sysctl, because it measures the waits itself",
        ),
    }
}

pub(super) fn nohz_full(facts: &Facts) -> Available {
    match &facts.nohz_full {
        Some(cpus) if !cpus.is_empty() => Available::yes(format!("CPUs {cpus} run without a tick")),
        // The kernel has the file /sys/devices/system/cpu/nohz_full only if the option is set. If the configuration is
        // unknown, the existing file shows that the option is set.
        Some(_) if facts.config.as_ref().is_none_or(|config| config.is_set("NO_HZ_FULL")) => Available::no(
            "the kernel supports it, but it was not enabled at boot",
            "boot with nohz_full=LIST for the CPUs that compute",
        ),
        _ => off(
            facts,
            "NO_HZ_FULL",
            "there is no /sys/devices/system/cpu/nohz_full",
            "to remove the tick, use a kernel that provides this file",
        ),
    }
}

/// Judges whether sched_ext can be used. It is part of the kernel since Linux 6.12.
pub(super) fn sched_ext(facts: &Facts) -> Available {
    let Some(state) = &facts.sched_ext_state else {
        let without = "packing uses affinity masks instead of sched_ext";
        if !facts.release.is_at_least(6, 12) {
            return Available::no(
                format!("Linux {} is older than 6.12", facts.release),
                format!("{without}; Linux 6.12 and later can have sched_ext"),
            );
        }
        return off(facts, "SCHED_CLASS_EXT", "there is no /sys/kernel/sched_ext", without);
    };
    match lacks_bpf_capabilities(facts) {
        Some(refusal) => refusal,
        None => Available::yes(format!("now {state}")),
    }
}

pub(super) fn hardware_counters(facts: &Facts) -> Available {
    if facts.core_counters.is_empty() {
        return Available::no(
            "the kernel found no hardware counters in this processor (a virtual machine?)",
            "ask the host for a virtual PMU; cox does not need it yet",
        );
    }
    match own_threads_by_perf(facts) {
        Available::Yes { how } => Available::yes(format!("{}; {how}", facts.core_counters.join(", "))),
        other => other,
    }
}

pub(super) fn cgroups(facts: &Facts) -> Available {
    let cpu = facts.cgroups.of_controller("cpu").next();
    let at = |hierarchy: &Hierarchy| {
        let version = match hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        };
        format!("cpu controller in version {version} at {}", hierarchy.mount_point.display())
    };
    match (facts.cgroups.mode(), cpu) {
        (Mode::Absent, _) => Available::no(
            "no cgroup file system is mounted",
            "mount -t cgroup2 none /sys/fs/cgroup; without it CPU quotas are not seen",
        ),
        (_, None) => Available::no(
            "mounted, but without the cpu controller",
            "cox cannot see the CPU quotas of this process from here; the option --cgroup can still be used",
        ),
        (Mode::Hybrid, Some(cpu)) => Available::yes(format!("hybrid: {}", at(cpu))),
        (Mode::V1 | Mode::V2, Some(cpu)) => Available::yes(at(cpu)),
    }
}

/// Judges whether pressure stall information can be read. /proc/pressure exists since Linux 4.20, unless it was switched off at boot.
pub(super) fn psi(facts: &Facts) -> Available {
    if facts.psi {
        return Available::yes("/proc/pressure");
    }
    if facts.config.as_ref().is_some_and(|config| config.is_set("PSI_DEFAULT_DISABLED")) {
        return Available::no("switched off by default (CONFIG_PSI_DEFAULT_DISABLED)", "boot with psi=1");
    }
    off(
        facts,
        "PSI",
        "there is no /proc/pressure",
        "boot a kernel that provides it, with psi=1; cox does not need it yet",
    )
}

/// Judges whether ULPs can be switched in user space. Syscall user dispatch exists since Linux 5.11. A seccomp filter may refuse it.
pub(super) fn ulp_carriers(facts: &Facts) -> Available {
    /// Mappings of a ULP with libc alone, as measured: 21.0, with the page of its entries and the changed code of libc.
    const MAPS: u64 = 21;
    const WITHOUT: &str = "cox ulp works without, but a yield costs as much as between processes";
    if !facts.release.is_at_least(5, 11) {
        return Available::no(
            format!("Linux {} is older than 5.11, so it has no syscall user dispatch", facts.release),
            format!("use a newer kernel; {WITHOUT}"),
        );
    }
    if !facts.user_fs_base {
        return Available::no(
            "the processor or the kernel does not let programs set the FS base (FSGSBASE)",
            format!(
                "an Intel processor since Ivy Bridge or an AMD one since Excavator, and no nofsgsbase on the kernel's command line; {WITHOUT}"
            ),
        );
    }
    let limit = facts.max_map_count.map_or(String::new(), |maps| {
        format!("; vm.max_map_count {maps}: about {} ULPs in one address space", maps / MAPS)
    });
    Available::yes(format!("syscall user dispatch, FSGSBASE{limit}"))
}

/// Returns the verdict for a missing feature that depends on the kernel option `option`. The configuration tells
/// whether the kernel lacks the option or something else hides the feature.
fn off(facts: &Facts, option: &str, missing: &str, fix: &str) -> Available {
    match &facts.config {
        Some(config) if config.is_set(option) => {
            Available::no(format!("{missing} although CONFIG_{option} is set (hidden by a container?)"), fix)
        }
        Some(_) => Available::no(format!("CONFIG_{option} is not set"), fix),
        None => Available::no(
            format!("{missing}; whether CONFIG_{option} is set is unknown (no kernel configuration found)"),
            fix,
        ),
    }
}

/// Returns whether the process has the capability, or CAP_SYS_ADMIN (which includes BPF and PERFMON), with effect on
/// the whole machine.
fn may(facts: &Facts, capability: u32) -> bool {
    facts.initial_user_namespace && (facts.effective.has(capability) || facts.effective.has(Capabilities::SYS_ADMIN))
}

/// Returns the verdict if capabilities for BPF are missing, with the fix that is possible here; `None` if none is
/// missing.
fn lacks_bpf_capabilities(facts: &Facts) -> Option<Available> {
    let missing: Vec<&(u32, &str)> =
        BPF_CAPABILITIES.iter().filter(|(capability, _)| !may(facts, *capability)).collect();
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|(_, name)| *name).collect();
    let needs = format!("needs {}", names.join(" and "));
    if !facts.initial_user_namespace {
        return Some(Available::no(
            format!("{needs} on the host; this is a user namespace (rootless container)"),
            format!("run cox on the host, or {OTHER_BACKEND}"),
        ));
    }
    let withheld = missing
        .iter()
        .any(|(capability, _)| !facts.bounding.has(*capability) && !facts.bounding.has(Capabilities::SYS_ADMIN));
    let reason = if facts.euid == 0 {
        format!("{needs}, which root does not have here (a container drops them)")
    } else {
        format!("{needs} (running as uid {})", facts.euid)
    };
    let fix = if withheld {
        "start the container with --cap-add BPF --cap-add PERFMON".to_owned()
    } else if facts.no_new_privileges {
        "start cox as root: no_new_privs is set, so file capabilities and sudo have no effect here".to_owned()
    } else {
        "sudo make install, which gives them to cox-observe (cox explain doctor)".to_owned()
    };
    Some(Available::no(reason, format!("{fix}; or {OTHER_BACKEND}")))
}
