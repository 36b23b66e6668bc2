//! Where, when and of what a report is taken.

use std::env;

use ledger::Provenance;
use machine::Root;
use machine::host::{Host, container};
use machine::limits::{Who, allowed_cpus};
use machine::topology::Topology;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Variables in which launchers tell a process how many ranks there are, by what sets them.
const SIZES: [&str; 5] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS", "FLUX_JOB_SIZE"];

/// Batch systems, with the variable that holds the number of a job.
const JOBS: [(&str, &str); 4] =
    [("SLURM_JOB_ID", "Slurm"), ("PBS_JOBID", "PBS"), ("FLUX_JOB_ID", "Flux"), ("LSB_JOBID", "LSF")];

/// What is known now of this machine and of this process' job. The program is named when the session has ended.
pub fn here() -> Provenance {
    let root = Root::live();
    let host = Host::read(&root);
    Provenance {
        date: now(),
        host: host.name,
        boot_id: host.boot_id,
        kernel: host.kernel,
        cpu_model: host.cpu_model,
        cpus: Topology::read(&root).ok().map(|topology| topology.online.len() as u32),
        allowed_cpus: allowed_cpus(&root, Who::Own).ok().map(|cpus| cpus.to_string()),
        container: container(&root, |name| env::var_os(name).is_some()),
        mpi_rank: outputs::rank().and_then(|rank| rank.to_str()?.parse().ok()),
        mpi_size: SIZES.iter().find_map(|name| number(name)),
        job: JOBS.iter().find_map(|(name, system)| Some(format!("{system} {}", env::var(name).ok()?))),
        working_directory: env::current_dir().ok().map(|folder| folder.display().to_string()),
        recorded_by: Some(format!("cox {}", env!("CARGO_PKG_VERSION"))),
        command: Vec::new(),
    }
}

fn number(variable: &str) -> Option<u32> {
    env::var(variable).ok()?.parse().ok()
}

/// The date with its zone, to the second. The zone is known while cox has one thread; with more, it is UTC's.
fn now() -> Option<String> {
    let now = OffsetDateTime::now_local().unwrap_or_else(|_| OffsetDateTime::now_utc());
    now.replace_nanosecond(0).ok()?.format(&Rfc3339).ok()
}
