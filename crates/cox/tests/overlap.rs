//! `cox run --overlap`: tasks that block, with and without doorbells.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::measured::assert_on_idle_cpus;
use testkit::overlapped::{Place, THREADS, WAYS, number, rounds, threads_and_ways, with_program};
use testkit::run::{COX, NOBODY, as_user, path, through, turn};

fn place(test: &str, flags: &[&str]) -> Option<Place> {
    with_program(test, "tests/programs/blocked.c", flags)
}

#[test]
fn tasks_that_wait_for_later_tasks_are_let_go() {
    let Some(place) = place("tasks_that_wait_for_later_tasks_are_let_go", &[]) else { return };
    for what in ["receives", "full-pipe", "critical", "locks", "children", "nested", "first-tasks"] {
        for (threads, way) in threads_and_ways() {
            let output = place.run(way, &[what], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {what}, {threads} threads: {output:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            let report = place.report();
            assert!(number(&report, "standbys") > 0 && number(&report, "tasks") > 0, "{what}: {report}");
            assert_eq!(report["diagnostics"], Value::Array(Vec::new()));
        }
    }
}

/// Members that have gone from a region's end leave their numbers to those who run its tasks. (One thread could not run them under libgomp either.)
#[test]
fn tasks_that_ask_for_a_number_need_no_member() {
    let Some(place) = place("tasks_that_ask_for_a_number_need_no_member", &[]) else { return };
    for what in ["first-tasks-ask", "first-tasks-known-to-ask"] {
        for (threads, way) in threads_and_ways().filter(|(threads, _)| *threads != "1") {
            let output = place.run(way, &[what], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {what}, {threads} threads: {output:?}");
        }
    }
}

/// What OpenMP promises about tasks (`preload`'s suite, which libgomp passes), with standbys among those who run them. Takes over 20 s: the
/// suite, three times, with every number of threads and every backend.
#[test]
fn openmps_promises_are_kept() {
    let suite = "../preload/tests/programs/tasks.c";
    let Some(place) = with_program("openmps_promises_are_kept", suite, &[]) else { return };
    let rounds = rounds(3);
    for (threads, way) in threads_and_ways() {
        let output = place.run(way, &[&rounds], threads);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "kept\n", "{way}, {threads} threads: {output:?}");
        assert_eq!(output.status.code(), Some(0), "{threads} threads");
    }
}

/// Also behind more tasks than are kept: who makes one does not do it in the place of the next. On one CPU, where nobody else takes them meanwhile.
#[test]
fn receives_behind_many_tasks_are_let_go() {
    let Some(place) = place("receives_behind_many_tasks_are_let_go", &[]) else { return };
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let one = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap().to_string();
    for way in WAYS {
        let mut command = through(&["taskset", "-c", &one], &place.cox(way, &["late-sends"], "1"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{way}: {output:?}");
    }
}

/// cox is outside, and the ids that the program lists for the doorbells are not those that cox knows.
#[test]
fn receives_in_a_container_are_let_go_from_outside() {
    let test = "receives_in_a_container_are_let_go_from_outside";
    let Some(place) = place(test, &[]) else { return };
    if !testkit::container::can_have_containers(test) {
        return;
    }
    let [unshare, options @ ..] = testkit::container::CONTAINER;
    for way in WAYS {
        let mut cox = place.cox_of(way, Path::new(unshare));
        cox.args(options).arg(&place.program).args(["receives", "1"]).env("OMP_NUM_THREADS", "2");
        let output = cox.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{way}: {output:?}");
        let report = place.report();
        assert!(number(&report, "standbys") > 0 && number(&report, "tasks") > 0, "{way}: {report}");
        // Idle threads need no notice of blocks.
        assert!(number(&report, "blocks") > 0 || way == "--overlap=standby-idle", "{way}: {report}");
    }
}

/// CPUs that are never idle ring no standby: those that are at work begin all chains, and do not go through one after the other.
#[test]
fn chains_of_tasks_that_block_go_forward_together() {
    let test = "chains_of_tasks_that_block_go_forward_together";
    let Some(place) = with_program(test, "tests/programs/chains.c", &[]) else { return };
    assert_on_idle_cpus(test, || {
        let output = place.run("--overlap=bpf", &["chains"], "2");
        if output.status.code() == Some(0) { Vec::new() } else { vec![format!("{output:?}")] }
    });
}

/// A standby whose tasks do not wait for storage takes the CPU from no thread when it wakes up. To the program's own threads nothing is changed.
#[test]
fn standbys_stand_back_and_members_do_not() {
    let Some(place) = with_program("standbys_stand_back_and_members_do_not", "tests/programs/chains.c", &[]) else {
        return;
    };
    let output = place.run("--overlap=bpf", &["scheduling"], "2");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The same tasks hang where blocked threads go unnoticed: what lets them go above is the doorbell.
#[test]
fn without_doorbells_they_are_not() {
    let Some(place) = place("without_doorbells_they_are_not", &[]) else { return };
    for what in ["receives", "critical"] {
        let output = place.run("--overlap=off", &[what, "1"], "2");
        assert_eq!(output.status.code(), Some(3), "{what}: {output:?}");
        let report = place.report();
        assert_eq!((report["backend"].as_str(), number(&report, "standbys")), (Some("off"), 0));
    }
}

#[test]
fn no_two_tasks_have_one_number_at_a_time() {
    let Some(place) = place("no_two_tasks_have_one_number_at_a_time", &[]) else { return };
    for (what, way) in ["numbers", "own-numbers", "regions"].iter().flat_map(|what| WAYS.map(|way| (*what, way))) {
        let mut helped = 0;
        for threads in THREADS {
            let output = place.run(way, &[what], threads);
            assert_eq!(output.status.code(), Some(0), "{way}, {what}, {threads} threads: {output:?}");
            let report = place.report();
            helped += number(&report, "tasks");
            assert!(!report.to_string().contains("same thread number"), "{what}: {report}");
        }
        // Who asks is left to members from the first time on: in one run that may be before a standby has come.
        assert!(helped > 0 || what == "own-numbers", "{way}, {what}: standbys ran none");
    }
}

#[test]
fn tasks_with_thread_local_data_stay_on_their_team() {
    let Some(place) = place("tasks_with_thread_local_data_stay_on_their_team", &["-DPRIVATE_DATA"]) else { return };
    for (threads, way) in threads_and_ways() {
        let output = place.run(way, &["private-data"], threads);
        assert_eq!(output.status.code(), Some(0), "{way}, {threads} threads: {output:?}");
        let report = place.report();
        assert_eq!(number(&report, "standbys"), 0, "{way}, {threads} threads");
        assert!(report["diagnostics"][0].as_str().unwrap().contains("thread-local variables"), "{report}");
    }
}

/// Standbys would inherit the place of the thread that makes them.
#[test]
fn tasks_of_bound_threads_stay_on_them() {
    let Some(place) = place("tasks_of_bound_threads_stay_on_them", &[]) else { return };
    let output = place.cox("--overlap=bpf", &["sums"], "2").env("OMP_PROC_BIND", "true").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"19900\n"[..]));
    let report = place.report();
    assert_eq!(number(&report, "standbys"), 0);
    assert!(report["diagnostics"][0].as_str().unwrap().contains("bound to places"), "{report}");
}

#[test]
fn where_tasks_never_block_nobody_is_rung() {
    let Some(place) = place("where_tasks_never_block_nobody_is_rung", &[]) else { return };
    // A program of another kind: nobody asks.
    let mut command = Command::new(COX);
    command.args(["run", "-q", "--json", &path(&place.folder, "report.json"), "--overlap", "--", "true"]);
    assert!(command.env("COX_PRELOAD", &place.library).status().unwrap().success());
    let report = place.report();
    assert_eq!((number(&report, "processes"), number(&report, "rings")), (0, 0));
    assert!(report["diagnostics"][0].as_str().unwrap().contains("no process asked"), "{report}");
}

/// Doorbells are for tasks. Who has to be woken to find out that there is none says so.
#[test]
fn a_block_with_nothing_pending_wakes_nobody() {
    let Some(place) = place("a_block_with_nothing_pending_wakes_nobody", &[]) else { return };
    for way in WAYS {
        let output = place.run(way, &["nothing-pending"], "2");
        assert_eq!(output.status.code(), Some(0), "{way}: {output:?}");
        let report = place.report();
        let [rings, empty] = ["rings", "empty_rings"].map(|name| number(&report, name));
        let tells_all = matches!(way, "--overlap=perf" | "--overlap=leader");
        assert!(number(&report, "standbys") > 0, "{report}");
        assert_eq!((rings > 0, empty), (tells_all, rings), "{way}: {report}");
    }
}

#[test]
fn the_program_goes_on_when_cox_is_killed() {
    let Some(place) = place("the_program_goes_on_when_cox_is_killed", &[]) else { return };
    WAYS.iter().for_each(|way| goes_on_when_cox_is_killed(&place, way));
}

fn goes_on_when_cox_is_killed(place: &Place, way: &str) {
    let mut command = place.cox(way, &["until-told"], "2");
    let mut cox = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(cox.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    cox.kill().unwrap();
    let told = cox.stdin.take();
    cox.wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(told);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "all ran\n");
    let mut stderr = String::new();
    cox.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("cox: overlap has ended") && stderr.lines().count() == 1, "{stderr}");
}

/// Programs whose tasks cannot be taken over run as they are, and one line says why.
#[test]
fn unfit_programs_run_untouched() {
    let Some(place) = place("unfit_programs_run_untouched", &["-static"]) else { return };
    // In clang's words, so that no clang with its runtime has to be there.
    let clangs = place.folder.path().join("clangs");
    let source = place.folder.path().join("clangs.c");
    fs::write(
        &source,
        "#include <stdlib.h>\nvoid __kmpc_fork_call(void) __attribute__((weak));\n\
         int main(void) { return getenv(\"LD_PRELOAD\") || getenv(\"COX_OVERLAP\") ? 1 : __kmpc_fork_call ? 2 : 0; }\n",
    )
    .unwrap();
    assert!(Command::new("cc").arg("-fPIC").arg(&source).arg("-o").arg(&clangs).status().unwrap().success());
    for (program, arguments, why) in
        [(&place.program, &["sums"][..], "statically linked"), (&clangs, &[][..], "compiled by clang")]
    {
        let mut command = Command::new(COX);
        command.args(["run", "-q", "--json", &path(&place.folder, "report.json"), "--overlap", "--"]);
        command.arg(program).args(arguments).env("COX_PRELOAD", &place.library).env("OMP_NUM_THREADS", "2");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.starts_with("cox: ")).unwrap_or_default();
        assert!(
            line.contains(why) && line.contains("the program runs unchanged") && said.lines().count() == 1,
            "{said}"
        );
        assert!(place.report()["diagnostics"][0].as_str().unwrap().contains(why));
    }
}

/// A user without privileges gets records of switches, or sentinels, and is told why not eBPF.
#[test]
fn without_privileges_blocks_are_noticed_too() {
    let Some(place) = place("without_privileges_blocks_are_noticed_too", &[]) else { return };
    // Other tests change perf_event_paranoid while they hold the lock.
    let _turn = turn();
    let folder = place.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let [cox, library] = [Path::new(COX), &place.library].map(|file| {
        let copy = folder.join(file.file_name().unwrap());
        fs::copy(file, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        copy
    });
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let has_records = paranoid.trim().parse::<i32>().unwrap() <= 2;
    let best = if has_records { "the kernel's context-switch records" } else { "idle-class sentinels" };
    for (how, heading) in [("auto", best), ("perf", best), ("standby-idle", "idle-class sentinels")] {
        let mut command = Command::new("setpriv");
        command.args(as_user(NOBODY)).arg(&cox);
        command.args(["run", &format!("--overlap={how}"), "--"]).arg(&place.program).arg("receives");
        command.env("OMP_NUM_THREADS", "2").env("COX_PRELOAD", &library).current_dir("/tmp").stdin(Stdio::null());
        let output = command.output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        if how == "perf" && !has_records {
            assert!(output.status.code() == Some(125) && report.contains("perf_event_paranoid"), "{report}");
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{report}");
        assert!(report.contains(&format!("overlap: {heading}")), "{how}: {report}");
        assert_eq!(report.contains("overlap does not use eBPF: "), how == "auto", "{how}: {report}");
    }
}

#[test]
fn the_same_inside_containers() {
    let tests = [
        "receives_behind_many_tasks_are_let_go",
        "no_two_tasks_have_one_number_at_a_time",
        "where_tasks_never_block_nobody_is_rung",
        "without_privileges_blocks_are_noticed_too",
    ];
    testkit::container::again_in_containers("the_same_inside_containers", &tests);
}
