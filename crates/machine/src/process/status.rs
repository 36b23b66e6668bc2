//! /proc/PID/status: one `Name:\tvalue` per line.

use crate::cpulist::CpuSet;

/// A set of capabilities, as the kernel's bit mask; capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Allows system administration, and everything that BPF and PERFMON allow. Linux 5.8 introduced BPF and PERFMON;
    /// before, only SYS_ADMIN allowed these operations.
    pub const SYS_ADMIN: u32 = 21;
    /// Allows raising resource limits.
    pub const SYS_RESOURCE: u32 = 24;
    /// Allows performance monitoring (Linux 5.8).
    pub const PERFMON: u32 = 38;
    /// Allows privileged BPF operations (Linux 5.8).
    pub const BPF: u32 = 39;

    /// Returns whether the set contains the capability with this number (include/uapi/linux/capability.h).
    #[must_use]
    pub fn has(self, capability: u32) -> bool {
        self.0.checked_shr(capability).is_some_and(|bits| bits & 1 == 1)
    }
}

/// Context switches since the thread was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// Switches because the thread blocked.
    pub voluntary: u64,
    /// Switches although the thread could have continued.
    pub involuntary: u64,
}

/// The lines of `status` that cox uses; proc_pid_status(5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Status {
    /// Process id.
    pub tgid: u32,
    /// User ids: real, effective, saved, file system.
    pub uids: [u32; 4],
    /// Group ids: real, effective, saved, file system.
    pub gids: [u32; 4],
    /// Affinity mask: the CPUs that the scheduler may use for the task, including offline ones.
    pub allowed_cpus: CpuSet,
    /// Effective capabilities.
    pub effective: Capabilities,
    /// Bounding set: the capabilities that an exec can give at most. Containers restrict it.
    pub bounding: Capabilities,
    /// Whether an exec gives no new privilege: file capabilities and set-user-id have no effect.
    pub no_new_privileges: bool,
    /// Whether a seccomp filter examines the system calls (containers, sandboxes).
    pub seccomp_filter: bool,
}

/// Returns the value of a line. Searches from the end: if the command name contains a newline, it could imitate a line
/// near the beginning.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Reads only the context switches.
pub(super) fn switches(text: &str) -> Option<Switches> {
    let number = |name: &str| value(text, name)?.parse().ok();
    Some(Switches { voluntary: number("voluntary_ctxt_switches")?, involuntary: number("nonvoluntary_ctxt_switches")? })
}

/// Parses a status text. If the kernel does not print a line, its field keeps the default value. Only the process id
/// is required, because every kernel prints it.
pub(super) fn parse(text: &str) -> Result<Status, String> {
    let value = |name: &str| value(text, name);
    let wrong = |name: &str, value: &str| format!("{name}: {value:?} does not have the form that proc(5) describes");
    let number = |name: &str| match value(name) {
        None => Ok(0),
        Some(text) => text.parse::<u64>().map_err(|_| wrong(name, text)),
    };
    let mask = |name: &str| match value(name) {
        None => Ok(Capabilities::default()),
        Some(text) => u64::from_str_radix(text, 16).map(Capabilities).map_err(|_| wrong(name, text)),
    };
    let tgid = value("Tgid").ok_or("the line Tgid is missing")?;
    let four = |name: &str| match value(name) {
        None => Ok([0; 4]),
        Some(text) => {
            let ids = text.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>();
            ids.ok().and_then(|ids| ids.try_into().ok()).ok_or_else(|| wrong(name, text))
        }
    };
    let allowed = value("Cpus_allowed_list").unwrap_or_default();
    Ok(Status {
        tgid: tgid.parse().map_err(|_| wrong("Tgid", tgid))?,
        uids: four("Uid")?,
        gids: four("Gid")?,
        allowed_cpus: allowed.parse().map_err(|error| format!("Cpus_allowed_list: {error}"))?,
        effective: mask("CapEff")?,
        bounding: mask("CapBnd")?,
        no_new_privileges: number("NoNewPrivs")? != 0,
        // Mode 1 (strict) is not checked: a process in strict mode could not have read this file.
        seccomp_filter: number("Seccomp")? == 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tPid: 9\nState:\tS (sleeping)\nTgid:\t4711\nPid:\t4712\nUid:\t1000\t1001\t1000\t1000\nGid:\t100\t101\t102\t103\nRssAnon:\t       4 kB\nRssFile:\t     896 kB\nThreads:\t3\nCapEff:\t000000c001200000\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t5\nCpus_allowed:\tf0f\nCpus_allowed_list:\t0-3,8-11\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";

    #[test]
    fn reads_the_documented_lines() {
        let status = parse(STATUS).expect("well formed");
        assert_eq!(status.tgid, 4711);
        assert_eq!(status.uids, [1000, 1001, 1000, 1000]);
        assert_eq!(status.gids, [100, 101, 102, 103]);
        assert_eq!(switches(STATUS), Some(Switches { voluntary: 12, involuntary: 7 }));
        assert_eq!(status.allowed_cpus.to_string(), "0-3,8-11");
        assert!(status.no_new_privileges && status.seccomp_filter);
    }

    #[test]
    fn switch_counts_are_not_taken_from_a_name() {
        let status =
            "Name:\tx\nvoluntary_ctxt_switches:\t99\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches(status), Some(Switches { voluntary: 5, involuntary: 7 }));
        assert_eq!(switches("voluntary_ctxt_switches:\t5\n"), None);
    }

    #[test]
    fn capability_bits_have_their_kernel_numbers() {
        let status = parse(STATUS).expect("well formed");
        for capability in
            [Capabilities::BPF, Capabilities::PERFMON, Capabilities::SYS_RESOURCE, Capabilities::SYS_ADMIN]
        {
            assert!(status.effective.has(capability), "capability {capability}");
        }
        assert!(!status.effective.has(0) && !status.effective.has(40));
        assert!(!Capabilities(u64::MAX).has(64));
    }

    #[test]
    fn old_kernels_print_fewer_lines_but_always_ids() {
        let status = parse("Tgid:\t1\nPid:\t1\n").expect("enough");
        assert!(!status.seccomp_filter && status.allowed_cpus.is_empty());
        assert_eq!(parse("Pid:\t1\n").expect_err("no Tgid"), "the line Tgid is missing");
    }

    #[test]
    fn malformed_values_are_named() {
        let error = parse("Tgid:\t1\nSeccomp:\tmany\n").expect_err("no number");
        assert_eq!(error, "Seccomp: \"many\" does not have the form that proc(5) describes");
        let error = parse("Tgid:\t1\nPid:\t1\nCpus_allowed_list:\t3-1\n").expect_err("no list");
        assert!(error.starts_with("Cpus_allowed_list: invalid CPU range \"3-1\""), "{error}");
        assert!(parse("Tgid:\t-1\nPid:\t1\n").is_err());
        assert!(parse("Tgid:\t1\nPid:\t1\nUid:\t0\n").is_err());
    }
}
