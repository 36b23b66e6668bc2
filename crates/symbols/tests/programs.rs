//! Real programs that sample themselves. Nearly all samples of a waiting thread must count as waiting, and nearly none of a working thread.
#![cfg(target_arch = "x86_64")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use machine::Root;
use symbols::Symboliser;
use wire::{Sample, SampleSite, Waiting};

/// For threads that give their CPU away: see fixtures/sampler.h.
const REAL_TIME: (&str, &str) = ("SAMPLER_REAL_TIME", "1");

/// A mode of no meaning to the program: its file is deleted while it runs.
const DELETED: &str = "deleted";

/// Runs `program mode`, symbolises its samples while it still lives, and returns the sample sites by role.
fn run(program: &Path, mode: &str, environment: &[(&str, &str)]) -> BTreeMap<String, Vec<SampleSite>> {
    let mut child = Command::new(program)
        .arg(mode)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was just compiled");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut roles = BTreeMap::new();
    let mut samples = Vec::new();
    for line in output.lines().map(|line| line.expect("text")).take_while(|line| line != "done") {
        let fields: Vec<&str> = line.split(' ').collect();
        let tid = fields[0].parse().expect("tid");
        roles.insert(tid, fields[1].to_owned());
        let ip = u64::from_str_radix(fields[2], 16).expect("ip");
        samples.push(Sample { ip, tid, tgid: child.id(), ..Sample::default() });
    }
    if mode == DELETED {
        std::fs::remove_file(program).expect("it runs");
    }
    let mut symboliser = Symboliser::new(Root::live());
    symboliser.observe(&samples, |_, _| {});
    drop(child.stdin.take());
    assert!(child.wait().expect("child").success());
    // The program is gone by now: what follows needs only what was held.
    assert_eq!(symboliser.lost_samples(), 0);
    let mut sample_sites: BTreeMap<String, Vec<SampleSite>> = BTreeMap::new();
    for site in symboliser.sample_sites() {
        sample_sites.entry(roles[&site.tid].clone()).or_default().push(site);
    }
    let total: u64 = sample_sites.values().flatten().map(|site| site.samples).sum();
    assert_eq!(total, samples.len() as u64, "every sample is at one site");
    sample_sites
}

/// Share of samples that wait, and all samples.
fn waiting(sample_sites: &[SampleSite]) -> (f64, u64) {
    let all: u64 = sample_sites.iter().map(|site| site.samples).sum();
    let waiting: u64 = sample_sites.iter().filter(|site| site.waiting.is_some()).map(|site| site.samples).sum();
    (waiting as f64 / all as f64, all)
}

fn check(program: &Path, mode: &str, environment: &[(&str, &str)], expected: &[Waiting]) {
    let sample_sites = run(program, mode, environment);
    let none = Vec::new();
    let of = |role| sample_sites.get(role).unwrap_or(&none);
    let (waiters, workers) = (of("waiting"), of("working"));
    let (waiters_share, waiters_all) = waiting(waiters);
    let (workers_share, workers_all) = waiting(workers);
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    println!(
        "{name} {mode}: waiting thread {:.1} % of {waiters_all}, working thread {:.1} % of {workers_all}",
        100.0 * waiters_share,
        100.0 * workers_share
    );
    assert!(waiters_all >= 20 && workers_all >= 20, "{waiters_all} and {workers_all} samples");
    assert!(waiters_share >= 0.95, "{name} {mode}: {waiters_share}: {waiters:#?}");
    assert!(workers_share <= 0.02, "{name} {mode}: {workers_share}: {workers:#?}");
    let mut reasons: BTreeMap<Option<Waiting>, u64> = BTreeMap::new();
    for site in waiters {
        *reasons.entry(site.waiting).or_default() += site.samples;
    }
    let most = reasons.iter().max_by_key(|(_, samples)| **samples).and_then(|(reason, _)| *reason);
    assert!(most.is_some_and(|most| expected.contains(&most)), "{name} {mode}: {reasons:?}");
}

#[test]
fn libgomp() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for level in ["-O0", "-O2"] {
        let program = common::compile("gcc", "openmp.c", &[level, "-fopenmp"], folder.path());
        for mode in ["barriers", "regions", "locks"] {
            check(&program, mode, &[("GOMP_SPINCOUNT", "infinite")], &[Waiting::OpenMp]);
        }
    }
}

#[test]
fn libomp() {
    let has_runtime = std::fs::read_dir("/usr/lib").expect("/usr/lib").filter_map(Result::ok).find(|entry| {
        entry.file_name().to_string_lossy().starts_with("llvm-") && entry.path().join("lib/libomp.so").exists()
    });
    let (Some(runtime), true) = (has_runtime, common::installed("clang")) else {
        return testkit::skip::skip("libomp", testkit::skip::Need::Libomp, "no clang with libomp");
    };
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = format!("{}/lib", runtime.path().display());
    let flags = ["-O2", "-fopenmp=libomp", &format!("-L{path}")];
    let program = common::compile("clang", "openmp.c", &flags, folder.path());
    // Throughput mode gives the CPU away while it waits, turnaround mode does not.
    for library in ["throughput", "turnaround"] {
        for mode in ["barriers", "regions", "locks"] {
            let environment = [
                ("LD_LIBRARY_PATH", path.as_str()),
                ("KMP_BLOCKTIME", "infinite"),
                ("KMP_LIBRARY", library),
                REAL_TIME,
            ];
            check(&program, mode, &environment, &[Waiting::OpenMp, Waiting::Yield]);
        }
    }
}

#[test]
fn hand_written_waiting() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for level in ["-O0", "-O2"] {
        let program = common::compile("gcc", "pthreads.c", &[level, "-pthread"], folder.path());
        for mode in ["bare", "pause", "bounded", "volatile", "ttas", "tas"] {
            check(&program, mode, &[], &[Waiting::TightLoop]);
        }
        check(&program, "yield", &[REAL_TIME], &[Waiting::Yield]);
        check(&program, "pthread_spin", &[], &[Waiting::PthreadSpin]);
    }
}

#[test]
fn statically_linked() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let program = common::compile("gcc", "pthreads.c", &["-O2", "-pthread", "-static"], folder.path());
    check(&program, "pthread_spin", &[], &[Waiting::PthreadSpin]);
    check(&program, "pause", &[], &[Waiting::TightLoop]);
}

#[test]
fn stripped() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let program = common::compile("gcc", "pthreads.c", &["-O2", "-pthread", "-s"], folder.path());
    check(&program, "bare", &[], &[Waiting::TightLoop]);
}

#[test]
fn deleted_while_running() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let program = common::compile("gcc", "pthreads.c", &["-O2", "-pthread"], folder.path());
    check(&program, DELETED, &[], &[Waiting::TightLoop]);
}
