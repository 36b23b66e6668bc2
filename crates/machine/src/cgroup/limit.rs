//! The limits that a cgroup and its ancestors set: CPU time per period, and CPUs.

use std::path::PathBuf;

use super::{Cgroup, Version};
use crate::cpulist::CpuSet;
use crate::error::Error;
use crate::root::{Root, present};

/// CPU time allowed per period (CFS bandwidth control).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// CPU time allowed in each period, microseconds.
    pub quota_us: u64,
    /// Length of the period, microseconds.
    pub period_us: u64,
    /// Folder of the cgroup that sets the quota.
    pub cgroup: PathBuf,
}

impl CpuQuota {
    /// Returns `quota_us ÷ period_us`: how many CPUs the quota allows to use all the time.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// Returns whether this quota allows fewer CPUs than `other`. Compares the ratios quota ÷ period without rounding.
    fn is_tighter_than(&self, other: &Self) -> bool {
        u128::from(self.quota_us) * u128::from(other.period_us)
            < u128::from(other.quota_us) * u128::from(self.period_us)
    }
}

/// Throttling of a cgroup by its quota: counts and time since the cgroup was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThrottleCounts {
    /// Periods in which the quota ran out.
    pub throttled_periods: u64,
    /// Time for which the cgroup's run queues were throttled, nanoseconds, **summed over CPUs**. It can exceed wall
    /// time. A throttled queue counts once, no matter how many threads wait in it.
    pub throttled_ns: u64,
}

impl ThrottleCounts {
    /// Returns the increase since an `earlier` reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            throttled_periods: self.throttled_periods.saturating_sub(earlier.throttled_periods),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
        }
    }
}

/// Throttle counts of a cgroup, or of one of its ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttling {
    /// Folder of the cgroup.
    pub cgroup: PathBuf,
    /// Throttle counts of the cgroup.
    pub counts: ThrottleCounts,
}

/// Returns the cgroup of `levels` (a cgroup and its ancestors) that was throttled for the longest time; `None` if none
/// was throttled. Several of them may be throttled at the same time, so the counts of one are a lower bound of what a
/// process lost.
#[must_use]
pub fn most_throttled(levels: &[Throttling]) -> Option<&Throttling> {
    levels
        .iter()
        .filter(|level| level.counts.throttled_ns > 0 || level.counts.throttled_periods > 0)
        .max_by_key(|level| (level.counts.throttled_ns, level.counts.throttled_periods))
}

impl Cgroup {
    /// Returns the tightest CPU quota of this cgroup and its ancestors; `None` if none of them sets a quota. Meaningful
    /// only for the cgroup of the `cpu` controller.
    ///
    /// # Errors
    /// When a quota file exists and cannot be read or is malformed.
    pub fn cpu_quota(&self, root: &Root) -> Result<Option<CpuQuota>, Error> {
        let mut tightest: Option<CpuQuota> = None;
        for folder in self.lineage() {
            let limit = match self.version {
                Version::V2 => quota_v2(root, folder.join("cpu.max"))?,
                Version::V1 => quota_v1(root, folder)?,
            };
            let Some((quota_us, period_us)) = limit else { continue };
            let quota = CpuQuota { quota_us, period_us, cgroup: folder.to_owned() };
            if tightest.as_ref().is_none_or(|tightest| quota.is_tighter_than(tightest)) {
                tightest = Some(quota);
            }
        }
        Ok(tightest)
    }

    /// Returns the throttle counts of this cgroup and its ancestors, its own first. Cgroups without counts are left
    /// out. Meaningful only for the cgroup of the `cpu` controller.
    ///
    /// # Errors
    /// When a `cpu.stat` exists and cannot be read or is malformed.
    pub fn throttling(&self, root: &Root) -> Result<Vec<Throttling>, Error> {
        let mut levels = Vec::new();
        for folder in self.lineage() {
            let path = folder.join("cpu.stat");
            let Some(text) = present(root.read_text(&path))? else { continue };
            let counts = parse_cpu_stat(&text)
                .map_err(|line| root.format_error(&path, format!("this line is not a name and a number: {line:?}")))?;
            if let Some(counts) = counts {
                levels.push(Throttling { cgroup: folder.to_owned(), counts });
            }
        }
        Ok(levels)
    }

    /// Returns the CPUs that the cgroup may use, as computed by the kernel; `None` if no cgroup restricts them.
    /// Meaningful only for the cgroup of the `cpuset` controller.
    ///
    /// # Errors
    /// When a file exists and cannot be read or is not a CPU list.
    pub fn cpuset(&self, root: &Root) -> Result<Option<CpuSet>, Error> {
        let names: &[&str] = match self.version {
            Version::V2 => &["cpuset.cpus.effective"],
            Version::V1 => &["cpuset.effective_cpus", "cpuset.cpus"],
        };
        // In version 2, a cgroup without the controller has no such file, and its ancestor's set applies.
        for folder in self.lineage() {
            for name in names {
                if let Some(cpus) = root.read_cpus_if_present(folder.join(name))?
                    && !cpus.is_empty()
                {
                    return Ok(Some(cpus));
                }
            }
        }
        Ok(None)
    }
}

/// Reads `cpu.max`: `QUOTA PERIOD` or `max PERIOD`, microseconds; cgroup-v2.rst.
fn quota_v2(root: &Root, path: PathBuf) -> Result<Option<(u64, u64)>, Error> {
    let Some(text) = present(root.read_text(&path))? else {
        return Ok(None);
    };
    parse_cpu_max(&text).ok_or_else(|| root.format_error(path, format!("{text:?} is not a quota and a period")))
}

fn parse_cpu_max(text: &str) -> Option<Option<(u64, u64)>> {
    let (quota, period) = text.split_once(' ')?;
    let period_us = period.parse().ok().filter(|&period_us: &u64| period_us > 0)?;
    if quota == "max" {
        return Some(None);
    }
    Some(Some((quota.parse().ok()?, period_us)))
}

/// Reads `cpu.cfs_quota_us` (-1: no quota) and `cpu.cfs_period_us`, microseconds; sched-bwc.rst.
fn quota_v1(root: &Root, folder: &std::path::Path) -> Result<Option<(u64, u64)>, Error> {
    let quota: Option<i64> = present(root.read_number(folder.join("cpu.cfs_quota_us")))?;
    let period: Option<u64> = present(root.read_number(folder.join("cpu.cfs_period_us")))?;
    let quota_us = quota.and_then(|quota| u64::try_from(quota).ok());
    Ok(quota_us.zip(period.filter(|&period_us| period_us > 0)))
}

/// Reads `name number` lines; `None` if the cgroup counts no throttling (the root). Version 1 gives nanoseconds
/// (`throttled_time`), version 2 microseconds (`throttled_usec`).
fn parse_cpu_stat(text: &str) -> Result<Option<ThrottleCounts>, String> {
    let mut counts = ThrottleCounts::default();
    let mut counted = false;
    for line in text.lines() {
        let Some((name, number)) = line.split_once(' ') else {
            return Err(line.to_owned());
        };
        let number = || number.trim().parse::<u64>().map_err(|_| line.to_owned());
        match name {
            "nr_periods" => counted = number().map(|_| true)?,
            "nr_throttled" => counts.throttled_periods = number()?,
            "throttled_time" => counts.throttled_ns = number()?,
            "throttled_usec" => counts.throttled_ns = number()?.saturating_mul(1000),
            _ => {}
        }
    }
    Ok(counted.then_some(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_max_forms() {
        assert_eq!(parse_cpu_max("max 100000"), Some(None));
        assert_eq!(parse_cpu_max("150000 100000"), Some(Some((150_000, 100_000))));
        for text in ["", "max", "1 0", "x 1", "-1 100000"] {
            assert_eq!(parse_cpu_max(text), None, "{text:?}");
        }
    }

    #[test]
    fn cpu_stat_of_both_versions_is_in_nanoseconds() {
        let expected = ThrottleCounts { throttled_periods: 12, throttled_ns: 3_000_000 };
        let v1 = "nr_periods 90\nnr_throttled 12\nthrottled_time 3000000\n";
        let v2 = "usage_usec 5\nuser_usec 4\nsystem_usec 1\nnr_periods 90\nnr_throttled 12\nthrottled_usec 3000";
        assert_eq!(parse_cpu_stat(v1), Ok(Some(expected)));
        assert_eq!(parse_cpu_stat(v2), Ok(Some(expected)));
        assert_eq!(parse_cpu_stat("usage_usec 5\n"), Ok(None));
        assert_eq!(parse_cpu_stat("nr_periods x"), Err("nr_periods x".to_owned()));
        assert_eq!(parse_cpu_stat("word"), Err("word".to_owned()));
    }

    #[test]
    fn the_longest_and_differences() {
        let level = |throttled_ns| Throttling {
            cgroup: "/c".into(),
            counts: ThrottleCounts { throttled_periods: 2, throttled_ns },
        };
        let levels = [level(5), level(9), level(7)];
        assert_eq!(most_throttled(&levels), Some(&levels[1]));
        let added = levels[1].counts.since(ThrottleCounts { throttled_periods: 3, throttled_ns: 8 });
        assert_eq!((added.throttled_periods, added.throttled_ns), (0, 1));
        let calm = Throttling { cgroup: "/c".into(), counts: ThrottleCounts::default() };
        assert_eq!(most_throttled(&[calm]), None);
    }

    #[test]
    fn ratios_are_compared_not_quotas() {
        let quota = |quota_us, period_us| CpuQuota { quota_us, period_us, cgroup: PathBuf::from("/c") };
        assert!(quota(50_000, 100_000).is_tighter_than(&quota(10_000, 10_000)));
        assert!(!quota(10_000, 10_000).is_tighter_than(&quota(50_000, 100_000)));
        assert!((quota(150_000, 100_000).cpus() - 1.5).abs() < 1e-12);
    }
}
