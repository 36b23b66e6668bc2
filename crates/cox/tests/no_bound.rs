//! Programs that wait for events which no measure can speed up: a user at a terminal, a timer, a FIFO and a socket whose other end is not observed.
//! No report promises such a program a gain.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use testkit::run::{COX, NOBODY, as_user, command, is_root, path, run, turn};
use testkit::skip::{Need, installed};
use testkit::terminal::Terminal;

const BACKENDS: [&str; 3] = ["bpf", "perf", "proc"];

/// How long each program waits: long beside the work of starting it.
const WAIT: Duration = Duration::from_millis(600);

/// Steps and sentences that promise a factor.
#[track_caller]
fn assert_no_promise(what: &str, report: &str) {
    assert!(report.contains("Thread time: "), "{what}: {report}");
    for sign in ["faster", "(bound", "Upper bound"] {
        assert!(!report.contains(sign), "{what} promises something ({sign}): {report}");
    }
    // Of several threads of one name: `name × 2`.
    let has_factor = report.match_indices('×').any(|(at, _)| report[..at].ends_with(|c: char| c.is_ascii_digit()));
    assert!(!has_factor, "{what} has a factor: {report}");
}

#[test]
fn sleeping_is_nothing_to_shorten() {
    if !is_root("sleeping_is_nothing_to_shorten") {
        return;
    }
    let _turn = turn();
    for backend in BACKENDS {
        for program in [&["sleep", "0.6"][..], &["sh", "-c", "sleep 0.6; true"]] {
            let ran = run(&mut command(Some(&["--backend", backend]), program));
            assert_no_promise(&format!("{program:?} by {backend}"), &ran.stderr);
        }
    }
}

#[test]
fn an_unprivileged_user_is_promised_nothing_either() {
    if !is_root("an_unprivileged_user_is_promised_nothing_either") {
        return;
    }
    let _turn = turn();
    // A copy: others may not be able to enter the folder where it was built.
    let folder = testkit::run::open_folder();
    let cox = path(&folder, "cox");
    std::fs::copy(COX, &cox).unwrap();
    let mut user = Command::new("setpriv");
    user.arg("--no-new-privs").args(as_user(NOBODY)).arg(&cox);
    let ran = run(user.args(["run", "--", "sleep", "0.6"]).current_dir("/"));
    assert_no_promise("sleep of nobody", &ran.stderr);
    assert!(!ran.stderr.contains("--backend bpf"), "advice that this user cannot follow: {}", ran.stderr);
    assert!(ran.stderr.contains("eBPF not used: "), "{}", ran.stderr);
    let longest = ran.stderr.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 100, "{}", ran.stderr);
}

#[test]
fn a_fifo_whose_writer_is_not_observed() {
    if !is_root("a_fifo_whose_writer_is_not_observed") {
        return;
    }
    let _turn = turn();
    let folder = TempDir::new().unwrap();
    let fifo = path(&folder, "fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for backend in BACKENDS {
        let to = fifo.clone();
        // Opened for both, so that no open waits for the other end.
        let writer = OpenOptions::new().read(true).write(true).open(&to).unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(WAIT);
            (&writer).write_all(b"12345\n").unwrap();
            // Held until the reader has it.
            thread::sleep(WAIT);
        });
        let ran = run(&mut command(Some(&["--backend", backend]), &["head", "-c", "6", &fifo]));
        ends.join().unwrap();
        assert_eq!(ran.text(), "12345\n");
        assert_no_promise(&format!("a FIFO by {backend}"), &ran.stderr);
    }
}

#[test]
fn a_socket_whose_other_end_is_not_observed() {
    let test = "a_socket_whose_other_end_is_not_observed";
    if !is_root(test) || !installed(test, Need::Programs, "bash") {
        return;
    }
    let _turn = turn();
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ends = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            thread::sleep(WAIT);
            stream.write_all(b"x\n").unwrap();
        });
        let reads = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r x <&3; echo $x");
        let ran = run(&mut command(Some(&["--backend", backend]), &["bash", "-c", &reads]));
        ends.join().unwrap();
        assert_eq!(ran.text(), "x\n");
        assert_no_promise(&format!("a socket by {backend}"), &ran.stderr);
    }
}

#[test]
fn a_pager_waits_for_its_user() {
    let test = "a_pager_waits_for_its_user";
    if !is_root(test) || !installed(test, Need::Programs, "less") {
        return;
    }
    let _turn = turn();
    let folder = TempDir::new().unwrap();
    let (text, report) = (path(&folder, "text"), path(&folder, "report"));
    let lines: String = (0..5000).map(|line| format!("line {line}\n")).collect();
    std::fs::write(&text, lines).unwrap();
    for backend in BACKENDS {
        let mut terminal = Terminal::start(&[
            "env",
            "TERM=xterm",
            COX,
            "run",
            "--backend",
            backend,
            "--output",
            &report,
            "--",
            "less",
            &text,
        ]);
        terminal.wait_for("line 3");
        thread::sleep(WAIT);
        terminal.press(b'q');
        assert_eq!(terminal.end(), 0);
        assert_no_promise(&format!("less by {backend}"), &std::fs::read_to_string(&report).unwrap());
    }
}
