//! The counts through `cox_umt.h`, by both backends, compared with the kernel's own counts of the same threads; and the example program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use testkit::built::COX;
use testkit::skip::{Need, has, is_root, skip};

/// Seconds after which a case hangs.
const PATIENCE: &str = "120";

/// How blocks are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Bpf,
    Perf,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Backend::Bpf => "bpf",
            Backend::Perf => "perf",
        }
    }
}

/// One program at a time: they are busy.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library, as it was built for these tests: beside them.
fn folder() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.ancestors().find(|folder| folder.join("libcox_umt.so").exists()).expect("libcox_umt.so").to_path_buf()
}

fn compile(name: &str, sources: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(root.join("include"));
    cc.args(sources.iter().map(|source| root.join(source))).arg("-o").arg(&program);
    cc.arg("-L").arg(folder()).arg("-lcox_umt").arg(format!("-Wl,-rpath,{}", folder().display()));
    assert!(cc.status().unwrap().success());
    program
}

fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    let sources = ["probe.c", "threads.c", "descriptors.c"].map(|name| format!("tests/programs/{name}"));
    PROBE.get_or_init(|| compile("probe", &sources.each_ref().map(String::as_str)))
}

/// A program by this backend. `None`: it cannot be had here, which is said.
fn start(test: &str, backend: Backend, program: &Path) -> Option<Command> {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).stdin(Stdio::null()).env_remove("COX_OVERLAP");
    if backend == Backend::Perf {
        if let Err(why) = umt_client::records::probe() {
            skip(test, Need::Perf, format_args!("no records of switches: {why}"));
            return None;
        }
        command.arg(program);
        return Some(command);
    }
    if !is_root(test) {
        return None;
    }
    if !has(Path::new(COX).exists(), test, Need::Built, "needs cox (cargo build)") {
        return None;
    }
    command.arg(COX).args(["run", "-q", "--overlap=bpf", "--output", "/dev/null", "--"]).arg(program);
    Some(command)
}

fn case_by(backend: Backend, case: &str) {
    let _turn = turn();
    let test = format!("{case} by {}", backend.name());
    let Some(mut command) = start(&test, backend, probe()) else { return };
    let Output { status, stdout, stderr } = command.args([case, backend.name()]).output().unwrap();
    assert!(status.success(), "{test}: {status}: {}", String::from_utf8_lossy(&stderr));
    if let Some(why) = String::from_utf8_lossy(&stdout).strip_prefix("skipped: ") {
        skip(&test, Need::Bpf, why);
    }
}

fn case(name: &str) {
    case_by(Backend::Perf, name);
    case_by(Backend::Bpf, name);
}

macro_rules! cases {
    ($($(#[doc = $text:literal])* $test:ident = $case:literal;)*) => { $(
        $(#[doc = $text])*
        #[test]
        fn $test() {
            case($case);
        }
    )* };
}

cases! {
    every_block_counts_once = "blocks";
    preemption_counts_never = "preempted";
    counters_are_of_the_cpu_where_a_thread_is = "moved";
    who_ends_is_ready_nowhere = "ends";
    a_block_that_a_signal_ends_is_one = "signalled";
    /// A signal that comes when a thread is about to sleep.
    blocks_that_do_not_happen_do_not_count = "phantoms";
    a_stopped_thread_is_blocked = "stopped";
    a_page_fault_may_be_a_block = "faults";
    two_threads_on_two_cpus_are_told_apart = "pong";
    a_program_that_is_executed_begins_anew = "executes";
    what_is_not_read_in_time_is_said_and_ready_threads_stay_right = "lost";
    no_wakeup_is_lost_where_each_cpu_has_a_reader = "each";
    no_wakeup_is_lost_where_one_reads_all = "any";
    who_reads_one_cpu_leaves_the_other_readable = "shares";
    a_child_has_it_disabled = "forked";
    wrong_arguments_are_refused_and_it_can_be_enabled_again = "wrong";
    many_threads_are_counted = "many";
}

/// With perf it is not ready before it runs.
#[test]
fn bpf_counts_who_is_woken_before_it_runs() {
    case_by(Backend::Bpf, "queued");
}

/// With perf each block makes descriptors ready.
#[test]
fn bpf_rings_only_where_nobody_is_left_if_so_asked() {
    case_by(Backend::Bpf, "idle");
}

#[test]
fn when_a_session_ends_it_goes_on_without() {
    let _turn = turn();
    let test = "when_a_session_ends_it_goes_on_without";
    let Some(mut command) = start(test, Backend::Bpf, probe()) else { return };
    // cox is killed: its exit code says nothing of the probe.
    let Output { stdout, stderr, .. } = command.args(["abandoned", "bpf"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stdout), "went on\n", "{}", String::from_utf8_lossy(&stderr));
}

#[test]
fn the_example_is_a_runtime() {
    let _turn = turn();
    let leader = compile("leader", &["examples/leader.c"]);
    for backend in [Backend::Perf, Backend::Bpf] {
        let Some(mut command) = start(&format!("leader by {}", backend.name()), backend, &leader) else { continue };
        let output = command.arg("100").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(text.starts_with(backend.name()), "{text}");
        // Each task blocks once: spares must have been started, and each of them was too many some time later.
        assert!(matches!(numbers[..], [100, spares, _] if spares > 0), "{text}");
    }
}
