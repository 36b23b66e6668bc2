//! The facts that the feature rules need, read once.

use std::path::Path;

use super::kernel::{KernelConfig, Release};
use crate::cgroup::Hierarchies;
use crate::cpulist::CpuSet;
use crate::error::Error;
use crate::process::{Capabilities, SchedStat, Task};
use crate::root::{Root, present};

const BTF: &str = "/sys/kernel/btf/vmlinux";
const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// A BPF helper that the `bpf` backend requires. If the kernel's type information (BTF) names it, the kernel has it.
/// This is more reliable than the release number: Red Hat's 5.14 has the helper.
const NEEDED_BPF_HELPER: &[u8] = b"\0BPF_FUNC_task_pt_regs\0";

/// Everything that [`evaluate`](super::evaluate) examines.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Facts {
    /// The kernel release.
    pub release: Release,
    /// The kernel configuration, if it can be found.
    pub config: Option<KernelConfig>,
    /// Effective user id of this process.
    pub euid: u32,
    /// Effective capabilities of this process.
    pub effective: Capabilities,
    /// Capabilities that this process can get by an exec.
    pub bounding: Capabilities,
    /// Whether an exec gives this process no new privilege.
    pub no_new_privileges: bool,
    /// Whether a seccomp filter examines the system calls of this process.
    pub seccomp_filter: bool,
    /// Whether capabilities are valid for the whole machine, not only inside a user namespace.
    pub initial_user_namespace: bool,
    /// Soft limit RLIMIT_MEMLOCK, bytes; `u64::MAX` if unlimited.
    pub memlock_bytes: u64,
    /// Whether the kernel shows its type information (BTF).
    pub btf: bool,
    /// Whether the kernel's BTF names the helpers that cox needs. Examined only if the kernel release alone does not
    /// show that the kernel has them.
    pub bpf_backported: bool,
    /// Whether kernel lockdown is in confidentiality mode.
    pub lockdown_confidentiality: bool,
    /// `kernel.perf_event_paranoid`; `None` if the kernel has no perf events.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.perf_event_max_sample_rate`, samples per second.
    pub perf_max_sample_rate_hz: Option<u64>,
    /// Scheduler clocks of this process; `None` if the kernel has no /proc/PID/schedstat.
    pub schedstat: Option<SchedStat>,
    /// Whether the kernel was booted with `nodelayacct`; `None` if its command line cannot be read.
    pub nodelayacct: Option<bool>,
    /// `kernel.sched_schedstats`; `None` if the kernel has no such sysctl.
    pub schedstats_sysctl: Option<u32>,
    /// CPUs in nohz_full mode; `None` if the kernel does not support it.
    pub nohz_full: Option<CpuSet>,
    /// State of sched_ext; `None` if the kernel does not have it.
    pub sched_ext_state: Option<String>,
    /// Names of the perf event sources that count events of CPU cores.
    pub core_counters: Vec<String>,
    /// Mounted cgroup hierarchies.
    pub cgroups: Hierarchies,
    /// Whether the kernel keeps pressure stall information.
    pub psi: bool,
    /// Whether programs may set the FS base (HWCAP2_FSGSBASE of the auxiliary vector).
    pub user_fs_base: bool,
    /// `vm.max_map_count`: how many mappings an address space may have.
    pub max_map_count: Option<u64>,
}

impl Facts {
    /// Reads the facts.
    ///
    /// # Errors
    /// When the kernel release or the status of this process cannot be read, or an existing file is malformed. A file
    /// that this user may not read counts as missing.
    pub fn read(root: &Root) -> Result<Self, Error> {
        const RELEASE: &str = "/proc/sys/kernel/osrelease";
        let text = root.read_text(RELEASE)?;
        let release = Release::parse(&text)
            .ok_or_else(|| root.format_error(RELEASE, format!("{text:?} is not a kernel release")))?;
        let config = visible(KernelConfig::read(root, &release))?.flatten();
        let own = Task::own(root);
        let status = own.status()?;
        let btf = root.exists(BTF);
        let bpf_backported = btf
            && !release.has_task_registers()
            && visible(root.read(BTF))?
                .is_some_and(|types| types.windows(NEEDED_BPF_HELPER.len()).any(|name| name == NEEDED_BPF_HELPER));
        let lockdown = visible(root.read_text("/sys/kernel/security/lockdown"))?;
        Ok(Self {
            release,
            config,
            euid: status.uids[1],
            effective: status.effective,
            bounding: status.bounding,
            no_new_privileges: status.no_new_privileges,
            seccomp_filter: status.seccomp_filter,
            initial_user_namespace: visible(root.read_text("/proc/self/uid_map"))?.is_none_or(|map| is_identity(&map)),
            memlock_bytes: visible(root.read_text("/proc/self/limits"))?
                .and_then(|limits| memlock_bytes(&limits))
                .unwrap_or(u64::MAX),
            btf,
            bpf_backported,
            lockdown_confidentiality: lockdown.is_some_and(|modes| modes.contains("[confidentiality]")),
            perf_event_paranoid: present(root.read_number("/proc/sys/kernel/perf_event_paranoid"))?,
            perf_max_sample_rate_hz: present(root.read_number("/proc/sys/kernel/perf_event_max_sample_rate"))?,
            schedstat: present(own.schedstat())?,
            nodelayacct: visible(root.read_text("/proc/cmdline"))?
                .map(|line| line.split_ascii_whitespace().any(|word| word == "nodelayacct")),
            schedstats_sysctl: present(root.read_number("/proc/sys/kernel/sched_schedstats"))?,
            nohz_full: nohz_full(root)?,
            sched_ext_state: visible(root.read_text("/sys/kernel/sched_ext/state"))?,
            core_counters: core_counters(root)?,
            cgroups: visible(Hierarchies::read(root))?.unwrap_or_default(),
            psi: root.exists("/proc/pressure/cpu"),
            user_fs_base: visible(root.read("/proc/self/auxv"))?.is_some_and(|vector| has_user_fs_base(&vector)),
            max_map_count: visible(root.read_number("/proc/sys/vm/max_map_count"))?,
        })
    }
}

/// Turns errors for missing and for unreadable files into `None`.
fn visible<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(error) if error.is_denied() => Ok(None),
        other => present(other),
    }
}

/// Returns whether an id map is that of the initial user namespace, which maps every id to itself; user_namespaces(7).
fn is_identity(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns the soft limit in a line such as `Max locked memory   8388608   8388608   bytes`.
fn memlock_bytes(limits: &str) -> Option<u64> {
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?.split_ascii_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// Returns whether an auxiliary vector says that programs may set the FS base. (AT_HWCAP2 of the kernel's linux/auxvec.h; HWCAP2_FSGSBASE of
/// asm/hwcap2.h on x86.)
fn has_user_fs_base(vector: &[u8]) -> bool {
    const HWCAP2: u64 = 26;
    const FSGSBASE: u64 = 2;
    let words: Vec<u64> =
        vector.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())).collect();
    words.chunks_exact(2).any(|entry| entry[0] == HWCAP2 && entry[1] & FSGSBASE != 0)
}

/// Reads the nohz_full CPUs. If the kernel supports nohz_full but was booted without it, the file contains an empty
/// line or `(null)`.
fn nohz_full(root: &Root) -> Result<Option<CpuSet>, Error> {
    const PATH: &str = "/sys/devices/system/cpu/nohz_full";
    match present(root.read_text(PATH))? {
        Some(text) if text.trim() == "(null)" => Ok(Some(CpuSet::new())),
        _ => root.read_cpus_if_present(PATH),
    }
}

/// Returns the perf event sources of CPU cores: `cpu` (x86, POWER), `cpum_cf` (s390), and sources that list their CPUs
/// (hybrid x86, ARM).
fn core_counters(root: &Root) -> Result<Vec<String>, Error> {
    let mut names = present(root.list(EVENT_SOURCES))?.unwrap_or_default();
    names.retain(|name| {
        name == "cpu" || name == "cpum_cf" || root.exists(Path::new(EVENT_SOURCES).join(name).join("cpus"))
    });
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_taken() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \nMax processes             5                    5                    processes \nMax locked memory         65536                8388608              bytes     \n";
        assert_eq!(memlock_bytes(limits), Some(65_536));
        assert_eq!(memlock_bytes("Max locked memory unlimited unlimited bytes"), Some(u64::MAX));
        assert_eq!(memlock_bytes("nothing"), None);
    }

    #[test]
    fn only_the_whole_identity_map_is_initial() {
        assert!(is_identity("         0          0 4294967295\n"));
        assert!(!is_identity("         0       1000          1\n"));
        assert!(!is_identity("0 100000 65536\n"));
        assert!(!is_identity("0 1000 1\n1 100000 65536\n"));
    }
}
