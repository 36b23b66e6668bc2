//! The CPUs of a pack: named, or so many of those that the program may use.

use anyhow::{Context, Result, bail};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use machine::{CpuSet, Root};

use crate::cli::Cpus;

/// What there is to choose from.
pub struct Choice {
    topology: Topology,
    allowed: CpuSet,
}

impl Choice {
    /// The CPUs that `who` may use. To be asked before it is packed: the masks of a packed program say nothing
    /// about that.
    ///
    /// # Errors
    /// When it does not exist, or the machine cannot be read.
    pub fn of(who: Who) -> Result<Choice> {
        let root = Root::live();
        let allowed = allowed_cpus(&root, who).context("reading which CPUs are allowed")?;
        let topology = Topology::read(&root).context("reading the machine's CPUs")?;
        Ok(Choice { topology, allowed })
    }

    /// Those that are wanted.
    ///
    /// # Errors
    /// When they are not there, or not allowed.
    pub fn choose(&self, wanted: &Cpus) -> Result<CpuSet> {
        let allowed = &self.allowed;
        if let Some(named) = &wanted.cpus {
            return self.named("--cpus", named);
        }
        let count = wanted.ncpus.context("give --cpus or --ncpus")?;
        pack::cpus::choose(&self.topology, allowed, count).with_context(|| {
            format!("--ncpus {count}: the program may use {} CPUs (allowed: {allowed})", allowed.len())
        })
    }

    /// Those that `option` names.
    ///
    /// # Errors
    /// When one of them is not allowed.
    pub fn named(&self, option: &str, named: &CpuSet) -> Result<CpuSet> {
        let (allowed, forbidden) = (&self.allowed, named.difference(&self.allowed));
        if !forbidden.is_empty() {
            bail!("{option} {named}: the program may not use CPU {forbidden} (allowed: {allowed})");
        }
        Ok(named.clone())
    }

    /// How fast each of them is, of 1024.
    pub fn capacities(&self, cpus: &CpuSet) -> Vec<u64> {
        pack::cpus::capacities(&self.topology, cpus)
    }
}
