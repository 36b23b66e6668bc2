//! `cox ulp`: copies of a program in one address space, from the command line to the summary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

use testkit::built::workload;
use testkit::run::{COX, Ran, run};
use testkit::skip::{Need, has};

/// Runs `cox ulp` with these words.
fn ulp(words: &[&str]) -> Ran {
    run(Command::new(COX).arg("ulp").args(words))
}

#[test]
fn copies_run_with_their_numbers_and_the_summary_says_how_they_ended() {
    let ran = ulp(&["-n", "5", "--env-rank", "RANK", "--", "sh", "-c", "echo $RANK; exit $((RANK % 2 * 3))"]);
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!((ran.code, lines), (3, vec!["0", "1", "2", "3", "4"]));
    let said = ran.stderr.trim_end();
    assert!(said.starts_with("cox: 5 ULPs · ") && said.ends_with(" s · exit 0: 0 2 4, exit 3: 1 3"), "{said}");
    let quiet = ulp(&["-q", "-n", "2", "--", "true"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

/// Runs the workload `yields` as two ULPs, which yield and make system calls.
fn yields(options: &[&str], calls: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let (board, program) = (folder.path().join("board"), workload("yields"));
    let words = ["--as", "ulps", "--rounds", "20", "--calls", calls, "--board", board.to_str().unwrap()];
    ulp(&[&["-n", "2"], options, &["--", &program], &words].concat())
}

#[test]
fn calls_on_carriers_are_shown_and_say_whether_the_ulp_went_home() {
    let ran = yields(&["-q", "--strace"], "1");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    // A ULP that has come home for a call stays there for some yields.
    let of = |ulp: &str| lines.iter().filter(|line| **line == format!("cox: ULP {ulp}: getppid() at home")).count();
    assert!(ran.code == 0 && of("0") > 0 && of("1") > 0, "{}", ran.stderr);
    // The last call of a ULP is made where its last yield has left it.
    assert!(lines.iter().all(|line| line.starts_with("cox: ULP ")), "{}", ran.stderr);
    assert_eq!(yields(&["-q"], "1").stderr, "");
    assert_eq!(yields(&["--strace", "--coupled"], "1").code, 125);
}

#[test]
fn the_json_says_how_ulps_ended_and_where_they_ran() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ulp.json");
    let json = ["--json", file.to_str().unwrap()];
    let told = || serde_json::from_slice::<serde_json::Value>(&std::fs::read(&file).unwrap()).unwrap();
    let ran = yields(&[&["-q"][..], &json].concat(), "1");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let calls = told();
    let of = |name: &str| calls[name].as_u64().unwrap();
    assert!(of("stays") > 0 && calls["stays_ended_by_calls"]["getppid"].as_u64() > Some(0), "{calls}");
    assert!(of("carriers") > 0 && of("carrier_cpu_ns") > 0 && of("coupled_cpu_ns") > 0 && of("wall_ns") > 0, "{calls}");
    assert_eq!((calls["ends"].clone(), calls["no_carriers"].is_null()), (serde_json::json!([0, 0]), true));
    assert!(calls["provenance"]["command"][0].as_str().unwrap().ends_with("/yields"), "{calls}");
    let ran = ulp(&[&["--coupled", "-n", "2"][..], &json, &["--", "sh", "-c", "kill -9 $$"]].concat());
    let coupled = told();
    assert_eq!(
        (ran.code, coupled["ends"].clone(), coupled["carriers"].clone()),
        (137, serde_json::json!([-9, -9]), 0.into())
    );
    assert_eq!(coupled["no_carriers"].as_str(), Some("as requested"));
    // The outputs of the ULPs come first. Where nobody reads or nothing fits, the exit code is that of the ULPs.
    let ran = ulp(&["-q", "-n", "2", "--json", "-", "--", "sh", "-c", "echo text; exit 3"]);
    let (before, json) =
        ran.text().split_once("{").map(|(before, json)| (before.to_owned(), format!("{{{json}"))).unwrap();
    let behind = serde_json::from_str::<serde_json::Value>(&json).unwrap();
    assert_eq!((ran.code, before.as_str(), behind["ends"].clone()), (3, "text\ntext\n", serde_json::json!([3, 3])));
    let full = ulp(&["-q", "-n", "2", "--json", "/dev/full", "--", "true"]);
    assert_eq!((full.code, full.stderr.lines().count()), (0, 1), "{}", full.stderr);
    assert_eq!(ulp(&["-n", "2", "--json", "/no/such/folder/file", "--", "touch", "never"]).code, 125);
    // All that is written is in the schema.
    let schema: serde_json::Value =
        serde_json::from_str(&run(Command::new(COX).args(["schema", "ulp"])).text()).unwrap();
    assert!(calls.as_object().unwrap().keys().all(|name| schema["properties"][name].is_object()), "{schema}");
}

#[test]
fn a_backtrace_is_printed_if_it_is_asked_for() {
    let words = ["-n", "2", "--", "sh", "-c", "kill -SEGV $$"];
    let (without, with) = (ulp(&words), ulp(&[&["--backtrace"], &words[..]].concat()));
    assert_eq!((without.code, with.code), (139, 139));
    let crashes = |ran: &Ran| ran.stderr.matches(") was ended by signal 11 (Segmentation fault)\ncox:   #0 ").count();
    assert_eq!((crashes(&without), crashes(&with)), (0, 2), "{}", with.stderr);
    assert!(with.stderr.ends_with(" s · signal 11: 0 1\n"), "{}", with.stderr);
}

#[test]
fn lines_of_both_outputs_have_the_number_of_their_ulp() {
    let script = "for i in $(seq 200); do echo out $i; echo err $i >&2; done; printf 'no end'";
    let ran = ulp(&["-q", "--prefix-output", "-n", "12", "--", "sh", "-c", script]);
    let of = |text: &str, number: usize| -> Vec<String> {
        let begin = format!("[{number:2}] ");
        text.lines().filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect()
    };
    let lines = |word: &'static str| (1..=200).map(move |line| format!("{word} {line}"));
    for number in 0..12 {
        let out: Vec<String> = lines("out").chain(["no end".to_owned()]).collect();
        assert_eq!((of(&ran.text(), number), of(&ran.stderr, number)), (out, lines("err").collect()), "{number}");
    }
    assert_eq!((ran.code, ran.text().lines().count(), ran.stderr.lines().count()), (0, 12 * 201, 12 * 200));
    // A ULP has the limit of open files that cox was given, and none of the pipes of others.
    let script = "ulimit -n; for fd in /proc/$$/fd/*; do all=\"$all ${fd##*/}\"; done; echo $all";
    let told = |option: &str, begin: usize| {
        let limit = format!("ulimit -S -n 100; exec \"$0\" ulp -q {option} -n 200 -- sh -c \"$1\"");
        let ran = run(Command::new("sh").args(["-c", &limit, COX, script]));
        assert_eq!((ran.code, ran.stderr.as_str(), ran.text().lines().count()), (0, "", 400));
        let mut told: Vec<String> = ran.text().lines().map(|line| line[begin..].to_owned()).collect();
        told.sort_unstable();
        told.dedup();
        told
    };
    let with = told("--prefix-output", 6);
    assert!(with == told("", 0) && with.contains(&"100".to_owned()), "{with:?}");
}

#[test]
fn signals_and_children_that_write_for_ever_do_not_cost_output() {
    let script = format!(
        "{COX} ulp --prefix-output -n 2 -- sh -c 'trap \"echo caught; exit 7\" TERM; echo ready; while :; do sleep 0.01; done' >out 2>err & \
         until [ \"$(grep -c ready out)\" = 2 ]; do sleep 0.01; done; kill $!; wait $!; echo $?; sort out; cat err"
    );
    let folder = tempfile::tempdir().unwrap();
    let ran = run(Command::new("sh").args(["-c", &script]).current_dir(folder.path()));
    let text = ran.text();
    let right = "7\n[0] caught\n[0] ready\n[1] caught\n[1] ready\ncox: 2 ULPs · ";
    assert!(text.starts_with(right) && text.contains("exit 7: 0 1"), "{text}{}", ran.stderr);
    let ran = ulp(&["-q", "--prefix-output", "-n", "2", "--", "sh", "-c", "yes & exit 3"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (3, ""));
    assert!(ran.text().lines().all(|line| line == "[0] y" || line == "[1] y" || line.len() < 6));
}

#[test]
fn a_ulp_that_writes_for_nobody_ends() {
    let script = format!("{COX} ulp -q --prefix-output -n 4 -- sh -c 'while echo y; do :; done' | head -1 | wc -l");
    let ran = run(Command::new("sh").args(["-c", &script]));
    assert_eq!((ran.code, ran.text().trim()), (0, "1"), "{}", ran.stderr);
}

/// An interpreter that is linked to fixed addresses is replaced by its library.
#[test]
fn python_imports_modules_and_runs_programs() {
    let test = "python_imports_modules_and_runs_programs";
    let python = "/usr/bin/python3";
    let alone = run(Command::new(python).args(["-c", "import sys; print(f'libpython3.{sys.version_info[1]}.so.1.0')"]));
    let library = format!("/usr/lib/{}-linux-gnu/{}", std::env::consts::ARCH, alone.text().trim());
    if !has(std::path::Path::new(&library).exists(), test, Need::Programs, "libpython3 is not installed") {
        return;
    }
    let check = run(Command::new(COX).args(["check", python])).text();
    assert!(check.starts_with("runs as a ULP: yes\n") && check.contains("cox-ulp-python"), "{check}");
    let script = "import os, sys, json, subprocess, threading, decimal, hashlib\n\
        word = subprocess.run(['echo', os.environ['RANK']], capture_output=True, text=True).stdout.strip()\n\
        sum = []\n\
        threads = [threading.Thread(target=lambda: sum.append(1)) for _ in range(3)]\n\
        [thread.start() for thread in threads]; [thread.join() for thread in threads]\n\
        print(json.dumps([word, len(sum), sys.argv[1], sys.executable, str(decimal.Decimal(2).sqrt()), hashlib.md5(b'a').hexdigest()]))\n\
        sys.exit(int(word))";
    let words = [python, "-c", script, "word"];
    let alone = run(Command::new(words[0]).args(&words[1..]).env("RANK", "3"));
    let ran = ulp(&[&["-q", "-n", "4", "--env-rank", "RANK", "--"][..], &words].concat());
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!((ran.code, ran.stderr.as_str(), lines.len()), (1, "", 4));
    assert_eq!((alone.code, alone.text().trim_end()), (3, lines[3]), "{text}");
}

#[test]
fn what_cannot_run_is_one_line_with_the_usual_code() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    for (words, code, part) in [
        (&["-n", "2", "--", "/no/such/program"][..], 127, "no such file"),
        (&["-n", "2", "--", "no-such-program"], 127, "not found on PATH"),
        (&["-n", "2", "--", plain], 126, "not executable"),
        (&["-n", "2", "--", "/"], 126, "not executable"),
    ] {
        let ran = ulp(words);
        assert_eq!(
            (ran.code, ran.text().as_str(), ran.stderr.lines().count()),
            (code, "", 1),
            "{words:?}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    for words in
        [&["-n", "0", "--", "true"][..], &["--", "true"], &["-n", "2"], &["-n", "2", "--env-rank", "A=B", "--", "true"]]
    {
        assert_eq!(ulp(words).code, 125, "{words:?}");
    }
}

#[test]
fn several_programs_run_in_the_order_of_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("programs");
    std::fs::write(
        &file,
        "# two kinds\n2 sh -c 'echo sh $RANK'\n\n1 true\n2 perl -e 'print \"perl $ENV{RANK}\\n\"; exit 3'\n",
    )
    .unwrap();
    let ran = ulp(&["--mpmd", file.to_str().unwrap(), "--env-rank", "RANK"]);
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!((ran.code, lines), (3, vec!["perl 3", "perl 4", "sh 0", "sh 1"]));
    assert!(ran.stderr.trim_end().ends_with("exit 0: 0 1 2, exit 3: 3 4"), "{}", ran.stderr);
    for (text, code, part) in
        [("2 true\n1 no-such-program", 127, "not found on PATH"), ("true", 125, "line 1: a line begins with a number")]
    {
        std::fs::write(&file, text).unwrap();
        let ran = ulp(&["--mpmd", file.to_str().unwrap()]);
        assert_eq!((ran.code, ran.text().as_str(), ran.stderr.lines().count()), (code, "", 1), "{}", ran.stderr);
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert_eq!(ulp(&["--mpmd", "x", "-n", "2"]).code, 125);
    assert_eq!(ulp(&["--mpmd", "x", "--", "true"]).code, 125);
}

/// The files of all programs are open in the host.
#[test]
fn no_program_inherits_the_files_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (file, script) =
        (folder.path().join("programs"), "for fd in /proc/$$/fd/*; do all=\"$all ${fd##*/}\"; done; echo $all");
    std::fs::write(&file, format!("1 dash -c '{script}'\n1 bash -c '{script}'\n1 perl -e 1\n")).unwrap();
    let alone = run(Command::new("dash").args(["-c", script]));
    let ran = ulp(&["-q", "--mpmd", file.to_str().unwrap()]);
    let text = ran.text();
    let all: Vec<&str> = text.lines().map(|line| line.trim_end_matches(" 255")).collect();
    assert_eq!(all, [alone.text().trim_end(); 2]);
}

#[test]
fn all_ulps_run_on_the_cpus_of_the_option() {
    let list = ["-c", "echo $(grep Cpus_allowed_list /proc/self/status | cut -f2)"];
    let ran = ulp(&["-q", "-n", "3", "--ncpus", "1", "--", "sh", list[0], list[1]]);
    let text = ran.text();
    let lists: Vec<&str> = text.lines().collect();
    assert!(
        lists.len() == 3 && lists.iter().all(|cpus| *cpus == lists[0] && cpus.parse::<usize>().is_ok()),
        "{lists:?}"
    );
    let ran = ulp(&["-q", "-n", "2", "--cpus", lists[0], "--", "sh", list[0], list[1]]);
    assert_eq!(ran.text(), format!("{0}\n{0}\n", lists[0]));
    for words in [["--ncpus", "100000"], ["--cpus", "99999"]] {
        let ran = ulp(&[&words[..], &["-n", "2", "--", "true"]].concat());
        assert_eq!((ran.code, ran.stderr.lines().count()), (125, 1), "{}", ran.stderr);
    }
}
