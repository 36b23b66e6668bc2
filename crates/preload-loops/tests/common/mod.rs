//! Programs with the library loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Numbers of threads in the tests.
pub const THREADS: [&str; 4] = ["1", "2", "3", "8"];

/// All schedules, and the inputs without which some of them refuse.
pub const SCHEDULES: [&str; 28] = [
    "static",
    "static,7",
    "static_steal",
    "ss",
    "fsc",
    "mfsc",
    "gss",
    "gss_llvm",
    "tss",
    "tfss",
    "fac",
    "fac2",
    "wf",
    "tap",
    "bold",
    "fiss",
    "viss",
    "rnd",
    "pls",
    "static_weighted",
    "awf",
    "awf_b",
    "awf_c",
    "awf_d",
    "awf_e",
    "af",
    "maf",
    "hybrid",
];
/// Weights for three threads: `wf` has a substitute with other teams.
pub const INPUTS: &str = "mean_ns=20,deviation_ns=10,overhead_ns=50,weights=1:2:1.5";

/// Returns the path of the library under test, which cargo builds for these tests, beside them.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("libcox_loops.so"));
    places.find(|place| place.exists()).expect("libcox_loops.so beside the tests")
}

/// Compiles a program of the folder `programs`. `name` is the result's; each test has its own, because tests run at the same time.
pub fn compile(compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload-loops");
    fs::create_dir_all(&folder).unwrap();
    let output = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-fopenmp"]).arg("-o").arg(&output);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source)).args(flags);
    assert!(command.status().unwrap().success(), "{command:?}");
    output
}

/// Returns a command that runs a program with the library. Threads sleep at barriers: more of them than CPUs would spin for a long time.
pub fn with(program: &Path, schedule: &str, threads: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("COX_SCHEDULE", schedule).env("COX_SCHEDULE_INPUTS", INPUTS);
    command.env("OMP_NUM_THREADS", threads).env("OMP_WAIT_POLICY", "passive").env("OMP_CANCELLATION", "true");
    command
}

/// Runs a program that must succeed and print `kept`. Returns what it has printed on stderr.
pub fn kept(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "kept\n", "{command:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
