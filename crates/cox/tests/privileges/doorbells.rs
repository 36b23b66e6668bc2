//! `cox run --overlap=bpf` of an ordinary user: `cox-observe` loads the programs that ring the doorbells.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use testkit::installed::Installed;
use testkit::overlapped::{Place, diagnostics, number, with_program};
use testkit::run::{Ran, end_of, on_one_line, run, send, shell_code, wait_for};

use crate::{Running, json, start};

/// An installation, and a program of this folder for its user.
struct Users {
    installed: Installed,
    program: String,
    library: String,
    _place: Place,
}

fn users(test: &str, source: &str, flags: &[&str]) -> Option<Users> {
    let place = with_program(test, source, flags)?;
    let installed = Installed::new(test)?;
    let program = installed.give(&place.program, "program");
    let library = installed.give(&place.library, "lib/coxswain/libcox_preload.so");
    Some(Users { installed, program, library, _place: place })
}

fn hostile(test: &str) -> Option<Users> {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../wire/include");
    users(test, "tests/programs/hostile.c", &[include])
}

impl Users {
    /// The user's cox with a program of theirs.
    fn command(&self, how: &str, program: &[&str]) -> Command {
        let cox = self.installed.cox();
        let options = [cox.as_str(), "run", "-q", "--json", "cox.json", how, "--"];
        let mut command = self.installed.command(&[&options[..], program].concat());
        command.env("OMP_NUM_THREADS", "3").env_remove("COX_PRELOAD");
        command
    }

    fn run(&self, how: &str, program: &[&str]) -> Ran {
        run(&mut self.command(how, program))
    }

    /// The section on overlap.
    fn report(&self) -> serde_json::Value {
        json(&self.installed, "cox.json")["overlap"].clone()
    }
}

#[test]
fn tasks_that_wait_are_let_go_by_ebpf() {
    let test = "tasks_that_wait_are_let_go_by_ebpf";
    let Some(users) = users(test, "tests/programs/blocked.c", &[]) else { return };
    for how in ["--overlap=bpf", "--overlap"] {
        for what in ["receives", "full-pipe", "critical", "locks", "children", "nested", "first-tasks"] {
            let ran = users.run(how, &[&users.program, what]);
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{what}: {}", ran.stderr);
            let report = users.report();
            assert_eq!((report["backend"].as_str(), diagnostics(&report).as_str()), (Some("bpf"), "[]"), "{report}");
            for figure in ["standbys", "tasks", "blocks"] {
                assert!(number(&report, figure) > 0, "{how}, {what}: {report}");
            }
        }
    }
    let doctor = run(&mut users.installed.command(&[&users.installed.cox(), "doctor"]));
    let text = on_one_line(&doctor.text());
    assert!(text.contains("can also wake standby threads for --overlap=bpf"), "{text}");
}

#[test]
fn the_programs_environment_has_two_variables_more() {
    let test = "the_programs_environment_has_two_variables_more";
    let Some(users) = users(test, "tests/programs/blocked.c", &[]) else { return };
    let environment = |command: &mut Command| {
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_LIBRARY_PATH", "/opt/modules/lib").env("EMPTY", "");
        let ran = run(command.env("LD_PRELOAD", "libc.so.6").env("TMPDIR", "/tmp"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.text().split('\0').map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let plain = environment(&mut users.installed.command(&["env", "-0"]));
    let observed = environment(&mut users.command("--overlap=bpf", &["env", "-0"]));
    let others = |from: &BTreeSet<String>| {
        let named = |line: &&String| !line.starts_with("LD_PRELOAD=") && !line.starts_with("COX_OVERLAP=");
        from.iter().filter(named).cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&observed), others(&plain));
    assert!(observed.contains(&format!("LD_PRELOAD=libc.so.6:{}", users.library)), "{observed:?}");
    assert_eq!((plain.len() + 1, users.report()["backend"].as_str()), (observed.len(), Some("bpf")), "{observed:?}");
}

/// Processes with more rights than their user get neither pages nor bells, and are named; those around them are let go as before.
#[test]
fn processes_with_more_rights_are_given_nothing() {
    let Some(users) = hostile("processes_with_more_rights_are_given_nothing") else { return };
    let copy = |name: &str, mode: u32| {
        let program = users.installed.give(users.program.as_ref(), name);
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        program
    };
    let others = [copy("becomes-root", 0o4755), copy("gets-a-group", 0o2755), copy("gets-caps", 0o755)];
    assert!(Command::new("setcap").args(["cap_net_raw+ep", &others[2]]).status().unwrap().success());
    let unreadable = copy("unreadable", 0o711);
    let script = "$1 works && { for i in $2 $3 $4 $5; do $i scribbles 100; done; $1 works; }";
    let words =
        [&["sh", "-c", script, "sh", &users.program], &others.each_ref().map(String::as_str)[..], &[&unreadable]];
    let ran = users.run("--overlap=bpf", &words.concat());
    assert_eq!((ran.code, ran.text().as_str()), (0, "right\nright\n"), "{}", ran.stderr);
    let nothing = ran.stderr.lines().filter(|line| *line == "nothing was given").count();
    assert_eq!((nothing, ran.stderr.lines().count()), (4, 4), "{}", ran.stderr);
    let threads = crate::threads(&json(&users.installed, "cox.json"));
    for name in ["becomes-root", "gets-a-group", "gets-caps"] {
        assert_eq!(threads.get(&(name.to_owned(), true)), Some(&1), "{threads:?}");
    }
    let report = users.report();
    assert_eq!(number(&report, "processes"), 2, "{report}");
    assert!(number(&report, "tasks") > 0 && number(&report, "blocks") > 0, "{report}");
    let said = diagnostics(&report);
    assert!(said.contains("4 of the processes that asked") && said.contains("more rights than its user"), "{said}");
}

/// What a process of the user's does with all that it was given reaches nobody else.
#[test]
fn nonsense_reaches_nobody_else() {
    let Some(users) = hostile("nonsense_reaches_nobody_else") else { return };
    let script = "$1 scribbles 1500 & one=$!; sleep 0.1; timeout 60 $1 works & two=$!; timeout 60 $1 works; \
                  worked=$?; wait $one && wait $two && exit $worked";
    let ran = users.run("--overlap=bpf", &["sh", "-c", script, "sh", &users.program]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let said = ran.text();
    assert_eq!(said.lines().filter(|line| *line == "right").count(), 2, "{said}");
    // The page that it writes, and what says how far it has read each bell: not the kernel's page, nor what bells have.
    let pages = said.lines().find_map(|line| line.strip_suffix(" pages")?.parse::<u64>().ok());
    assert_eq!(pages, Some(15 + 16), "{said}");
    let report = users.report();
    assert!(diagnostics(&report).contains("impossible numbers"), "{report}");
    assert!(number(&report, "tasks") > 0 && number(&report, "blocks") < 1_000_000, "{report}");
}

/// The program goes on as under libgomp, and the report says why.
#[test]
fn the_program_goes_on_when_the_helper_ends() {
    let test = "the_program_goes_on_when_the_helper_ends";
    let Some(users) = users(test, "tests/programs/blocked.c", &[]) else { return };
    let (out, err) = (users.installed.own().join("out"), users.installed.own().join("err"));
    let mut command = users.command("--overlap=bpf", &[&users.program, "until-told"]);
    command.stdin(Stdio::piped()).stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let mut cox = Running(command.spawn().unwrap());
    wait_for("the program", || fs::read_to_string(&out).is_ok_and(|text| !text.is_empty()).then_some(()));
    // The first of them rings, the second observes.
    let ringing = crate::helper_of(cox.0.id());
    send(ringing, Signal::KILL);
    wait_for("what it says", || fs::read_to_string(&err).is_ok_and(|text| !text.is_empty()).then_some(()));
    drop(cox.0.stdin.take());
    assert_eq!(shell_code(end_of(&mut cox.0)), 0, "{}", fs::read_to_string(&err).unwrap());
    let said = fs::read_to_string(&err).unwrap();
    assert!(said.contains("cox: overlap has ended") && said.lines().count() == 1, "{said}");
    assert!(fs::read_to_string(&out).unwrap().ends_with("all ran\n"));
    let report = users.report();
    assert!(diagnostics(&report).contains("cox-observe, which had the eBPF programs, ended"), "{report}");
}

#[test]
fn at_the_limit_the_next_backend_is_taken() {
    let test = "at_the_limit_the_next_backend_is_taken";
    let Some(users) = users(test, "tests/programs/blocked.c", &[]) else { return };
    // Three sessions that leave no room for doorbells.
    let own = users.installed.own();
    let cox = users.installed.cox();
    // The sleeping programs outlive their cox.
    let _ended = crate::Ended(own.clone());
    let sessions: Vec<_> = (0..3)
        .map(|number| {
            let (trace, script) = (format!("trace.{number}"), format!("echo > began.{number}; exec sleep 60"));
            let options = [&cox, "run", "-q", "--trace-buffer", "128M", "--trace", &trace, "--", "sh", "-c", &script];
            start(&mut users.installed.command(&options))
        })
        .collect();
    wait_for("the sessions", || (0..3).all(|number| own.join(format!("began.{number}")).exists()).then_some(()));
    let refused = users.run("--overlap=bpf", &[&users.program, "receives"]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (125, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("cox-observe allows at most 512"), "{}", refused.stderr);
    let ran = users.run("--overlap", &[&users.program, "receives"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = users.report();
    assert_ne!(report["backend"], "bpf");
    assert!(diagnostics(&report).contains("cox-observe allows at most 512"), "{report}");
    drop(sessions);
}
