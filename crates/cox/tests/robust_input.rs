//! Input and output: the program's streams and environment are the same as without cox, and every kind of bad input ends with one clear line and the
//! right exit code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use testkit::run::{Account, COX, Ran, both_ways, command, is_root, open_folder, path, run};
use testkit::skip::{Need, has};
use testkit::terminal::Terminal;

/// That cox said what is wrong in one line, and what that line contains.
#[track_caller]
fn assert_refused(ran: &Ran, code: i32, clue: &str) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("cox: ") && ran.stderr.ends_with('\n'), "{:?}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(clue), "no {clue:?} in {}", ran.stderr);
    assert_eq!(ran.text(), "");
}

/// Runs `cox ARGUMENTS`. A PATH that everybody may search: else a missing program is a forbidden one.
fn cox(arguments: &[&str]) -> Ran {
    run(Command::new(COX).args(arguments).env("PATH", "/usr/bin:/bin").stdin(Stdio::null()))
}

/// A file of that mode.
fn file(folder: &TempDir, name: &str, content: &str, mode: u32) -> String {
    let path = path(folder, name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn programs_that_cannot_be_run() {
    let folder = open_folder();
    let cases = [
        ("no-such-program".to_owned(), 127, "not found on PATH"),
        ("./no/such/program".to_owned(), 127, "no such file"),
        (String::new(), 127, "cannot run ''"),
        ("/".to_owned(), 126, "directory"),
        (path(&folder, ""), 126, "directory"),
        (file(&folder, "plain", "#!/bin/sh\n", 0o644), 126, "permission denied"),
        (file(&folder, "no-interpreter-line", "echo hello\n", 0o755), 126, "#!"),
        (file(&folder, "bad-interpreter", "#!/no/such/shell\n", 0o755), 126, "interpreter"),
        (file(&folder, "empty", "", 0o755), 126, "#!"),
        (file(&folder, "not-a-binary", "\x7fELF and no more", 0o755), 126, "binary"),
        (format!("{}/below", file(&folder, "a-file", "", 0o644)), 127, "no such file"),
        ("x".repeat(5000), 126, "cannot run"),
        ("two\nlines \x1b[31m".to_owned(), 127, "two\\nlines"),
    ];
    for (program, code, clue) in cases {
        assert_refused(&cox(&["run", "--", &program]), code, clue);
    }
}

#[test]
fn programs_that_cannot_be_run_leave_no_report_of_themselves() {
    let folder = open_folder();
    let json = path(&folder, "cox.json");
    assert_eq!(cox(&["run", "--json", &json, "--", "no-such-program"]).code, 127);
    assert_eq!(fs::read_to_string(json).unwrap_or_default(), "");
}

#[test]
fn command_lines_that_make_no_sense() {
    let folder = open_folder();
    let mark = path(&folder, "started");
    let own = std::process::id().to_string();
    let cases: [(&[&str], &str); 20] = [
        (&["--no-such-option", "--", "touch", &mark], "--no-such-option"),
        (&["-Q", "--", "touch", &mark], "-Q"),
        (&["--backend", "magic", "--", "touch", &mark], "auto, bpf, perf, proc"),
        (&["touch", &mark], "cox run -- touch"),
        (&[], "PROGRAM"),
        (&["--"], "PROGRAM"),
        (&["--json"], "--json"),
        (&["--for", "1s", "--", "touch", &mark], "--for"),
        (&["--pid", &own, "--", "touch", &mark], "--pid"),
        (&["--pid", &own, "--cgroup", "/"], "--cgroup"),
        (&["--pid", &own, "--wait-all"], "--wait-all"),
        (&["--pid", &own, "--for", "0"], "more than 0"),
        (&["--pid", &own, "--for", "-1s"], "-1"),
        (&["--pid", &own, "--for", "soon"], "soon"),
        (&["--pid", &own, "--for", "1e400s"], "1e400s"),
        (&["--pid", "nobody"], "nobody"),
        (&["--pid", "-1"], "-1"),
        (&["--pid", "99999999999999999999"], "99999999999999999999"),
        (&["--cgroup", "/no/such/group"], "/no/such/group"),
        (&["--cgroup", "../../../etc"], "etc"),
    ];
    for (options, clue) in cases {
        assert_refused(&cox(&[&["run"], options].concat()), 125, clue);
        assert!(!fs::exists(&mark).unwrap(), "{options:?} started the program");
    }
    assert_refused(&cox(&["walk"]), 2, "walk");
}

#[test]
fn processes_that_cannot_be_watched() {
    let mut ended = Command::new("true").spawn().unwrap();
    let zombie = ended.id().to_string();
    testkit::run::wait_for("a zombie", || testkit::run::state(ended.id()).is_none().then_some(()));
    let own = std::process::id().to_string();
    // This thread is not the main one: the test harness runs it.
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    // Far above every limit of the kernel (2^22).
    let nobody = "999999999";
    for (options, clue) in [
        (&["--pid", nobody][..], "no process 999999999"),
        (&["--pid", "0"], "no process 0"),
        (&["--pid", &own, "--pid", nobody], "no process 999999999"),
        (&["--pid", &zombie], "has ended"),
        (&["--pid", &thread], "is a thread of process"),
    ] {
        assert_refused(&cox(&[&["run", "--for", "60s"], options].concat()), 125, clue);
    }
    ended.wait().unwrap();
}

#[test]
fn a_kernel_thread_can_be_watched() {
    if !is_root("a_kernel_thread_can_be_watched") {
        return;
    }
    // kthreadd, in the initial pid namespace; in another it is an ordinary process.
    let folder = open_folder();
    let json = path(&folder, "cox.json");
    let ran = cox(&["run", "-q", "--json", &json, "--pid", "2", "--for", "200ms"]);
    if fs::exists("/proc/2").unwrap() {
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        Account::read(json).assert_sums();
    } else {
        assert_refused(&ran, 125, "no process 2");
    }
}

#[test]
fn outputs_that_cannot_be_opened_start_nothing() {
    let folder = open_folder();
    let mark = path(&folder, "started");
    let name_too_long = path(&folder, &"x".repeat(300));
    let places = ["/no/such/folder/file", "/proc/no-such-file", folder.path().to_str().unwrap(), "", &name_too_long];
    for option in ["--json", "--output"] {
        for place in places {
            let ran = cox(&["run", option, place, "--", "touch", &mark]);
            assert_refused(&ran, 125, if place.is_empty() { option } else { place });
            assert!(!fs::exists(&mark).unwrap(), "{option} {place}");
        }
    }
}

#[test]
fn two_outputs_in_one_place_start_nothing() {
    let folder = open_folder();
    let (mark, place) = (path(&folder, "started"), path(&folder, "x"));
    let program: &[&str] = &["--", "touch", &mark];
    for (verb, one, other, after) in [
        (&["run"][..], "--json", "--html", program),
        (&["run"], "--json", "--output", program),
        (&["run", "--repeat", "2"], "--json", "--trace", program),
        (&["advise", "--ncpus", "1"], "--json", "--output", program),
        (&["pack", "--cpus", "0"], "--json", "--log-moves", program),
        (&["report"], "--json", "--html", &["no-such-recording"]),
        (&["compare"], "--json", "--html", &["no-such-report"]),
        (&["compare"], "--output", "--html", &["no-such-report"]),
        (&["compare", "--table", "wall_ns"], "--svg", "--html", &["no-such-report"]),
    ] {
        for place in ["-", &place] {
            let ran = cox(&[verb, &[one, place, other, place], after].concat());
            assert_refused(&ran, 125, "would both write to");
            assert!(ran.stderr.contains(one) && ran.stderr.contains(other), "{}", ran.stderr);
            assert!(!fs::exists(&mark).unwrap() && !fs::exists(place).unwrap(), "{verb:?} {one} {other}");
        }
    }
    // The name of a trace has an ending.
    let ran = cox(&["run", "--paraver", &place, "--json", &format!("{place}.pcf"), "--", "touch", &mark]);
    assert_refused(&ran, 125, "--paraver");
}

#[test]
fn outputs_that_fail_afterwards_do_not_change_the_exit_code() {
    if !is_root("outputs_that_fail_afterwards_do_not_change_the_exit_code") {
        return;
    }
    let program = ["sh", "-c", "echo done; exit 3"];
    for options in [&["-q", "--json", "/dev/full"][..], &["--output", "/dev/full"]] {
        let ran = run(&mut command(Some(options), &program));
        assert_eq!((ran.code, ran.text().as_str()), (3, "done\n"));
        assert!(ran.stderr.starts_with("cox: ") && ran.stderr.contains("No space left"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1);
    }
    // JSON to a stdout that is full; the program itself writes nothing.
    let script = format!("{COX} run -q --json - -- sh -c 'exit 3' > /dev/full");
    let ran = run(Command::new("sh").args(["-c", &script]));
    assert_refused(&ran, 3, "No space left");
    // A watch has no exit code but its own.
    let own = std::process::id().to_string();
    assert_refused(&cox(&["run", "--pid", &own, "--for", "50ms", "--output", "/dev/full"]), 125, "No space left");
}

#[test]
fn a_stderr_that_is_full_or_gone_does_not_change_the_exit_code() {
    if !is_root("a_stderr_that_is_full_or_gone_does_not_change_the_exit_code") {
        return;
    }
    for redirection in ["2> /dev/full", "2>&-", "2>&1 >&3 3>&- | head -c 1 > /dev/null; exit ${PIPESTATUS[0]}"] {
        let script = format!("exec 3>&1; {COX} run -- sh -c 'echo done; exit 3' {redirection}");
        let ran = run(Command::new("bash").args(["-c", &script]));
        assert_eq!((ran.code, ran.text().as_str()), (3, "done\n"), "{redirection}: {}", ran.stderr);
    }
    // Not even when there is nothing but an error to say.
    let script = format!("{COX} run -- no-such-program 2> /dev/full");
    assert_eq!(run(Command::new("sh").args(["-c", &script])).code, 127);
}

#[test]
fn a_limit_on_the_size_of_files_does_not_change_the_exit_code() {
    let folder = open_folder();
    let under_limit = |words: &str| {
        let script = format!("cd '{}' && ulimit -f 1 && {words}", folder.path().display());
        run(Command::new("bash").args(["-c", &script]))
    };
    let ran = under_limit(&format!("'{COX}' run -q --json cox.json -- sh -c 'exit 3'"));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot write 'cox.json'"), "{}", ran.stderr);
    assert!(!folder.path().join("cox.json").exists());
    // Standard error is the file that has no room: the report is cut, and that is all.
    assert_eq!(under_limit(&format!("'{COX}' run -- sh -c 'exit 3' 2>report")).code, 3);
    // The program is ended by SIGXFSZ, as without cox.
    let (dd, beyond) = ("dd if=/dev/zero of=file bs=4k count=1", 128 + 25);
    assert_eq!(under_limit(dd).code, beyond);
    assert_eq!(under_limit(&format!("'{COX}' run -q -- {dd}")).code, beyond);
    assert_eq!(
        under_limit(&format!("trap '' XFSZ; '{COX}' run -q -- {dd}")).code,
        under_limit(&format!("trap '' XFSZ; {dd}")).code
    );
}

#[test]
fn reports_fit_the_terminal() {
    for (command, last) in [
        ("run -- ls /", "sum to wall"),
        ("doctor", "sched_ext"),
        ("pack --ncpus 1 -- sleep 0.1", "restored"),
        ("explain quota_throttled", "count."),
    ] {
        let script = format!("stty cols 70 && NO_COLOR=1 exec '{COX}' {command}");
        let mut terminal = Terminal::start(&["sh", "-c", &script]);
        terminal.end();
        terminal.wait_for(last);
        let screen = terminal.screen();
        let width = screen.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!((50..=70).contains(&width), "{command}: {width} columns\n{screen}");
    }
}

#[test]
fn an_older_report_survives_a_program_that_cannot_be_run() {
    let folder = open_folder();
    let json = file(&folder, "cox.json", "the older report", 0o644);
    assert_eq!(cox(&["run", "--json", &json, "--", "no-such-program"]).code, 127);
    assert_eq!(fs::read_to_string(json).unwrap(), "the older report");
}

#[test]
fn placeholders_in_names_of_outputs() {
    if !is_root("placeholders_in_names_of_outputs") {
        return;
    }
    let folder = open_folder();
    let mut cox = command(Some(&["-q", "--json", "j.%p.%h.%r.%%"]), &["true"]);
    let child = cox.current_dir(folder.path()).env("SLURM_PROCID", "17").env_remove("PMIX_RANK").spawn().unwrap();
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    Account::read(path(&folder, &format!("j.{pid}.{}.17.%", host.trim())));
}

#[test]
fn arguments_of_every_kind_reach_the_program() {
    if !is_root("arguments_of_every_kind_reach_the_program") {
        return;
    }
    // 1.2 MB, of the 2 MB that all may have together.
    let long = "x".repeat(100_000);
    let mut program: Vec<OsString> = ["printf", "%s|"].map(OsString::from).into();
    program.extend(["", " ", "--", "-q", "--json", "%p", "*", "$HOME", "a\nb"].map(OsString::from));
    program.push(OsString::from_vec(vec![0xff, 0xfe, 0x80]));
    program.extend(vec![OsString::from(long); 12]);
    both_ways(&[], &program);
    // The longest that one argument may be on Linux.
    both_ways(&[], &["printf", "%s", &"x".repeat(131_071)]);
}

#[test]
fn a_program_is_looked_up_as_without_cox() {
    if !is_root("a_program_is_looked_up_as_without_cox") {
        return;
    }
    let folder = open_folder();
    file(&folder, "here", "#!/bin/sh\necho here\n", 0o755);
    // A file that may not be executed is passed over when a later folder has one that may.
    let (first, second) = (path(&folder, "first"), path(&folder, "second"));
    for (place, word, mode) in [(&first, "first", 0o644), (&second, "second", 0o755)] {
        fs::create_dir(place).unwrap();
        fs::write(format!("{place}/tool"), format!("#!/bin/sh\necho {word}\n")).unwrap();
        fs::set_permissions(format!("{place}/tool"), Permissions::from_mode(mode)).unwrap();
    }
    let with_path = |path: Option<String>, program: &str| {
        let mut cox = command(Some(&["-q"]), &[program]);
        cox.current_dir(folder.path());
        match path {
            Some(path) => cox.env("PATH", path),
            None => cox.env_remove("PATH"),
        };
        run(&mut cox)
    };
    assert_eq!(with_path(None, "true").code, 0, "without PATH the system's folders are searched");
    assert_eq!(with_path(Some(String::new()), "true").code, 127);
    assert_eq!(with_path(Some(String::new()), "here").text(), "here\n", "an empty part is the current folder");
    assert_eq!(with_path(Some(format!("/no/such:{first}:{second}")), "tool").text(), "second\n");
    assert_eq!(with_path(Some(format!("{first}:/no/such")), "tool").code, 126);
    assert_eq!(with_path(Some("/bin:/usr/bin".into()), "./here").text(), "here\n");
}

/// Prints what a process inherits. Its own ids and counters are left out, and the descriptors of the
/// folder it reads.
/// The shell reads its status itself: while it starts a command, and that one might already read, it blocks signals of its own accord.
const SURROUNDINGS: &str = r#"
    cd -P . && pwd; umask; ulimit -a; ulimit -aH
    for fd in /proc/$$/fd/*; do [ -e $fd -o -L $fd ] && echo "$fd -> $(readlink $fd)" | sed "s/$$/PID/"; done
    tr '\0' '\n' < /proc/$$/environ
    cat /proc/$$/limits /proc/$$/oom_score_adj /proc/$$/timerslack_ns /proc/$$/personality /proc/$$/cgroup
    cat /proc/$$/coredump_filter /proc/$$/loginuid /proc/$$/sessionid
    cut -d' ' -f18,19,40,41 /proc/$$/stat
    mapfile -t status < /proc/$$/status
    printf '%s\n' "${status[@]}" | grep -E '^(Umask|Uid|Gid|Groups|FDSize|Cap|NoNewPrivs|Seccomp|Spec|Cpus|Mems|Sig(Pnd|Blk|Ign|Cgt)|ShdPnd|TracerPid|THP)'
    ionice -p $$; for n in /proc/$$/ns/*; do readlink $n; done"#;

#[test]
fn the_program_inherits_what_cox_did() {
    if !is_root("the_program_inherits_what_cox_did") {
        return;
    }
    let folder = open_folder();
    // Unusual, so that what is the default anyway cannot pass for inherited.
    let unusual = "umask 027; ulimit -c 0; ulimit -n 345; echo 123 > /proc/self/oom_score_adj
        exec 7< /etc/passwd 9> /dev/null
        cd /usr; export ODD='a=b
        c' EMPTY=
        exec nice -n 5 env --block-signal=USR1,CHLD,TERM --ignore-signal=HUP,PIPE,INT";
    let bash = |cox: &str, output: &str| {
        let script = path(&folder, "surroundings");
        fs::write(&script, SURROUNDINGS).unwrap();
        let shell = format!("{unusual} {cox} bash {script}");
        let mut bash = Command::new("bash");
        let output = File::create(path(&folder, output)).unwrap();
        bash.args(["-c", &shell]).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let status = bash.status().unwrap();
        assert!(status.success(), "{status}");
    };
    bash("", "plain");
    bash(&format!("{COX} run -q --"), "under-cox");
    let read = |name: &str| fs::read_to_string(path(&folder, name)).unwrap().replace("under-cox", "plain");
    let (plain, observed) = (read("plain"), read("under-cox"));
    assert_eq!(observed, plain);
    assert!(plain.contains("SigIgn:\t") && plain.contains("ODD=a=b") && plain.contains("/fd/7 -> /etc/passwd"));
}

#[test]
fn the_program_stays_in_its_process_group_and_session() {
    if !is_root("the_program_stays_in_its_process_group_and_session") {
        return;
    }
    let script = format!("cut -d' ' -f5-8 /proc/$$/stat; {COX} run -q -- cut -d' ' -f5-8 /proc/self/stat");
    let ran = run(Command::new("bash").args(["-c", &script]));
    let lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{}", ran.stderr);
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn standard_streams_are_the_programs() {
    if !is_root("standard_streams_are_the_programs") {
        return;
    }
    let folder = open_folder();
    let input = path(&folder, "input");
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&input, &bytes).unwrap();
    let mut cat = command(Some(&["-q"]), &["cat"]);
    assert!(run(cat.stdin(File::open(&input).unwrap())).stdout == bytes, "not the same bytes");
    // Through pipes, what is left over of the input goes to the next command.
    let script = "printf 'a\\nb\\n' > IN; exec < IN; COX sh -c 'read x; echo got $x'; cat";
    for stream in [
        script,
        "COX cat <&-",
        "COX /bin/echo hello >&-",
        "COX sh -c 'echo hello >&2; echo $?' 2>&-",
        "COX sh -c 'ls /proc/self/fd | wc -l' <&- 2>&-",
        "COX sh -c 'yes | head -1'",
        "COX yes | head -1; echo ${PIPESTATUS[0]}",
        "trap '' PIPE; COX sh -c 'yes 2> /dev/null; echo $?  >&2' | head -1",
        "COX sh -c 'exec yes >&2' 2>&1 > /dev/null | head -1; echo ${PIPESTATUS[0]}",
        "echo through | COX cat | COX tr a-z A-Z",
        "COX cat < /dev/zero | head -c 100000 | wc -c",
    ] {
        let shell = |cox: &str| {
            let script = stream.replace("COX", cox).replace("IN", &path(&folder, "in"));
            run(Command::new("bash").args(["-c", &script]).stdin(Stdio::null()))
        };
        let (plain, observed) = (shell(""), shell(&format!("{COX} run -q --")));
        assert!(observed.code == plain.code && observed.stdout == plain.stdout, "{stream}: {plain:?} {observed:?}");
        assert_eq!(observed.stderr, plain.stderr, "{stream}");
    }
}

#[test]
fn exit_codes_are_the_programs() {
    if !is_root("exit_codes_are_the_programs") {
        return;
    }
    for code in [0, 1, 2, 77, 124, 125, 126, 127, 128, 255] {
        assert_eq!(both_ways(&[], &["sh", "-c", &format!("exit {code}")]).code, code);
    }
}

/// A file system of so many bytes; unmounted with the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn of(test: &str, bytes: u32) -> Option<SmallDisk> {
        if !is_root(test) {
            return None;
        }
        let folder = tempfile::TempDir::new().unwrap();
        let options = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "cox-test"]).arg(folder.path()).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        has(mounted, test, Need::Namespaces, "cannot mount a tmpfs").then_some(())?;
        Some(SmallDisk(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = fs::File::create(self.path("ballast")).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 512]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_leaves_older_reports_as_they_were() {
    let test = "a_full_disk_leaves_older_reports_as_they_were";
    let Some(disk) = SmallDisk::of(test, 256 << 10) else { return };
    let outputs = ["--json", "--output", "--html", "--trace"];
    let older = |option: &str| format!("older {option} {}", "x".repeat(100));
    for option in outputs {
        fs::write(disk.path(option), older(option)).unwrap();
    }
    disk.fill();
    for option in outputs {
        let before: Vec<_> = fs::read_dir(disk.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let file = disk.path(option);
        let ran = run(Command::new(COX).args(["run", option]).arg(&file).args(["--", "sh", "-c", "exit 3"]));
        assert_eq!(ran.code, 3, "{option}: the program's own");
        let said: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("cannot write")).collect();
        assert!(said.len() == 1 && said[0].contains("No space left"), "{option}: {}", ran.stderr);
        assert_eq!(fs::read_to_string(&file).unwrap(), older(option), "{option}");
        let after: Vec<_> = fs::read_dir(disk.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(after, before, "{option}: nothing else is left there");
    }
}

#[test]
fn whoever_reads_only_the_first_line_sees_no_diagnostic() {
    for verb in ["doctor", "schema", "explain run", "completions bash"] {
        let script = format!("{COX} {verb} | true; echo ${{PIPESTATUS[0]}}");
        let ran = run(Command::new("bash").args(["-c", &script]));
        assert_eq!(ran.stderr, "", "{verb}");
        // It may have written all before its reader had gone.
        assert!(["0\n", "1\n", "141\n"].contains(&ran.text().as_str()), "{verb}: {}", ran.text());
    }
}
