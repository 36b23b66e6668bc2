//! What the session knows besides the account: limits, quota, environment variables, topology.

use std::collections::{BTreeMap, BTreeSet};
use std::env;

use advise::Facts;
use machine::cgroup::{CpuQuota, Hierarchies, ThrottleCounts, Throttling, most_throttled};
use machine::limits::{CpuLimits, Who, allowed_cpus};
use machine::process::Task;
use machine::topology::Topology;
use machine::{CpuSet, Error, Root};

/// Commands and options of this version that advice may recommend.
const VERBS: [&str; 5] = ["run", "doctor", "advise", "pack", "quiet"];

/// Run context as read at the start of a session. [`RunContext::facts`] reads the throttling again at the end, and returns the difference.
pub struct RunContext {
    root: Root,
    who: Who,
    limits: Option<CpuLimits>,
    own_allowed: Option<CpuSet>,
    topology: Option<Topology>,
    throttling: Vec<Throttling>,
    environment: BTreeMap<String, String>,
}

impl RunContext {
    /// Reads the run context of process `pid`. For a program that cox will start, `pid` is `None`: the program inherits cox's run context. Values
    /// that cannot be read are left out, and the advice then says nothing that depends on them.
    pub fn read(pid: Option<u32>) -> RunContext {
        let root = Root::live();
        let who = pid.map_or(Who::Own, Who::Task);
        RunContext {
            limits: CpuLimits::read(&root, who).ok(),
            own_allowed: allowed_cpus(&root, Who::Own).ok(),
            topology: Topology::read(&root).ok(),
            throttling: throttling(&root, who).unwrap_or_default(),
            environment: environment(&root, pid),
            who,
            root,
        }
    }

    /// Returns the facts for advice, at the end of the session. `narrowed` is the affinity mask of the program's threads while it ran, if known.
    /// `packed` are the CPUs on which this session packed the program, if it did. Then the facts contain the affinity mask from the start of the
    /// session, because cox set the later masks itself.
    pub fn facts(
        &self,
        command: &[String],
        narrowed: Option<&CpuSet>,
        packed: Option<&CpuSet>,
        openmp_runtime: Option<String>,
    ) -> Facts {
        let now = throttling(&self.root, self.who).unwrap_or_default();
        let throttled = since(&now, &self.throttling);
        let allowed = self.own_allowed.as_ref().map(list).unwrap_or_default();
        let own = narrowed.filter(|_| packed.is_none()).or(self.limits.as_ref().map(|limits| &limits.allowed));
        let pinned = own.map(list).filter(|mask| !mask.is_empty() && mask.len() < allowed.len());
        Facts {
            online_cpus: self.topology.as_ref().map(|t| list(&t.online)).unwrap_or_default(),
            allowed_cpus: allowed,
            cpu_quota: self.limits.as_ref().and_then(|limits| limits.quota.as_ref()).map(|quota| quota.cpus()),
            throttled_ns: throttled.as_ref().map_or(0, |t| t.throttled_ns),
            nr_throttled: throttled.as_ref().map_or(0, |t| t.throttled_periods),
            environment: self.environment.clone(),
            openmp_runtime,
            pinned_cpus: pinned,
            packed_cpus: packed.map(list),
            smt: self.topology.as_ref().is_some_and(Topology::has_smt),
            verbs: VERBS.iter().map(|verb| (*verb).to_owned()).collect(),
            denied: self.denied(),
            command: command.to_vec(),
        }
    }

    /// Returns what the user has no permission for. Only root is assumed to be able to load eBPF programs and to move other users' programs. A quota
    /// can be changed by a user who may write its file.
    fn denied(&self) -> BTreeSet<String> {
        let is_root = rustix::process::geteuid().is_root();
        let quota = self.limits.as_ref().and_then(|limits| limits.quota.as_ref());
        let may_write = |quota: &CpuQuota| {
            let files = ["cpu.max", "cpu.cfs_quota_us"].map(|name| quota.cgroup.join(name));
            files.iter().any(|file| rustix::fs::access(file, rustix::fs::Access::WRITE_OK).is_ok())
        };
        let denied = [
            (Facts::EBPF, !is_root),
            (Facts::OTHERS, !is_root),
            (Facts::QUOTA, quota.is_some_and(|quota| !may_write(quota))),
        ];
        denied.into_iter().filter(|(_, denied)| *denied).map(|(what, _)| what.to_owned()).collect()
    }
}

fn list(cpus: &CpuSet) -> Vec<u32> {
    cpus.iter().collect()
}

fn throttling(root: &Root, who: Who) -> Result<Vec<Throttling>, Error> {
    let memberships = who.task(root).cgroups()?;
    let Some(cgroup) = Hierarchies::read(root)?.cgroup_of(&memberships, "cpu")? else { return Ok(Vec::new()) };
    cgroup.throttling(root)
}

/// Returns by how much the throttle counts of one cgroup grew from `before` to `now`. Of the program's cgroup and its ancestors, it is the one that
/// was throttled longest in that time.
fn since(now: &[Throttling], before: &[Throttling]) -> Option<ThrottleCounts> {
    let mut grown = now.to_vec();
    for level in &mut grown {
        if let Some(earlier) = before.iter().find(|b| b.cgroup == level.cgroup) {
            level.counts = level.counts.since(earlier.counts);
        }
    }
    most_throttled(&grown).map(|level| level.counts)
}

/// Returns the environment variables that control waiting and placement, as the program sees them.
fn environment(root: &Root, pid: Option<u32>) -> BTreeMap<String, String> {
    let of_process = pid.map(|pid| Task::process(root, pid).environment().unwrap_or_default());
    let value = |name: &str| match &of_process {
        Some(environment) => environment.variable(name),
        None => env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
    };
    Facts::VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect()
}
