//! Where, when and of what an account was taken.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where, when and of what something was measured. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Provenance {
    /// When the session began: the date with its zone, as RFC 3339 has it.
    pub date: Option<String>,
    /// Name of the machine.
    pub host: Option<String>,
    /// Its boot: another one after each boot.
    pub boot_id: Option<String>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Model of its CPUs.
    pub cpu_model: Option<String>,
    /// How many CPUs were online.
    pub cpus: Option<u32>,
    /// The CPUs that the program could use, as a list: `0-3,8`.
    pub allowed_cpus: Option<String>,
    /// The container that cox ran in: `docker`, `podman`, `apptainer`, …; `PID namespace` where its engine left no name.
    pub container: Option<String>,
    /// Rank of the MPI process that cox was started as.
    pub mpi_rank: Option<u32>,
    /// How many ranks there were.
    pub mpi_size: Option<u32>,
    /// The batch system's job: `Slurm 4711`.
    pub job: Option<String>,
    /// The program's command line.
    pub command: Vec<String>,
    /// The folder that it was started in.
    pub working_directory: Option<String>,
    /// Version of the cox, or of the other program, that recorded it.
    pub recorded_by: Option<String>,
}

impl Provenance {
    /// All that is known, by name, as it is shown.
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
