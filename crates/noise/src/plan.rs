//! What is measured, where, and for how long.

use std::time::Duration;

use anyhow::{Result, bail};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use machine::{CpuSet, Root};

/// The loop that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Selfish detour: read the clock, and record gaps between two readings.
    Detour,
    /// Fixed work quanta: repeat the same work, and record how long it takes.
    Fwq(Work, Duration),
    /// Fixed time quanta: count the work that is done in each interval of an absolute grid.
    Ftq(Duration),
    /// Bulk-synchronous steps: the same work on each CPU, then a barrier.
    Bsp(Duration),
}

/// The work of a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A chain of integer multiplications.
    Integer,
    /// Fused multiply-adds on vectors.
    Fma,
    /// Reading and writing memory that does not fit into the first-level cache.
    Streaming,
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The loop.
    pub measuring: Loop,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Whether each thread stays on its CPU. Otherwise there are as many threads as CPUs, and each may use all of them.
    pub pinned: bool,
    /// Length of the measurement.
    pub length: Duration,
    /// How long the threads compute before it, so that the clock rate is that of a busy CPU.
    pub warm_up: Duration,
    /// The shortest detour that is recorded. `None`: eight times the smallest gap, and at least 100 ns.
    pub threshold: Option<Duration>,
    /// Number of detours that are recorded on each CPU.
    pub ring: usize,
    /// Whether to ask the kernel for causes.
    pub causes: bool,
    /// Tracepoints that are left out, by name.
    pub without: Vec<String>,
}

/// A detour of at least this length is above the second threshold, ns, unless the first one is higher. Counts above 10 µs vary by some percent between
/// measurements; those above 200 ns vary threefold.
pub const COARSE_NS: u64 = 10_000;
/// Memory for the lists of a CPU, bytes: it is touched and locked before the measurement.
const MOST_BYTES: u64 = 1 << 30;
/// The shortest quantum: the clock is read around each.
const SHORTEST_QUANTUM: Duration = Duration::from_micros(1);
/// The smallest threshold that is chosen for the user, ns.
pub const SMALLEST_THRESHOLD_NS: u64 = 100;
/// The threshold that is chosen for the user, in smallest gaps.
pub const GAPS: u64 = 8;

impl Plan {
    /// Refuses a plan that cannot be carried out here.
    ///
    /// # Errors
    /// What is wrong with it, in one sentence.
    pub fn check(&self) -> Result<()> {
        if self.cpus.is_empty() {
            bail!("the list of CPUs is empty");
        }
        let root = Root::live();
        let online = Topology::read_online(&root)?;
        let offline = self.cpus.difference(&online);
        if !offline.is_empty() {
            bail!("CPU {offline} is not online (online: {online})");
        }
        let allowed = allowed_cpus(&root, Who::Own)?;
        let forbidden = self.cpus.difference(&allowed);
        if !forbidden.is_empty() {
            bail!(
                "CPU {forbidden} is not among the CPUs that cox may use ({allowed}): taskset(1) or the cpuset excludes it"
            );
        }
        if self.length.is_zero() {
            bail!("the measurement needs a length above 0");
        }
        let quantum = match self.measuring {
            Loop::Detour => None,
            Loop::Fwq(_, quantum) | Loop::Ftq(quantum) | Loop::Bsp(quantum) => Some(quantum),
        };
        if quantum.is_some_and(|quantum| quantum.is_zero()) {
            bail!("the quantum needs a length above 0");
        }
        if quantum.is_some_and(|quantum| quantum < SHORTEST_QUANTUM) {
            bail!("the quantum needs {SHORTEST_QUANTUM:?} at least: the clock is read around each");
        }
        self.require_room()?;
        if let Some(name) = self.without.iter().find(|name| !watch::noise::TRACEPOINTS.contains(&name.as_str())) {
            bail!("--without {name}: not a tracepoint that cox uses ({})", watch::noise::TRACEPOINTS.join(", "));
        }
        if quantum.is_some_and(|quantum| quantum > self.length) {
            bail!("the quantum is longer than the measurement");
        }
        if let Loop::Ftq(quantum) = self.measuring
            && quantum.saturating_mul(2) > self.length
        {
            // The grid is absolute, so up to one quantum passes before the first whole one.
            bail!(
                "fixed time quanta need a measurement of two quanta at least (--for {:?})",
                quantum.saturating_mul(2)
            );
        }
        if matches!(self.measuring, Loop::Fwq(Work::Fma, _)) && !arch::measuring::has_fma() {
            bail!("this processor has no fused multiply-add; use --work integer");
        }
        Ok(())
    }

    /// Refuses lists that would take too much of the machine's memory.
    fn require_room(&self) -> Result<()> {
        // A detour is two readings of the clock. Quanta are listed as such, and their lengths again.
        let (quantum, bytes) = match self.measuring {
            Loop::Detour => {
                let most = MOST_BYTES / 16;
                if self.ring as u64 > most {
                    bail!("--ring {}: a list of more than {most} detours takes over 1 GiB for each CPU", self.ring);
                }
                return Ok(());
            }
            Loop::Fwq(_, quantum) => (quantum, 24),
            Loop::Ftq(quantum) => (quantum, 8),
            Loop::Bsp(quantum) => (quantum, 32),
        };
        let most = MOST_BYTES / bytes;
        if self.length.as_nanos() / quantum.as_nanos().max(1) > u128::from(most) {
            let shortest_us = (self.length.as_nanos() as u64).div_ceil(most).div_ceil(1_000);
            let longest_s = (quantum.as_nanos() as u64).saturating_mul(most) / 1_000_000_000;
            bail!(
                "the list of quanta takes over 1 GiB for each CPU: use --quantum {shortest_us}us or longer, or --for {longest_s}s or shorter"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(measuring: Loop, length_s: u64, ring: usize) -> Option<String> {
        let plan = Plan {
            measuring,
            cpus: allowed_cpus(&Root::live(), Who::Own).unwrap(),
            pinned: true,
            length: Duration::from_secs(length_s),
            warm_up: Duration::ZERO,
            threshold: None,
            ring,
            causes: false,
            without: Vec::new(),
        };
        plan.check().err().map(|error| error.to_string())
    }

    #[test]
    fn lists_that_do_not_fit_are_refused_with_what_fits() {
        let us = Duration::from_micros;
        assert_eq!(refused(Loop::Ftq(us(1)), 10, 1), None);
        let why = refused(Loop::Fwq(Work::Integer, us(1)), 3600, 1).unwrap();
        assert!(why.contains("--quantum 81us or longer") && why.contains("--for 44s or shorter"), "{why}");
        assert_eq!(refused(Loop::Fwq(Work::Integer, us(81)), 3600, 1), None);
        assert_eq!(refused(Loop::Fwq(Work::Integer, us(1)), 44, 1), None);
        let why = refused(Loop::Bsp(Duration::from_nanos(999)), 10, 1).unwrap();
        assert!(why.contains("needs 1µs at least"), "{why}");
        assert!(refused(Loop::Detour, 1, 1 << 30).unwrap().contains("--ring"));
        assert_eq!(refused(Loop::Detour, 1, 1 << 20), None);
    }
}
