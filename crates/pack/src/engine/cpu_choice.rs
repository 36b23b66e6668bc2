//! The CPUs of a pack: named, or so many of those that the program may use.

use anyhow::{Context, Result, bail};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use machine::{CpuSet, Root};

use crate::cpus;

/// The CPUs that are wanted for a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These.
    Named {
        /// The option that names them.
        option: &'static str,
        /// Which they are.
        cpus: CpuSet,
    },
    /// So many.
    Count(usize),
}

impl Wanted {
    /// What the options --cpus and --ncpus say together.
    ///
    /// # Errors
    /// When neither is given.
    pub fn of(cpus: Option<CpuSet>, ncpus: Option<usize>) -> Result<Wanted> {
        let named = cpus.map(|cpus| Wanted::Named { option: "--cpus", cpus });
        named.or(ncpus.map(Wanted::Count)).context("give --cpus or --ncpus")
    }
}

/// What there is to choose from.
pub struct CpuChoice {
    topology: Topology,
    allowed: CpuSet,
}

impl CpuChoice {
    /// The CPUs that `who` may use. To be asked before it is packed: the masks of a packed program say nothing
    /// about that.
    ///
    /// # Errors
    /// When it does not exist, or the machine cannot be read.
    pub fn of(who: Who) -> Result<CpuChoice> {
        let root = Root::live();
        let allowed = allowed_cpus(&root, who).context("reading which CPUs are allowed")?;
        let topology = Topology::read(&root).context("reading the machine's CPUs")?;
        Ok(CpuChoice { topology, allowed })
    }

    /// Those that are wanted.
    ///
    /// # Errors
    /// When they are not there, or not allowed.
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

    /// How fast each of them is, of 1024.
    #[must_use]
    pub fn capacities(&self, cpus: &CpuSet) -> Vec<u64> {
        cpus::capacities(&self.topology, cpus)
    }
}
