//! Provenance of what a program of this project reports: where, when and of which program it was measured.

use std::env;

use ledger::Provenance;
use machine::Root;
use machine::host::{Host, container};
use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::topology::Topology;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Environment variables in which launchers pass a process its rank and the number of ranks. The first pair that is set
/// is used, so the variables of an MPI launcher take precedence over those of Slurm and Flux.
const LAUNCHERS: [(&str, &str); 5] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
];

/// Environment variables that hold the job id, with the name of the batch system.
pub const JOBS: [(&str, &str); 4] =
    [("SLURM_JOB_ID", "Slurm"), ("PBS_JOBID", "PBS"), ("FLUX_JOB_ID", "Flux"), ("LSB_JOBID", "LSF")];

/// Returns the provenance of a session on this machine: when, where and in which job it takes place. `attached_to` is
/// the observed process, if cox does not start the program; `recorded_by` is the name of the reporting program. The
/// caller adds the command at the end of the session.
#[must_use]
pub fn here(recorded_by: &str, attached_to: Option<u32>) -> Provenance {
    let root = Root::live();
    let host = Host::read(&root);
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let number = |name: &str| variable(name)?.parse().ok();
    let rank = LAUNCHERS.iter().find_map(|(rank, size)| Some((number(rank)?, number(size))));
    let folder = match attached_to {
        None => env::current_dir().ok(),
        Some(pid) => Task::process(&root, pid).cwd().ok(),
    };
    Provenance {
        date: now(),
        host: host.name,
        boot_id: host.boot_id,
        kernel: host.kernel,
        cpu_model: host.cpu_model,
        cpus: Topology::read_online(&root).ok().map(|online| online.len() as u32),
        allowed_cpus: allowed_cpus(&root, attached_to.map_or(Who::Own, Who::Task)).ok().map(|cpus| cpus.to_string()),
        container: container(&root, |name| env::var_os(name).is_some()),
        mpi_rank: rank.map(|(rank, _)| rank),
        mpi_size: rank.and_then(|(_, size)| size),
        job: JOBS.iter().find_map(|(name, system)| Some(format!("{system} {}", variable(name)?))),
        working_directory: folder.map(|folder| folder.display().to_string()),
        recorded_by: Some(format!("{recorded_by} {}", env!("CARGO_PKG_VERSION"))),
        command: Vec::new(),
    }
}

/// Returns date and time with time zone, to the second. The local time zone can only be determined while the program has one thread; later calls
/// return UTC.
fn now() -> Option<String> {
    let now = OffsetDateTime::now_local().unwrap_or_else(|_| OffsetDateTime::now_utc());
    now.replace_nanosecond(0).ok()?.format(&Rfc3339).ok()
}
