//! How long each CPU has been busy and idle, from /proc/stat.
//!
//! Definitions: proc_stat(5); kernel/sched/cputime.c. On kernels without precise accounting, the kernel samples at each
//! tick, so differences of a few ticks are not significant.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::process::{ticks_per_s, ticks_to_ns};
use crate::root::Root;

const STAT: &str = "/proc/stat";

/// Columns of the times in which the CPU ran code of this machine: user, nice, system, irq, softirq. The others are
/// idle, iowait and steal, the time in which a virtual CPU was ready to run and the hypervisor ran something else.
/// Guest time is included in user and nice.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
const IDLE: [usize; 2] = [3, 4];
const STEAL: [usize; 1] = [7];

/// Times of a CPU since boot, ns at a resolution of one USER_HZ tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time in which the CPU ran code of this machine.
    pub busy_ns: u64,
    /// Time in which the CPU had nothing to run.
    pub idle_ns: u64,
    /// Time in which the CPU had something to run, and the hypervisor ran something else.
    pub steal_ns: u64,
}

/// Returns how long each online CPU has been busy since boot, nanoseconds at a resolution of one USER_HZ tick, by the
/// kernel's CPU number. Time in which the hypervisor ran something else (steal) is not included.
///
/// # Errors
/// When the file cannot be read, or a CPU line is not a row of numbers.
pub fn busy_ns(root: &Root) -> Result<BTreeMap<u32, u64>, Error> {
    Ok(times(root)?.into_iter().map(|(cpu, times)| (cpu, times.busy_ns)).collect())
}

/// Returns the times of each online CPU, by the kernel's CPU number.
///
/// # Errors
/// When the file cannot be read, or a CPU line is not a row of numbers.
pub fn times(root: &Root) -> Result<BTreeMap<u32, Times>, Error> {
    let text = root.read_text(STAT)?;
    parse(&text, ticks_per_s()).map_err(|line| root.format_error(STAT, format!("not a row of CPU times: {line:?}")))
}

/// Reads the lines `cpuN …`. The error is the malformed line.
fn parse(text: &str, ticks_per_s: u64) -> Result<BTreeMap<u32, Times>, String> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        // The line "cpu" is the sum of the other lines.
        let number = fields.next().and_then(|name| name.strip_prefix("cpu")).filter(|number| !number.is_empty());
        let Some(number) = number else { continue };
        let cpu = number.parse().map_err(|_| line.to_owned())?;
        let columns: Result<Vec<u64>, _> = fields.map(str::parse).collect();
        let columns = columns.map_err(|_| line.to_owned())?;
        // Old kernels print fewer columns. A missing column counts as zero.
        let sum_ns = |of: &[usize]| {
            let ticks =
                of.iter().filter_map(|at| columns.get(*at)).fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
            ticks_to_ns(ticks, ticks_per_s)
        };
        all.insert(cpu, Times { busy_ns: sum_ns(&BUSY), idle_ns: sum_ns(&IDLE), steal_ns: sum_ns(&STEAL) });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO_CPUS: &str = "cpu  12 0 6 100 4 1 2 40 3 0\ncpu0 5 1 2 60 3 1 0 30 3 0\ncpu11 7 0 4 40 1 0 2 10\nintr 5 0 1\nctxt 77\nbtime 1700000000\n";

    #[test]
    fn idle_iowait_and_steal_are_not_busy() {
        let times = |busy, idle, steal| {
            let [busy_ns, idle_ns, steal_ns] = [busy, idle, steal].map(|ms: u64| ms * 1_000_000);
            Times { busy_ns, idle_ns, steal_ns }
        };
        let two = BTreeMap::from([(0, times(90, 630, 300)), (11, times(130, 410, 100))]);
        assert_eq!(parse(TWO_CPUS, 100), Ok(two));
    }

    #[test]
    fn old_kernels_have_fewer_columns() {
        assert_eq!(
            parse("cpu0 1 2 3 4", 100),
            Ok(BTreeMap::from([(0, Times { busy_ns: 60_000_000, idle_ns: 40_000_000, steal_ns: 0 })]))
        );
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
    }
}
