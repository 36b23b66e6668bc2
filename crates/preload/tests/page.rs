//! The preload library inside programs: it counts their barriers, and the programs are not affected.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Report, compile, inside, library, reports, run};
use testkit::skip::{Need, skip};
use wire::preload::{LIBGOMP, LIBOMP, PTHREAD, ROLE_TEAM, SLOTS, TASKS};

/// Phases of one round of gomp.c: its region's first, one behind an explicit barrier, two loops and the sections
/// each, and two behind what is copied from the single; then one for each of five combined constructs.
const GOMP_PHASES: u64 = 1 + 1 + 2 + 1 + 2 + 5;

/// The user called nobody.
const NOBODY: u32 = 65534;

fn openmp(name: &str) -> PathBuf {
    compile("gomp.c", name, &["-fopenmp"])
}

fn one(text: &str) -> Report {
    let mut all = reports(text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

#[test]
fn libgomps_barriers_are_counted_alike_in_all_threads() {
    let program = openmp("gomp");
    let report = one(&inside(Command::new(&program).arg("50").env("OMP_NUM_THREADS", "3")));
    assert_eq!((report.given, report.seen, report.team_threads), (3, u64::from(LIBGOMP), 3), "{report:?}");
    for thread in &report.threads {
        let is_first = thread.tid == report.pid;
        assert_eq!(thread.role, u64::from(ROLE_TEAM), "{report:?}");
        // The others wait for a region, and the first thread's working alone does not let them go.
        assert_eq!((thread.in_barrier, thread.phases), (u64::from(!is_first), 50 * GOMP_PHASES), "{report:?}");
    }
}

#[test]
fn tasks_are_noted_and_still_run() {
    let program = openmp("gomp-tasks");
    let report = one(&inside(Command::new(&program).args(["2", "tasks"]).env("OMP_NUM_THREADS", "3")));
    assert_eq!(report.seen, u64::from(LIBGOMP | TASKS));
}

#[test]
fn a_program_of_one_thread_meets_nobody() {
    let program = openmp("gomp-one");
    let report = reports(&inside(Command::new(&program).arg("3").env("OMP_NUM_THREADS", "1")));
    assert!(
        report.iter().all(|report| report.team_threads == 0 && report.threads.iter().all(|thread| thread.phases == 0)),
        "{report:?}"
    );
}

#[test]
fn pthread_barriers_are_counted_and_ends_are_noted() {
    let program = compile("posix.c", "posix", &[]);
    let text = inside(Command::new(&program).args(["4", "25"]));
    assert!(text.starts_with("met 25\n"), "{text}");
    let report = one(&text);
    assert_eq!((report.given, report.seen, report.team_threads), (4, u64::from(PTHREAD), 0));
    assert!(report.threads.iter().all(|t| (t.in_barrier, t.phases, t.ended) == (0, 25, 1)), "{report:?}");
}

#[test]
fn a_forked_child_has_memory_of_its_own() {
    let program = compile("posix.c", "posix-fork", &[]);
    let text = inside(Command::new(&program).args(["3", "5", "fork"]));
    let all = reports(&text);
    // Before the fork, in the child, in the parent afterwards. The child begins with nothing.
    assert_eq!((all.len(), text.lines().filter(|line| *line == "nobody").count()), (3, 1), "{text}");
    let (before, child, after) = (&all[0], &all[1], &all[2]);
    assert_ne!(child.pid, before.pid);
    assert_eq!((before.given, child.given, after.given), (3, 3, 4), "{text}");
    assert_eq!(after.threads[..3], before.threads[..]);
}

/// More threads at once than there are slots: they run all the same, and are counted.
#[test]
fn threads_beyond_the_table_go_without() {
    let program = compile("posix.c", "posix-crowd", &[]);
    let count = SLOTS as u64 + 50;
    let text = inside(Command::new(&program).args([&count.to_string(), "3"]));
    assert!(text.starts_with("met 3\n"));
    let report = one(&text);
    assert_eq!((report.given, report.threads.len()), (count, SLOTS));
    assert!(report.threads.iter().all(|t| (t.phases, t.ended) == (3, 1)), "{report:?}");
}

/// As in an interpreter: nothing of OpenMP in the global scope, and each module with a library of its own.
#[test]
fn each_module_reaches_its_own_libgomp() {
    let libgomp = run(Command::new("cc").arg("-print-file-name=libgomp.so"));
    let libgomp = fs::canonicalize(String::from_utf8(libgomp.stdout).unwrap().trim()).unwrap();
    let one = compile("module.c", "one.so", &["-fopenmp", "-fPIC", "-shared"]);
    // The loader knows libraries by the name inside.
    let folder = one.parent().unwrap();
    let mut bytes = fs::read(libgomp).unwrap();
    let name = bytes.windows(13).position(|window| window == b"libgomp.so.1\0").expect("the name");
    bytes[name..name + 12].copy_from_slice(b"libgomX.so.1");
    let other = folder.join("libgomX.so.1");
    fs::write(&other, bytes).unwrap();
    // The options of -fopenmp for the compiler, without its library.
    let object = compile("module.c", "two.o", &["-fopenmp", "-fPIC", "-c"]);
    let two = folder.join("two.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-pthread", "-o"]).args([&two, &object, &other]).arg("-Wl,-rpath,$ORIGIN");
    assert!(cc.status().unwrap().success(), "{cc:?}");
    let program = compile("loads.c", "loads", &["-ldl"]);
    let text = inside(Command::new(program).args([&one, &two]));
    // 0 + 1 + 2, and 3 threads counted by 3 threads.
    assert_eq!(text.matches("sum 93\n").count(), 4, "{text}");
    let report = common::reports(&text);
    // The first thread, and two for each library.
    assert_eq!((report[0].given, report[0].team_threads), (5, 5), "{text}");
    // Two regions and two barriers each; teams take over what their first thread has counted.
    let phases: Vec<u64> = report[0].threads.iter().map(|thread| thread.phases).collect();
    assert_eq!(phases, [8, 6, 6, 8, 8], "{text}");
}

#[test]
fn a_static_program_is_as_without_it() {
    let program = compile("posix.c", "posix-static", &["-static"]);
    let text = inside(Command::new(program).args(["3", "5"]));
    assert!(text.starts_with("met 5\n") && text.ends_with("nobody\n"), "{text}");
}

#[test]
fn other_programs_do_not_notice() {
    let plain = run(Command::new("/bin/ls").arg("/"));
    assert_eq!(inside(Command::new("/bin/ls").arg("/")).into_bytes(), plain.stdout);
    // By the name of its memory: the library's own path may have any name in it.
    let script =
        "import os; print(open('/proc/self/maps').read().count('/memfd:coxswain'), len(os.listdir('/proc/self/fd')))";
    let plain = run(Command::new("python3").args(["-c", script]));
    assert_eq!(inside(Command::new("python3").args(["-c", script])).into_bytes(), plain.stdout);
}

#[test]
fn no_descriptor_stays_open() {
    let program = compile("posix.c", "posix-fds", &[]);
    let next = |text: &str| text.lines().find(|line| line.starts_with("next")).unwrap().to_owned();
    let plain = run(Command::new(&program).args(["2", "2"]));
    let inside = inside(Command::new(&program).args(["2", "2"]));
    assert_eq!((reports(&inside).len(), next(&inside)), (1, next(&String::from_utf8(plain.stdout).unwrap())));
}

/// cox may not open the mappings of a user's program.
#[test]
fn a_users_program_keeps_a_descriptor_that_nobody_counts_on() {
    let (program, library) = (compile("posix.c", "posix-user", &[]), library());
    let folder = tempfile::tempdir().unwrap();
    // Copies: others may not be able to enter the folders where these were built.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |file: &Path| {
        let place = folder.path().join(file.file_name().unwrap());
        fs::copy(file, &place).unwrap();
        place
    };
    let (program, library) = (copy(&program), copy(&library));
    let kept = |mode: &str| {
        let mut command = Command::new(&program);
        command.args(["2", "2", mode]).env("LD_PRELOAD", &library).current_dir("/");
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        let text = String::from_utf8(run(&mut command).stdout).unwrap();
        assert_eq!(reports(&text).len(), 3, "{text}");
        assert!(text.contains("next 3\n"), "the next one is what it would be without: {text}");
        let kept = text.lines().filter_map(|line| line.strip_prefix("kept "));
        kept.map(|kept| kept.parse().unwrap()).collect::<Vec<i32>>()
    };
    // In the child, which has no business with its parent's; in the child again; in the parent.
    assert_eq!(kept("fork"), [-1, 1, 1]);
    assert_eq!(kept("reuse"), [0, 0, 0], "what the program has put there stays");
}

/// Where no memory can be had the program goes on, with its errno as it was: it looks.
#[test]
fn without_memory_the_program_is_as_without_it() {
    let program = compile("posix.c", "posix-poor", &[]);
    assert_eq!(inside(Command::new(program).args(["3", "5", "poor"])), "met 5\nnext -1\nnobody\n");
}

#[test]
fn told_to_be_alone_it_takes_itself_out_of_the_environment() {
    let script = "echo \"${LD_PRELOAD-none},${COX_PRELOAD_ALONE-none}\"";
    let alone = |list: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("LD_PRELOAD", list).env("COX_PRELOAD_ALONE", library());
        String::from_utf8(run(&mut command).stdout).unwrap()
    };
    let path = library().into_os_string().into_string().unwrap();
    assert_eq!(alone(&path), "none,none\n");
    assert_eq!(alone(&format!("/lib/x.so:{path}")), "/lib/x.so,none\n");
    assert_eq!(alone(&format!("{path} /lib/x.so:/lib/y.so")), "/lib/x.so:/lib/y.so,none\n");
    assert_eq!(inside(Command::new("sh").args(["-c", script])), format!("{path},none\n"));
}

/// libomp has libgomp's functions, for programs of gcc's; it tells its barriers itself.
#[test]
fn libomps_barriers_are_counted_once() {
    let test = "libomps_barriers_are_counted_once";
    let Some(libomp) = libomp() else { return skip(test, Need::Libomp, "needs libomp (libomp-19-dev)") };
    let program = openmp("gomp-libomp");
    let folder = program.parent().unwrap().join("libomp");
    fs::create_dir_all(&folder).unwrap();
    let link = folder.join("libgomp.so.1");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(libomp, &link).unwrap();
    let command = |tasks: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("50").args(tasks).env("OMP_NUM_THREADS", "3").env("LD_LIBRARY_PATH", &folder);
        command
    };
    let report = one(&inside(&mut command(&[])));
    assert_eq!((report.given, report.seen, report.team_threads), (3, u64::from(LIBOMP), 0), "{report:?}");
    for thread in &report.threads {
        let is_first = thread.tid == report.pid;
        // libomp's threads meet once more for what is copied from a single.
        assert_eq!((thread.in_barrier, thread.phases), (u64::from(!is_first), 50 * (GOMP_PHASES + 1)), "{report:?}");
    }
    assert_eq!(one(&inside(&mut command(&["tasks"]))).seen & u64::from(TASKS), u64::from(TASKS));
    // A program's own tool comes first.
    let report = common::reports(&inside(command(&[]).env("OMP_TOOL_LIBRARIES", "/no/such/tool.so")));
    assert!(report.iter().all(|report| report.seen == 0), "{report:?}");
}

fn libomp() -> Option<PathBuf> {
    let versions = (14..=24).rev().map(|version| format!("/usr/lib/llvm-{version}/lib/libomp.so.5"));
    versions.map(PathBuf::from).find(|path| Path::exists(path))
}

/// Nothing but what is interposed is to be seen, no symbol of a glibc later than the library says it needs, and no other library.
#[test]
fn its_symbols_are_those_it_says() {
    let nm = |which: &str| {
        let output = run(Command::new("nm").args(["-D", which]).arg(library()));
        String::from_utf8(output.stdout).unwrap()
    };
    let defined = nm("--defined-only");
    let names: Vec<&str> = defined.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let known = |name: &&str| {
        const OTHERS: [&str; 58] = [
            "MPI_Allgather",
            "MPI_Allreduce",
            "MPI_Alltoall",
            "MPI_Barrier",
            "omp_fulfill_event",
            "omp_fulfill_event_",
            "omp_get_active_level",
            "omp_get_active_level_",
            "omp_get_ancestor_thread_num",
            "omp_get_ancestor_thread_num_",
            "omp_get_ancestor_thread_num_8_",
            "omp_get_level",
            "omp_get_level_",
            "omp_get_nested",
            "omp_get_nested_",
            "omp_get_num_teams",
            "omp_get_num_teams_",
            "omp_get_num_threads",
            "omp_get_num_threads_",
            "omp_get_team_num",
            "omp_get_team_num_",
            "omp_get_team_size",
            "omp_get_team_size_",
            "omp_get_team_size_8_",
            "omp_get_thread_limit",
            "omp_get_thread_limit_",
            "omp_get_thread_num",
            "omp_get_thread_num_",
            "omp_in_final",
            "omp_in_final_",
            "omp_in_parallel",
            "omp_in_parallel_",
            "omp_set_default_allocator",
            "omp_set_default_allocator_",
            "omp_set_default_device",
            "omp_set_default_device_",
            "omp_set_default_device_8_",
            "omp_set_dynamic",
            "omp_set_dynamic_",
            "omp_set_dynamic_8_",
            "omp_set_max_active_levels",
            "omp_set_max_active_levels_",
            "omp_set_max_active_levels_8_",
            "omp_set_nest_lock",
            "omp_set_nest_lock_",
            "omp_set_nested",
            "omp_set_nested_",
            "omp_set_nested_8_",
            "omp_set_num_threads",
            "omp_set_num_threads_",
            "omp_set_num_threads_8_",
            "omp_set_schedule",
            "omp_set_schedule_",
            "omp_set_schedule_8_",
            "omp_test_nest_lock",
            "omp_test_nest_lock_",
            "ompt_start_tool",
            "pthread_barrier_wait",
        ];
        name.starts_with("GOMP_") || OTHERS.contains(name)
    };
    assert!(names.len() > 20 && names.iter().all(known), "{names:?}");
    let undefined = nm("--undefined-only");
    let versions = undefined.split("@GLIBC_").skip(1).map(|rest| rest.split_whitespace().next().unwrap());
    let parsed = versions.map(|version| version.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>());
    assert!(parsed.max().unwrap() <= vec![2, 34], "{undefined}");
    // Each further library would have to be loaded into every process of every program.
    let output = run(Command::new("readelf").arg("-d").arg(library()));
    let dynamic = String::from_utf8(output.stdout).unwrap();
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let named = |line: &str| ["[libc.so", "[ld-linux", "[libgcc_s.so"].iter().any(|name| line.contains(name));
    assert!(needed.clone().count() > 0 && needed.clone().all(named), "{dynamic}");
}
