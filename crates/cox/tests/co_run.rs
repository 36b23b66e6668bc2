//! Co-run programs: the report shows what the test staged.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use ledger::Thread;
use ledger::co_run::{CoRun, Phase};
use report::Document;
use testkit::measured::{Bench, assert_none, bench};
use testkit::skip::{Need, skip};

const COX: &str = env!("CARGO_BIN_EXE_cox");
const WORKLOADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/workloads");

fn on_cpu(cpu: usize, workload: &str) -> String {
    format!("taskset -c {cpu} {WORKLOADS}/{workload}")
}

/// Whether a child may ask to be traced here; if not, says that `test` is skipped.
fn can_trace(test: &str) -> bool {
    let mut child = Command::new("true");
    // SAFETY: a plain system call. To end is to be let go: the program would stop at its exec.
    unsafe {
        child.pre_exec(|| {
            let nothing = ptr::null_mut::<libc::c_void>();
            libc::_exit(libc::c_int::from(libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) < 0));
        });
    }
    let can = child.status().is_ok_and(|status| status.success());
    if !can {
        skip(test, Need::Namespaces, "needs ptrace");
    }
    can
}

/// `command` shall not be able to trace.
fn forbid_tracing(command: &mut Command) {
    let instruction = |code: u32, k: u32, jt: u8| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let filter = [
        // The number of the system call is the first word of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        libc::sock_filter {
            jf: 1,
            ..instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_ptrace as u32, 0)
        },
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    // SAFETY: a system call on a filter that lives in the closure; the kernel copies it.
    unsafe {
        command.pre_exec(move || {
            let mut filter = filter;
            let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
            if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Runs `program` with another one beside it.
fn side_by_side(bench: &Bench, program: &str, co_run: &str) -> Document {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "120"]);
    reported(bench, command, program, co_run)
}

/// … cox being started by `command`.
fn reported(bench: &Bench, mut command: Command, program: &str, co_run: &str) -> Document {
    let json = bench.folder().join("cox.json");
    command.args([COX, "run", "--co-run", co_run, "--json"]).arg(&json).arg("--");
    let output = command.args(program.split(' ')).current_dir(bench.folder()).output().expect("start cox");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("side by side: A "), "{text}");
    serde_json::from_slice(&fs::read(&json).expect("the account")).expect("a document")
}

fn co_run(document: &Document) -> &CoRun {
    document.account.co_run.as_ref().expect("programs side by side")
}

/// While these ran.
fn phase<'d>(co_run: &'d CoRun, running: &[usize]) -> &'d Phase {
    co_run.phases.iter().find(|phase| phase.running == running).expect("such a phase")
}

fn idle(phase: &Phase, usable_by: &[usize]) -> u64 {
    phase.idle.iter().find(|idle| idle.usable_by == usable_by).map_or(0, |idle| idle.idle_ns)
}

fn sum(document: &Document, program: usize, of: impl Fn(&Thread) -> u64) -> u64 {
    ledger::summary::threads_of(&document.account.programs[program]).map(of).sum()
}

/// Where two times differ by more than 2 % of the longer, and by more than what a switch takes.
fn apart(what: &str, a_ns: u64, b_ns: u64) -> Option<String> {
    let limit = (a_ns.max(b_ns) / 50).max(200_000);
    (a_ns.abs_diff(b_ns) > limit).then(|| format!("{what}: {a_ns} ns and {b_ns} ns"))
}

/// What must hold whatever was staged: parts sum to wholes, and to the account.
fn closes(document: &Document) -> Vec<String> {
    let co_run = co_run(document);
    let cpus = document.account.cpus.len() as u64;
    let mut faults: Vec<String> = Vec::new();
    for phase in &co_run.phases {
        let idle: u64 = phase.idle.iter().map(|idle| idle.idle_ns).sum();
        let parts = phase.run_ns.iter().sum::<u64>() + phase.others_ns + idle + phase.unseen_ns;
        faults.extend((parts != cpus * phase.length_ns).then(|| format!("{phase:?} does not sum to {cpus} CPUs")));
    }
    for (program, waited) in co_run.waited.iter().enumerate() {
        let runs: u64 = co_run.phases.iter().map(|phase| phase.run_ns[program]).sum();
        faults.extend(apart("run", runs, sum(document, program, |thread| thread.run_ns)));
        let waits =
            waited.behind_ns.iter().sum::<u64>() + waited.behind_others_ns + waited.behind_idle_ns + waited.unseen_ns;
        faults.extend(apart("waits", waits, sum(document, program, |t| t.wake_delay_ns + t.preempt_wait_ns)));
    }
    faults
}

/// A spinner of 0.6 s on CPU 0, and a program on CPU 1 that reads and writes memory for 1.2 s. `spinner`: its place.
fn apart_on_two_cpus(document: &Document, spinner: usize) {
    let co_run = co_run(document);
    let memory = 1 - spinner;
    let (both, alone) = (phase(co_run, &[0, 1]), phase(co_run, &[memory]));
    let mut faults = closes(document);
    // They begin one after the other, and an end is noticed when cox looks.
    let life_ns = document.account.programs[spinner].wall_ns;
    faults.extend(
        (both.length_ns.abs_diff(life_ns) > life_ns / 50 + 100_000_000).then(|| format!("{life_ns} ns, {both:?}")),
    );
    // Each has its CPU, but for what others took of it.
    faults.extend(apart(
        "both CPUs",
        both.run_ns.iter().sum::<u64>() + both.others_ns,
        2 * both.length_ns - idle(both, &[spinner]) - idle(both, &[memory]),
    ));
    let taken = co_run.waited[spinner].behind_ns[memory] + co_run.waited[memory].behind_ns[spinner];
    // Until taskset has moved each to its own they may be on one: milliseconds, more where others want the CPU, too.
    faults.extend((taken > both.length_ns / 50 + 50_000_000).then(|| format!("{taken} ns taken from one another")));
    // Behind the spinner's end nobody may use its CPU: idle, nobody's. That of the other is its own.
    assert_eq!(alone.run_ns[spinner], 0);
    // How much that is hangs on who else is on this machine; whose it is does not.
    let nobodys = idle(alone, &[]);
    let of_the_dead = alone.idle.iter().any(|idle| idle.usable_by.contains(&spinner));
    faults.extend(of_the_dead.then(|| format!("idle time of one that has ended: {alone:?}")));
    faults.extend(apart(
        "the spinner's CPU and the other one",
        nobodys + alone.others_ns + alone.run_ns[memory] + idle(alone, &[memory]) + alone.unseen_ns,
        2 * alone.length_ns,
    ));
    assert_none(&faults);
}

#[test]
fn a_pair_on_two_cpus_takes_nothing_from_one_another() {
    let Some(bench) = bench("a_pair_on_two_cpus_takes_nothing_from_one_another") else { return };
    let (spinner, memory) = (on_cpu(0, "known-spin --seconds 0.6"), on_cpu(1, "triad --seconds 1.2"));
    apart_on_two_cpus(&side_by_side(&bench, &spinner, &memory), 0);
    // In the other order.
    apart_on_two_cpus(&side_by_side(&bench, &memory, &spinner), 1);
}

#[test]
fn a_pair_on_one_cpu_takes_from_the_other_what_it_runs() {
    let Some(bench) = bench("a_pair_on_one_cpu_takes_from_the_other_what_it_runs") else { return };
    // Both always want the CPU while both run, so what one runs the other waits.
    let hog = |seconds: &str| format!("{WORKLOADS}/hog --seconds {seconds}");
    // From their first instruction on: cox is there, too, and sleeps.
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "timeout", "--foreground", "120"]);
    let document = reported(&bench, command, &hog("0.5"), &hog("1"));
    let co_run = co_run(&document);
    let both = phase(co_run, &[0, 1]);
    let mut faults = closes(&document);
    for (one, other) in [(0, 1), (1, 0)] {
        faults.extend(apart("behind the other", co_run.waited[one].behind_ns[other], both.run_ns[other]));
        faults.extend((both.run_ns[one] < both.length_ns / 10).then(|| format!("{one} hardly ran: {both:?}")));
    }
    // CPU 1 was for neither.
    let may_use = both.idle.iter().filter(|idle| !idle.usable_by.is_empty()).map(|idle| idle.idle_ns).sum::<u64>();
    faults.extend((may_use > both.length_ns / 50).then(|| format!("CPU 0 was idle: {both:?}")));
    assert_none(&faults);
}

#[test]
fn exit_code_and_input_are_the_programs_and_both_are_waited_for() {
    let Some(bench) = bench("exit_code_and_input_are_the_programs_and_both_are_waited_for") else { return };
    let script = bench.folder().join("in");
    fs::write(&script, "for the program\n").expect("write");
    let done = bench.folder().join("done");
    let co_run = format!("sh -c 'read line; sleep 0.3; echo \"got $line\" > {}; exit 3'", done.display());
    let mut command = Command::new(COX);
    command.args(["run", "-q", "--co-run", &co_run, "--", "sh", "-c", "read line; echo \"$line\"; exit 7"]);
    let output = command.stdin(fs::File::open(&script).expect("open")).output().expect("start cox");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "for the program\n");
    assert_eq!(fs::read_to_string(done).expect("it has ended"), "got \n");
}

#[test]
fn what_cannot_run_is_refused_before_anything_starts() {
    let Some(bench) = bench("what_cannot_run_is_refused_before_anything_starts") else { return };
    if !can_trace("what_cannot_run_is_refused_before_anything_starts") {
        return;
    }
    let touched = bench.folder().join("touched");
    let refused = |options: &[&str], code: i32, why: &str| {
        let mut command = Command::new(COX);
        let output = command.arg("run").args(options).args(["--", "touch"]).arg(&touched).output().expect("start cox");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(why), "{options:?}: {said}");
        assert!(!Path::new(&touched).exists(), "{options:?}: the program has run");
    };
    refused(&["--co-run", "no-such-program at all"], 127, "no-such-program");
    let script = bench.folder().join("script");
    fs::write(&script, "echo no first line\n").expect("write");
    // As for a single program: it is there, and may not be executed.
    refused(&["--co-run", &script.display().to_string()], 126, "permission denied");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("chmod");
    refused(&["--co-run", &script.display().to_string()], 126, "neither a binary for this machine nor a script");
    refused(&["--co-run", "sh -c 'no end"], 125, "unclosed quote");
    refused(&["--co-run", ""], 125, "the command is empty");
    refused(&["--backend", "proc", "--co-run", "true"], 125, "need eBPF");
}

#[test]
fn none_begins_unless_all_can_be_executed() {
    let Some(bench) = bench("none_begins_unless_all_can_be_executed") else { return };
    if !can_trace("none_begins_unless_all_can_be_executed") {
        return;
    }
    let executable = |name: &str, bytes: &[u8]| {
        let path = bench.folder().join(name);
        fs::write(&path, bytes).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path.display().to_string()
    };
    // Only an exec finds that these cannot be executed.
    let script = executable("script", b"#!/no/such/interpreter\n");
    let foreign = executable("foreign", b"\x7fELF\x01\x02\x01 of another machine");
    for (last, why) in [(script, "its interpreter does not exist"), (foreign, "neither a binary for this machine")] {
        let touched = bench.folder().join("touched");
        let mut command = Command::new(COX);
        command.arg("run");
        // Time for the first, were it let go before the last.
        command.args(["--co-run", "true"].repeat(12));
        command.args(["--co-run", &last, "--", "touch"]).arg(&touched);
        let output = command.output().expect("start cox");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(126), 1), "{said}");
        assert!(said.contains(&last) && said.contains(why), "{said}");
        assert!(!touched.exists(), "the program has run");
    }
}

#[test]
fn where_nothing_may_be_traced_it_is_said_and_the_exec_tells() {
    let Some(bench) = bench("where_nothing_may_be_traced_it_is_said_and_the_exec_tells") else { return };
    let foreign = bench.folder().join("foreign");
    fs::write(&foreign, b"\x7fELF\x01\x02\x01 of another machine").expect("write");
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).expect("chmod");
    for (co_run, code, lines) in [("true", 0, 1), (&*foreign.display().to_string(), 126, 2)] {
        let mut command = Command::new(COX);
        command.args(["run", "-q", "--co-run", co_run, "--", "true"]);
        forbid_tracing(&mut command);
        let output = command.output().expect("start cox");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), lines), "{said}");
        assert!(
            said.starts_with("cox: cannot check beforehand whether all programs can be executed: 'true' "),
            "{said}"
        );
    }
}

#[test]
fn the_page_has_it_too_and_one_of_one_program_has_not() {
    let Some(bench) = bench("the_page_has_it_too_and_one_of_one_program_has_not") else { return };
    let page = |options: &[&str]| {
        let file = bench.folder().join("page.html");
        let mut command = Command::new(COX);
        command.args(["run", "-q", "--html"]).arg(&file).args(options).args(["--", "sleep", "0.1"]);
        assert!(command.status().expect("start cox").success());
        fs::read_to_string(file).expect("a page")
    };
    let together = page(&["--co-run", "sleep 0.2"]);
    assert!(together.contains("id=\"beside\"") && together.contains("behind A") && together.contains("A+B"));
    let alone = page(&[]);
    assert!(!alone.contains("beside") && !alone.contains("side by side"));
}
