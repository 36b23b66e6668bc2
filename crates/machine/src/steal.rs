//! The time of each CPU, divided by use, as the kernel shows it in /proc/stat. It includes hypervisor steal.
//!
//! Definitions (proc_stat(5); kernel/sched/cputime.c): *steal* is time in which a virtual CPU was ready to run and the
//! hypervisor ran something else. On kernels without precise accounting, the kernel samples at each tick, so
//! differences of a few ticks are not significant. Guest time is included in user and nice.

use crate::error::Error;
use crate::root::Root;

const STAT: &str = "/proc/stat";
const NS_PER_S: u64 = 1_000_000_000;

/// Accumulated time of one CPU since boot, in nanoseconds at a resolution of one USER_HZ tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CpuTime {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Time in user space at normal priority, guests included.
    pub user_ns: u64,
    /// Time in user space at lowered priority.
    pub nice_ns: u64,
    /// Time in kernel code that runs on behalf of threads.
    pub system_ns: u64,
    /// Idle time without a thread that waits for I/O.
    pub idle_ns: u64,
    /// Idle time while a thread that last ran on this CPU waited for I/O. Unreliable; may decrease.
    pub iowait_ns: u64,
    /// Hardware interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Time stolen by the hypervisor.
    pub steal_ns: u64,
}

impl CpuTime {
    /// Returns the increase since an `earlier` reading of the same CPU. A figure that decreased counts as zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu,
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            nice_ns: self.nice_ns.saturating_sub(earlier.nice_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            iowait_ns: self.iowait_ns.saturating_sub(earlier.iowait_ns),
            irq_ns: self.irq_ns.saturating_sub(earlier.irq_ns),
            softirq_ns: self.softirq_ns.saturating_sub(earlier.softirq_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
        }
    }

    /// Returns the time in which the CPU ran code of this machine, nanoseconds: all but idle, iowait and steal.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.user_ns + self.nice_ns + self.system_ns + self.irq_ns + self.softirq_ns
    }
}

/// One reading of /proc/stat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CpuTimes {
    /// The online CPUs, in the kernel's order (ascending).
    pub cpus: Vec<CpuTime>,
    /// Boot time in seconds since 1970 (CLOCK_REALTIME).
    pub boot_time_s: Option<u64>,
}

impl CpuTimes {
    /// Reads /proc/stat.
    ///
    /// # Errors
    /// When the file cannot be read, or a CPU line is not a row of numbers.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let text = root.read_text(STAT)?;
        parse(&text, crate::process::ticks_per_s())
            .map_err(|line| root.format_error(STAT, format!("not a row of CPU times: {line:?}")))
    }

    /// Returns the times of one CPU; `None` if that CPU is not listed.
    #[must_use]
    pub fn cpu(&self, cpu: u32) -> Option<&CpuTime> {
        self.cpus.iter().find(|times| times.cpu == cpu)
    }

    /// Returns the increase since an `earlier` reading, for the CPUs that are in both readings.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<CpuTime> {
        self.cpus.iter().filter_map(|now| Some(now.since(earlier.cpu(now.cpu)?))).collect()
    }
}

/// Reads the lines `cpuN …` and `btime …`. The error is the malformed line.
fn parse(text: &str, ticks_per_s: u64) -> Result<CpuTimes, String> {
    let mut times = CpuTimes::default();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(name) = fields.next() else { continue };
        if name == "btime" {
            times.boot_time_s = fields.next().and_then(|seconds| seconds.parse().ok());
        }
        // The line "cpu" is the sum of the other lines.
        let Some(number) = name.strip_prefix("cpu").filter(|number| !number.is_empty()) else {
            continue;
        };
        let cpu = number.parse().map_err(|_| line.to_owned())?;
        // Old kernels print fewer columns. A missing column counts as zero.
        let mut column = || match fields.next() {
            None => Ok(0),
            Some(ticks) => ticks.parse().map(|ticks: u64| ticks_to_ns(ticks, ticks_per_s)).map_err(|_| line.to_owned()),
        };
        times.cpus.push(CpuTime {
            cpu,
            user_ns: column()?,
            nice_ns: column()?,
            system_ns: column()?,
            idle_ns: column()?,
            iowait_ns: column()?,
            irq_ns: column()?,
            softirq_ns: column()?,
            steal_ns: column()?,
        });
    }
    Ok(times)
}

/// Converts clock ticks (USER_HZ) to nanoseconds; saturates instead of overflowing.
pub(crate) fn ticks_to_ns(ticks: u64, ticks_per_s: u64) -> u64 {
    let ns = u128::from(ticks) * u128::from(NS_PER_S) / u128::from(ticks_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO_CPUS: &str = "cpu  12 0 6 100 4 1 2 40 3 0\ncpu0 5 1 2 60 3 1 0 30 3 0\ncpu11 7 0 4 40 1 0 2 10\nintr 5 0 1\nctxt 77\nbtime 1700000000\n";

    #[test]
    fn columns_are_in_the_documented_order() {
        let times = parse(TWO_CPUS, 100).expect("well formed");
        let ms = 1_000_000;
        assert_eq!(times.boot_time_s, Some(1_700_000_000));
        assert_eq!(
            times.cpu(0),
            Some(&CpuTime {
                cpu: 0,
                user_ns: 50 * ms,
                nice_ns: 10 * ms,
                system_ns: 20 * ms,
                idle_ns: 600 * ms,
                iowait_ns: 30 * ms,
                irq_ns: 10 * ms,
                softirq_ns: 0,
                steal_ns: 300 * ms,
            })
        );
        assert_eq!(times.cpus[1].cpu, 11);
        assert_eq!(times.cpus[1].steal_ns, 100 * ms);
        assert_eq!(times.cpus[0].busy_ns(), 90 * ms);
    }

    #[test]
    fn old_kernels_have_fewer_columns() {
        let times = parse("cpu0 1 2 3 4", 100).expect("well formed");
        assert_eq!((times.cpus[0].idle_ns, times.cpus[0].steal_ns), (40_000_000, 0));
    }

    #[test]
    fn differences_never_go_below_zero_and_skip_new_cpus() {
        let earlier = parse("cpu0 5 0 0 9 9", 100).expect("well formed");
        let later = parse("cpu0 7 0 0 8 10\ncpu1 1 1 1 1", 100).expect("well formed");
        let added = later.since(&earlier);
        assert_eq!(added.len(), 1);
        assert_eq!(added[0].user_ns, 20_000_000);
        assert_eq!((added[0].idle_ns, added[0].iowait_ns), (0, 10_000_000));
    }

    #[test]
    fn a_line_that_is_no_row_of_numbers_is_named() {
        assert_eq!(parse("cpu0 1 x", 100), Err("cpu0 1 x".to_owned()));
        assert_eq!(parse("cpux 1 2", 100), Err("cpux 1 2".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(cpu[0-9]{0,3}( [0-9x]{1,25}){0,12}\n){0,4}") {
            let _times_or_line = parse(&text, 100);
        }

        #[test]
        fn ticks_are_whole_parts_of_a_second(ticks in 0u64..1 << 40) {
            prop_assert_eq!(ticks_to_ns(ticks, 100), ticks * 10_000_000);
        }
    }

    #[test]
    fn absurd_tick_counts_saturate() {
        assert_eq!(ticks_to_ns(u64::MAX, 100), u64::MAX);
    }
}
