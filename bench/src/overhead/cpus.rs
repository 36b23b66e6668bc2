//! Places the workload on one CPU and cox-bench on the others.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the highest CPU that this thread may use.
pub fn last_allowed_cpu() -> Result<usize> {
    let allowed = sched_getaffinity(None).context("cannot read the allowed CPUs")?;
    (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)).context("the affinity mask of this process is empty")
}

/// Keeps this thread, and the processes that it starts, off one CPU until the value is dropped.
pub struct Elsewhere {
    before: CpuSet,
}

impl Elsewhere {
    pub fn than(cpu: usize) -> Result<Elsewhere> {
        let before = sched_getaffinity(None).context("cannot read the allowed CPUs")?;
        let mut rest = before;
        rest.unset(cpu);
        if rest.count() > 0 {
            sched_setaffinity(None, &rest).context("cannot set an affinity mask without the workload's CPU")?;
        }
        Ok(Elsewhere { before })
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // This fails only if all CPUs of the old mask went offline meanwhile; the present mask then does no harm.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_affinity_is_put_back() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = last_allowed_cpu().unwrap();
        assert!(before.is_set(cpu));
        let elsewhere = Elsewhere::than(cpu).unwrap();
        assert!(before.count() == 1 || !sched_getaffinity(None).unwrap().is_set(cpu));
        drop(elsewhere);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
