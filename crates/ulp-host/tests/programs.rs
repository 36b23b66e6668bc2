//! Programs that nobody has changed, many at once in one address space: each does what it does alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use place::{Place, Running, each, lines, wait_for};

#[test]
fn each_copy_has_its_own_pid_number_and_name() {
    let place = Place::new();
    let (output, ends) = place.run(16, "sh", &["-c", "echo $RANK $$ $(cat /proc/$$/comm)"]);
    assert_eq!(ends, [0; 16]);
    let told: BTreeMap<String, String> = lines(&output)
        .into_iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[2], format!("sh.{}", words[0]), "{line}");
            (words[1].to_owned(), words[0].to_owned())
        })
        .collect();
    assert_eq!(told.len(), 16, "{told:?}");
}

#[test]
fn children_pipes_and_working_directories_are_the_copys_own() {
    let place = Place::new();
    let script = "mkdir d$RANK; cd d$RANK; umask 0$RANK; printf '%s\\n' c a b | sort | tr '\\n' ' ' >out; \
                  (exit 3); echo $RANK $? $(umask) $(cat out) $(basename $PWD)";
    let (output, ends) = place.run(8, "sh", &["-c", script]);
    assert_eq!((lines(&output), ends), (each(8, |rank| format!("{rank} 3 000{rank} a b c d{rank}")), vec![0; 8]));
}

#[test]
fn heaps_do_not_meet() {
    let place = Place::new();
    // Grows and shrinks a hash, with strings of very different lengths.
    let script = r#"my %h; for my $i (1..20000) { $h{$i % 997} .= "x" x ($i % 300); delete $h{$i % 991} if $i % 7 == 0 }
                    my $n = 0; $n += length $_ for values %h; print "$ENV{RANK} $n\n""#;
    let alone = Command::new("perl").args(["-e", script]).env("RANK", "7").output().unwrap();
    let right = String::from_utf8_lossy(&alone.stdout).trim_start_matches("7 ").trim().to_owned();
    let (output, ends) = place.run(16, "perl", &["-e", script]);
    assert_eq!((lines(&output), ends), (each(16, |rank| format!("{rank} {right}")), vec![0; 16]));
}

#[test]
fn ends_are_told_and_the_first_that_is_not_zero_wins() {
    let place = Place::new();
    let script = "case $RANK in 1) kill -SEGV $$;; 2) exit 7;; 4) kill -9 $$;; esac; echo $RANK";
    let (output, ends) = place.run(6, "sh", &["-c", script]);
    assert_eq!((output.status.code(), ends), (Some(128 + 11), vec![0, -11, 7, 0, -9, 0]));
    assert_eq!(lines(&output), ["0", "3", "5"]);
}

#[test]
fn signals_have_their_default_action_and_traps_work() {
    let place = Place::new();
    let script = "trap 'echo $RANK trapped' USR1; kill -USR1 $$; yes | head -n 1 >/dev/null; kill -PIPE $$";
    let (output, ends) = place.run(4, "sh", &["-c", script]);
    assert_eq!((lines(&output), ends), (each(4, |rank| format!("{rank} trapped")), vec![-13; 4]));
}

/// A ULP may leave the host's process group, as interactive shells and daemons do. It is the host's child all the same.
#[test]
fn those_in_process_groups_of_their_own_are_waited_for() {
    let place = Place::new();
    for leave in ["setpgrp(0, 0)", "POSIX::setsid() > 0"] {
        let script = format!(
            "{leave} or die; select(undef, undef, undef, 0.1) if $ENV{{RANK}} == 2; print \"$ENV{{RANK}} ok\\n\"; exit $ENV{{RANK}}"
        );
        let by = ["timeout", "--kill-after=5", "30"];
        let (output, ends) = place.run_by(&by, 3, "perl", &["-MPOSIX", "-e", &script]);
        assert_eq!((lines(&output), ends), (each(3, |rank| format!("{rank} ok")), vec![0, 1, 2]), "{leave}");
    }
}

#[test]
fn what_cannot_be_started_is_one_line() {
    let place = Place::new();
    let refused = |program: &str, words: &str| {
        let (output, ends) = place.run(2, program, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), ends.len(), said.lines().count()), (Some(126), 0, 1), "{said}");
        assert!(said.starts_with("cox: ") && said.contains(words), "{said}");
    };
    let script = place.folder().join("script");
    fs::write(&script, "#!\n").unwrap();
    refused("/no/such/program", "/no/such/program");
    refused("/etc/hostname", "no ELF program");
    refused(script.to_str().unwrap(), "names no interpreter");
}

#[test]
fn scripts_run_in_their_interpreter() {
    let place = Place::new();
    let inner = place.folder().join("inner");
    let outer = place.folder().join("outer");
    fs::write(&inner, "#!/bin/sh -e\necho $RANK \"$@\"\n").unwrap();
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&outer, format!("#! {} one argument\n", inner.display())).unwrap();
    let outer = outer.display().to_string();
    let (output, ends) = place.run(3, &outer, &["a b", "c"]);
    let right = each(3, |rank| format!("{rank} one argument {outer} a b c"));
    assert_eq!((lines(&output), ends), (right, vec![0; 3]));
}

/// A program that finds a library beside itself. Its folder is looked for in both kinds of search paths.
#[test]
fn libraries_beside_the_program_are_found() {
    let place = Place::new();
    let (library, program) = (place.folder().join("libbeside.so"), place.folder().join("program"));
    let compile = |source: &str, words: &[&str], output: &Path| {
        let file = place.folder().join("source.c");
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(output).arg(&file).args(words).arg("-L").arg(place.folder());
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
    };
    compile("int beside(void) { return 42; }", &["-shared", "-fPIC"], &library);
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint beside(void);\n\
                  int main(int count, char **words)\n\
                  { printf(\"%s %d %s %d %s\\n\", getenv(\"RANK\"), count, words[0], beside(), words[1]); return 3; }";
    for tags in ["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"] {
        compile(source, &["-lbeside", "-Wl,-rpath,$ORIGIN", tags], &program);
        let program = program.display().to_string();
        let (output, ends) = place.run(4, &program, &["a b"]);
        assert_eq!(
            (lines(&output), ends),
            (each(4, |rank| format!("{rank} 2 {program} 42 a b")), vec![3; 4]),
            "{tags}"
        );
    }
    // The folder is that of the file, not of a link to it.
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let link = link.display().to_string();
    let (output, ends) = place.run(2, &link, &["a b"]);
    assert_eq!((lines(&output), ends), (each(2, |rank| format!("{rank} 2 {link} 42 a b")), vec![3; 2]));
}

/// Descriptors of the host are not those of the program.
#[test]
fn only_the_descriptors_that_the_host_was_given_are_inherited() {
    let place = Place::new();
    let script = "for fd in /proc/$$/fd/*; do all=\"$all ${fd##*/}\"; done; echo $all";
    let (output, ends) = place.run(3, "sh", &["-c", script]);
    let alone = Command::new("sh").args(["-c", script]).output().unwrap();
    let right = lines(&alone)[0].clone();
    assert_eq!((lines(&output), ends), (vec![right; 3], vec![0; 3]));
}

#[test]
fn the_link_to_its_file_leads_to_the_program_itself() {
    let place = Place::new();
    let script = r#"use Cwd "realpath"; print join(" ", readlink("/proc/$$/exe"), realpath("/proc/self/exe"), map { readlink } "/proc/self/exe", "/proc/self/cwd", "no"), "\n""#;
    let perl = fs::canonicalize("/usr/bin/perl").unwrap().display().to_string();
    let right = format!("{perl} {perl} {perl} {}", place.folder().display());
    let (output, ends) = place.run(3, "perl", &["-e", script]);
    assert_eq!((lines(&output), ends), (each(3, |_| format!("{right} ")), vec![0; 3]));
}

#[test]
fn signals_to_the_host_are_passed_on() {
    let place = Place::new();
    let told = place.folder().join("told");
    let script = format!("trap 'echo $RANK; exit 5' TERM; echo >>{}; while :; do sleep 0.02; done", told.display());
    let mut host = place.host(4, "sh", &["-c", &script]);
    let host = Running(host.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_for("the ULPs", || fs::read_to_string(&told).is_ok_and(|text| text.len() == 4));
    let sent = Command::new("kill").arg(host.0.id().to_string()).status().unwrap();
    let output = host.output();
    assert!(sent.success());
    assert_eq!((lines(&output), output.status.code()), (each(4, |rank| rank.to_string()), Some(5)));
}

/// Starts the host in a process group of its own, and sends `signal` with kill(1) to `-group` or to the host alone when the first ULP runs. Returns the
/// host's exit code and how each ULP ended.
fn ends_after(host: Command, place: &Place, signal: &str, to_group: bool) -> (Option<i32>, Vec<i64>) {
    let mut host = host;
    let host = Running(host.process_group(0).spawn().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", host.0.id());
    wait_for("a ULP", || fs::read_to_string(&children).is_ok_and(|pids| !pids.is_empty()));
    let whom = format!("{}{}", if to_group { "-" } else { "" }, host.0.id());
    assert!(Command::new("kill").args(["-s", signal, "--", &whom]).status().unwrap().success());
    let code = host.code();
    let told = place.told();
    (code, told["ends"].as_array().unwrap().iter().map(|end| end.as_i64().unwrap()).collect())
}

/// Those that run have it, and the others are not started. Ctrl-C reaches the ULPs by their process group, or misses the one that is just being started.
#[test]
fn a_signal_while_ulps_are_started_ends_all() {
    for (signal, number, to_group) in [("TERM", 15, false), ("INT", 2, true)] {
        let place = Place::new();
        let (code, ends) = ends_after(place.host(1500, "sleep", &["60"]), &place, signal, to_group);
        assert_eq!(code, Some(128 + number));
        let started = ends.iter().take_while(|end| **end == -i64::from(number)).count();
        assert!((1..1500).contains(&started) && ends[started..].iter().all(|end| *end == -9), "{signal}: {started}");
    }
}

#[test]
fn an_ignored_signal_stops_no_start() {
    let place = Place::new();
    let plain = place.host(300, "sleep", &["0.5"]);
    let mut host = Command::new("sh");
    host.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    host.current_dir(place.folder());
    assert_eq!(ends_after(host, &place, "HUP", true), (Some(0), vec![0; 300]));
}

/// ULPs do not outlive their host, however it ends.
#[test]
fn ulps_die_with_the_host() {
    let place = Place::new();
    let told = place.folder().join("told");
    let script = format!("echo $$ >>{}; exec sleep 60", told.display());
    let mut host = Running(place.host(8, "sh", &["-c", &script]).spawn().unwrap());
    let all = || fs::read_to_string(&told).unwrap_or_default();
    wait_for("the ULPs", || all().lines().count() == 8);
    let pids = all();
    host.0.kill().unwrap();
    assert_eq!(host.0.wait().unwrap().signal(), Some(9));
    let alive = || {
        let ended = |pid: &&str| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z")
        };
        pids.lines().filter(|pid| !ended(pid)).count()
    };
    wait_for("the end of all", || alive() == 0);
}
