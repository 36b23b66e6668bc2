//! Reports contain where, when and of which program they were taken, and traces keep it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ledger::Provenance;
use report::Document;
use report::advice::Advice;
use report::pack::PackReport;
use serde_json::Value;
use testkit::measured::bench;
use testkit::run::on_one_line;
use testkit::traced::{COX, workload};

const LAUNCHERS: [&str; 11] = [
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "FLUX_JOB_ID",
    "LSB_JOBID",
];

/// cox in `folder`, as rank 3 of 8 of a Slurm job, or of none.
fn cox(folder: &Path, in_job: bool, arguments: &[&str]) -> Output {
    let mut command = Command::new(COX);
    LAUNCHERS.iter().for_each(|name| _ = command.env_remove(name));
    if in_job {
        command.envs([("PMI_RANK", "3"), ("PMI_SIZE", "8"), ("SLURM_JOB_ID", "4711")]);
    }
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn kernel_says(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// What the kernel says of this machine, and the environment of the job.
fn assert_here(told: &Provenance, folder: &Path, command: &[&str]) {
    assert_eq!(told.host, kernel_says("/proc/sys/kernel/hostname"));
    assert_eq!(told.boot_id, kernel_says("/proc/sys/kernel/random/boot_id"));
    assert_eq!(told.kernel, kernel_says("/proc/sys/kernel/osrelease"));
    assert_eq!((told.mpi_rank, told.mpi_size, told.job.as_deref()), (Some(3), Some(8), Some("Slurm 4711")));
    assert_eq!(told.command, command);
    assert_eq!(told.working_directory.as_deref(), folder.to_str());
    let date = told.date.as_deref().unwrap();
    let zone =
        date.ends_with('Z') || date.as_bytes()[date.len() - 6] == b'+' || date.as_bytes()[date.len() - 6] == b'-';
    assert!(date.starts_with("20") && date.as_bytes()[10] == b'T' && zone, "{date}");
    let cpus: u32 =
        String::from_utf8(Command::new("nproc").arg("--all").output().unwrap().stdout).unwrap().trim().parse().unwrap();
    assert!(told.cpus.is_some_and(|online| (1..=cpus).contains(&online)) && told.allowed_cpus.is_some());
}

fn document(file: &Path) -> Document {
    Document::read(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn reports_say_where_and_when_they_were_taken() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ran = cox(folder, true, &["run", "--backend", "proc", "--json", "run.json", "--", "sleep", "0.3"]);
    assert_here(document(&folder.join("run.json")).account.provenance.as_ref().unwrap(), folder, &["sleep", "0.3"]);
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    let flat = on_one_line(&text);
    assert!(flat.contains("taken on ") && flat.contains("Slurm 4711, rank 3 of 8"), "{text}");

    cox(
        folder,
        true,
        &["pack", "-q", "--backend", "proc", "--ncpus", "1", "--json", "pack.json", "--", "sleep", "0.3"],
    );
    let packed: PackReport = serde_json::from_slice(&fs::read(folder.join("pack.json")).unwrap()).unwrap();
    assert_here(packed.provenance.as_ref().unwrap(), folder, &["sleep", "0.3"]);
}

#[test]
fn advice_from_a_report_has_the_provenance_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mandelbrot = workload("mandelbrot");
    let program =
        ["run", "-q", "--json", "run.json", "--", &mandelbrot, "--threads", "3", "--steps", "3", "--no-verify"];
    cox(folder, true, &program);
    let report = document(&folder.join("run.json"));
    cox(folder, false, &["advise", "-q", "--from", "run.json", "--ncpus", "1", "--json", "advice.json"]);
    let advice: Advice = serde_json::from_slice(&fs::read(folder.join("advice.json")).unwrap()).unwrap();
    assert_eq!(advice.provenance, report.account.provenance);
}

#[test]
fn a_trace_that_is_read_elsewhere_keeps_it() {
    let Some(_bench) = bench("a_trace_that_is_read_elsewhere_keeps_it") else { return };
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = folder.path().join("run.trace");
    let program = ["sh", "-c", "sleep 0.1\n:"];
    cox(folder.path(), true, &[&["run", "-q", "--trace", trace.to_str().unwrap(), "--"], &program[..]].concat());
    cox(elsewhere.path(), false, &["report", "--json", "again.json", trace.to_str().unwrap()]);
    let again = document(&elsewhere.path().join("again.json"));
    cox(elsewhere.path(), false, &["report", "--paraver", "again", trace.to_str().unwrap()]);
    let prv = fs::read_to_string(elsewhere.path().join("again.prv")).unwrap();
    let known = again.account.provenance.as_ref().unwrap().known();
    let metadata: Vec<Vec<&str>> =
        prv.lines().skip(1).take(known.len()).map(|line| line.splitn(4, ':').collect()).collect();
    for ((name, value), line) in known.iter().zip(&metadata) {
        assert!(line[0].len() == "#20261231235959".len() && line[0].starts_with("#20"), "{line:?}");
        assert_eq!(line[1..], ["provenance", *name, &value.replace('\n', "?")]);
    }
    assert!(known.len() >= 9 && prv.lines().skip(1 + known.len()).all(|line| !line.starts_with('#')), "{known:?}");
    assert_here(again.account.provenance.as_ref().unwrap(), folder.path(), &program);
}

#[test]
fn a_running_process_has_its_own_folder_and_cpus() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let cpu = allowed.split(['-', ',']).next().unwrap();
    // A clock of its own ends it, whatever happens here.
    let mut sleeper =
        Command::new("taskset").args(["-c", cpu, "sleep", "20"]).current_dir(elsewhere.path()).spawn().unwrap();
    let pid = sleeper.id().to_string();
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() != "sleep" {
        assert!(sleeper.try_wait().unwrap().is_none(), "taskset has failed");
    }
    cox(
        folder.path(),
        true,
        &["run", "-q", "--backend", "proc", "--pid", &pid, "--for", "300ms", "--json", "run.json"],
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let told = document(&folder.path().join("run.json")).account.provenance.unwrap();
    assert_eq!(told.working_directory.as_deref(), elsewhere.path().to_str());
    assert_eq!(told.allowed_cpus.as_deref(), Some(cpu));
}

/// A JSON document without a program in it.
#[test]
fn checks_and_simulations_say_where_they_ran() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    cox(
        folder,
        true,
        &["pack", "simulate", "--threads", "3", "--ncpus", "2", "--phases", "20", "--json", "simulated.json"],
    );
    Command::new(COX).args(["doctor", "--json", "doctor.json"]).current_dir(folder).output().unwrap();
    for name in ["simulated.json", "doctor.json"] {
        let document: Value = serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap();
        let told: Provenance = serde_json::from_value(document["provenance"].clone()).unwrap();
        assert_eq!(told.host, kernel_says("/proc/sys/kernel/hostname"), "{name}");
        assert_eq!(told.boot_id, kernel_says("/proc/sys/kernel/random/boot_id"), "{name}");
        assert_eq!(told.working_directory.as_deref(), folder.to_str(), "{name}");
        assert!(told.recorded_by.unwrap().starts_with("cox "), "{name}");
    }
}
