//! Chooses the CPUs of a pack: a given list, or a number of the CPUs that the program may use.

use anyhow::{Context, Result, bail};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use machine::{CpuSet, Root};

use crate::cpus;

/// The request for CPUs: a list or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A list of CPUs.
    Named {
        /// The option that the list was given to, for messages.
        option: &'static str,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// A number of CPUs.
    Count(usize),
}

impl Wanted {
    /// Combines the options --cpus and --ncpus; --cpus has priority.
    ///
    /// # Errors
    /// Fails if neither is given.
    pub fn of(cpus: Option<CpuSet>, ncpus: Option<usize>) -> Result<Wanted> {
        let named = cpus.map(|cpus| Wanted::Named { option: "--cpus", cpus });
        named.or(ncpus.map(Wanted::Count)).context("give --cpus or --ncpus")
    }
}

/// The CPUs of the machine and those that a program may use.
pub struct CpuChoice {
    topology: Topology,
    allowed: CpuSet,
}

impl CpuChoice {
    /// Reads which CPUs `who` may use. Must be called before the program is packed: packing changes its masks.
    ///
    /// # Errors
    /// Fails if `who` does not exist, or the machine's topology cannot be read.
    pub fn of(who: Who) -> Result<CpuChoice> {
        let root = Root::live();
        let allowed = allowed_cpus(&root, who).context("reading which CPUs are allowed")?;
        let topology = Topology::read(&root).context("reading the machine's CPUs")?;
        Ok(CpuChoice { topology, allowed })
    }

    /// Returns the CPUs that fit the request.
    ///
    /// # Errors
    /// Fails if the program may not use one of the CPUs, or has too few of them.
    pub fn choose(&self, wanted: &Wanted) -> Result<CpuSet> {
        let allowed = &self.allowed;
        match wanted {
            Wanted::Named { option, cpus } => {
                let forbidden = cpus.difference(allowed);
                if !forbidden.is_empty() {
                    bail!("{option} {cpus}: the program may not use CPU {forbidden} (allowed: {allowed})");
                }
                Ok(cpus.clone())
            }
            Wanted::Count(count) => cpus::choose(&self.topology, allowed, *count).with_context(|| {
                format!("--ncpus {count}: the program may use {} CPUs (allowed: {allowed})", allowed.len())
            }),
        }
    }

    /// Returns the capacity of each CPU, relative to 1024.
    #[must_use]
    pub fn capacities(&self, cpus: &CpuSet) -> Vec<u64> {
        cpus::capacities(&self.topology, cpus)
    }
}
