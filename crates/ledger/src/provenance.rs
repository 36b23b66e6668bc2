//! Provenance of an account: where, when and of which program it was taken.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where, when and of which program a measurement was taken. Unknown values are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Provenance {
    /// When the session began: date and time with time zone, in the format of RFC 3339.
    pub date: Option<String>,
    /// Name of the machine.
    pub host: Option<String>,
    /// Identifier of the machine's boot; it differs after each boot.
    pub boot_id: Option<String>,
    /// Release of the machine's kernel.
    pub kernel: Option<String>,
    /// Model of the machine's CPUs.
    pub cpu_model: Option<String>,
    /// Number of online CPUs.
    pub cpus: Option<u32>,
    /// The CPUs that the program could use, as a list: `0-3,8`.
    pub allowed_cpus: Option<String>,
    /// Container in which cox ran: `docker`, `podman`, `apptainer`, …; `PID namespace` if the container engine is not known.
    pub container: Option<String>,
    /// MPI rank of the process that cox runs in.
    pub mpi_rank: Option<u32>,
    /// Number of MPI ranks.
    pub mpi_size: Option<u32>,
    /// Job of the batch system: `Slurm 4711`.
    pub job: Option<String>,
    /// The program's command line.
    pub command: Vec<String>,
    /// Working directory at the start of the program.
    pub working_directory: Option<String>,
    /// Name and version of the recording program: cox or perf.
    pub recorded_by: Option<String>,
}

impl Provenance {
    /// Returns all known values with their names, in the form in which they are shown.
    pub fn known(&self) -> Vec<(&'static str, String)> {
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let cpus = match (self.cpus, &self.allowed_cpus) {
            (Some(cpus), Some(allowed)) => Some(format!("{cpus} online, {allowed} allowed")),
            (cpus, allowed) => number(cpus).or(allowed.clone()),
        };
        let rank = match (self.mpi_rank, self.mpi_size) {
            (Some(rank), Some(size)) => Some(format!("{rank} of {size}")),
            (rank, _) => number(rank),
        };
        let all = [
            ("date", self.date.clone()),
            ("host", self.host.clone()),
            ("boot", self.boot_id.clone()),
            ("kernel", self.kernel.clone()),
            ("CPU", self.cpu_model.clone()),
            ("CPUs", cpus),
            ("container", self.container.clone()),
            ("MPI rank", rank),
            ("job", self.job.clone()),
            ("command", (!self.command.is_empty()).then(|| self.command.join(" "))),
            ("working directory", self.working_directory.clone()),
            ("recorded by", self.recorded_by.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Provenance {
        Provenance {
            date: Some(format!("2026-01-0{}T10:00:00+01:00", name.len())),
            host: Some(name.into()),
            cpus: Some(4),
            allowed_cpus: Some("0-1".into()),
            mpi_rank: Some(3),
            mpi_size: Some(8),
            command: vec!["./app".into(), "9".into()],
            ..Provenance::default()
        }
    }

    #[test]
    fn what_is_known_is_shown() {
        let shown = node("node1").known();
        let expected = [
            ("date", "2026-01-05T10:00:00+01:00"),
            ("host", "node1"),
            ("CPUs", "4 online, 0-1 allowed"),
            ("MPI rank", "3 of 8"),
            ("command", "./app 9"),
        ];
        assert_eq!(shown, expected.map(|(name, value)| (name, value.to_owned())));
    }
}
