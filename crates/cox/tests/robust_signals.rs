//! Signals reach the program as without cox, whoever sends them. If cox is killed, the program continues, and nothing remains in the kernel.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use testkit::run::{
    Account, BpfIds, COX, both_ways, children, command, end_of, is_root, open_folder, path, send, shell_code, state,
    wait_for,
};
use testkit::terminal::{CTRL_C, CTRL_Z, Terminal};

#[test]
fn a_program_ended_by_a_signal() {
    if !is_root("a_program_ended_by_a_signal") {
        return;
    }
    for (signal, code) in [("KILL", 137), ("SEGV", 139), ("TERM", 143), ("USR1", 138), ("INT", 130)] {
        let script = format!("echo before; kill -{signal} $$; echo after");
        assert_eq!(both_ways(&[], &["sh", "-c", &script]).code, code, "{signal}");
    }
}

#[test]
fn a_program_killed_from_outside() {
    if !is_root("a_program_killed_from_outside") {
        return;
    }
    let mut cox = command(Some(&["-q"]), &["sleep", "60"]).spawn().unwrap();
    let program = started(cox.id(), "sleep");
    send(program, Signal::KILL);
    assert_eq!(shell_code(end_of(&mut cox)), 137);
}

#[test]
fn a_stopped_program_is_blocked_and_goes_on() {
    if !is_root("a_stopped_program_is_blocked_and_goes_on") {
        return;
    }
    let folder = open_folder();
    let json = path(&folder, "cox.json");
    let mut cox = command(Some(&["-q", "--json", &json]), &["sleep", "0.6"]).spawn().unwrap();
    let program = started(cox.id(), "sleep");
    send(program, Signal::STOP);
    wait_for("the program stops", || (state(program) == Some('T')).then_some(()));
    // Longer than its sleep lasts: it cannot end.
    thread::sleep(Duration::from_millis(900));
    assert_eq!(state(program), Some('T'));
    assert!(cox.try_wait().unwrap().is_none(), "cox waits for a stopped program");
    send(program, Signal::CONT);
    assert_eq!(shell_code(end_of(&mut cox)), 0);
    let account = Account::read(json);
    account.assert_sums();
    let stopped_ns: u64 = account.threads().filter_map(|thread| thread.blocked_by.get("stopped")).sum();
    assert!(stopped_ns > 850_000_000, "{account:?}");
}

/// The program that `cox` started, after its exec.
fn started(cox: u32, comm: &str) -> u32 {
    wait_for("the program under cox", || {
        let program = children(cox).first().copied()?;
        let name = fs::read_to_string(format!("/proc/{program}/comm")).ok()?;
        (name.trim_end() == comm).then_some(program)
    })
}

/// Counts the signals it gets, says each, and ends with 9 when it is told to by SIGUSR2.
const COUNTER: &str = r#"
    for s in INT TERM HUP QUIT USR1 ALRM; do trap "echo $s" $s; done
    trap 'exit 9' USR2
    echo ready
    while :; do sleep 0.01; done"#;

#[test]
fn signals_to_cox_are_passed_on_once() {
    if !is_root("signals_to_cox_are_passed_on_once") {
        return;
    }
    let folder = open_folder();
    let output = path(&folder, "output");
    let shown = || fs::read_to_string(&output).unwrap();
    let mut cox = command(Some(&["-q"]), &["bash", "-c", COUNTER]);
    let mut cox = cox.stdout(fs::File::create(&output).unwrap()).spawn().unwrap();
    wait_for("the program", || shown().contains("ready").then_some(()));
    let mut expected = "ready\n".to_owned();
    let signals = [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("ALRM", Signal::ALARM),
        ("TERM", Signal::TERM),
    ];
    for (name, signal) in signals {
        send(cox.id(), signal);
        expected += &format!("{name}\n");
        wait_for(name, || (shown().len() >= expected.len()).then_some(()));
    }
    send(cox.id(), Signal::USR2);
    assert_eq!(shell_code(end_of(&mut cox)), 9);
    assert_eq!(shown(), expected);
}

#[test]
fn a_program_without_handlers_ends_by_the_signal_to_cox() {
    if !is_root("a_program_without_handlers_ends_by_the_signal_to_cox") {
        return;
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut cox = command(Some(&["-q"]), &["sleep", "60"]).spawn().unwrap();
        started(cox.id(), "sleep");
        send(cox.id(), signal);
        assert_eq!(shell_code(end_of(&mut cox)), code);
    }
}

#[test]
fn a_signal_while_cox_starts_is_not_lost() {
    if !is_root("a_signal_while_cox_starts_is_not_lost") {
        return;
    }
    // Whenever it comes, it ends cox or the program, and cox says by which signal.
    for delay_ms in [20, 60, 100, 140] {
        let mut cox = command(Some(&["-q"]), &["sleep", "60"]).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        send(cox.id(), Signal::TERM);
        assert_eq!(shell_code(end_of(&mut cox)), 143, "after {delay_ms} ms");
    }
}

/// Says its signal dispositions before and after the file `$1/killed` is there, and that it has begun by the file
/// `$1/started`. Whoever reads its stdout sees the end of file when cox and all that it started are gone.
const BYSTANDER: &str = r#"
    grep -E '^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt)' /proc/self/status
    echo started; : > "$1/started"
    until [ -e "$1/killed" ]; do sleep 0.01; done
    grep -E '^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt)' /proc/self/status
    echo ended"#;

/// A moment in the life of cox.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So many milliseconds after its start.
    After(u64),
    /// BPF programs are loaded.
    Loaded,
    /// They are attached.
    Attached,
    /// The child is there; it waits at the gate, or a little further.
    Forked,
    /// The program has said that it runs.
    Running,
}

#[test]
fn cox_killed_leaves_the_program_alone_and_nothing_in_the_kernel() {
    if !is_root("cox_killed_leaves_the_program_alone_and_nothing_in_the_kernel") {
        return;
    }
    let alone = {
        let folder = open_folder();
        fs::write(path(&folder, "killed"), "").unwrap();
        testkit::run::run(&mut command(None, &["sh", "-c", BYSTANDER, "sh", folder.path().to_str().unwrap()])).text()
    };
    let moments = [Moment::Loaded, Moment::Attached, Moment::Forked, Moment::Running, Moment::Running];
    let swept = (0..24).map(|step| Moment::After(step * 12));
    let (mut unstarted, mut unharmed, mut held) = (0, 0, 0);
    for moment in moments.into_iter().chain(swept) {
        let folder = open_folder();
        let started = path(&folder, "started");
        let bystander = ["sh", "-c", BYSTANDER, "sh", folder.path().to_str().unwrap()];
        let mut cox = command(Some(&["-q"]), &bystander).stdout(Stdio::piped()).spawn().unwrap();
        let pid = cox.id();
        let ids = || BpfIds::held_by(pid);
        match moment {
            Moment::After(ms) => thread::sleep(Duration::from_millis(ms)),
            Moment::Loaded => wait_for("BPF programs", || (ids().count() > 0).then_some(())),
            Moment::Attached => wait_for("BPF links", || ids().has_links().then_some(())),
            Moment::Forked => wait_for("the child", || (!children(pid).is_empty()).then_some(())),
            Moment::Running => wait_for("the program", || fs::metadata(&started).ok().map(drop)),
        }
        let ids = ids();
        cox.kill().unwrap();
        assert_eq!(shell_code(end_of(&mut cox)), 137);
        // Only now: however long the test was held up, cox was killed while its program ran.
        fs::write(path(&folder, "killed"), "").unwrap();
        let mut output = String::new();
        cox.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        // Never started, or run to its end with the same signals.
        if output.is_empty() {
            unstarted += 1;
        } else {
            assert_eq!(output, alone, "{moment:?}");
            unharmed += 1;
        }
        held += usize::from(ids.has_links());
        ids.assert_dropped();
    }
    assert!(unstarted > 0 && unharmed > 0 && held > 0, "{unstarted} {unharmed} {held}: all moments were the same");
}

#[test]
fn an_ordinary_end_leaves_nothing_in_the_kernel() {
    if !is_root("an_ordinary_end_leaves_nothing_in_the_kernel") {
        return;
    }
    let mut cox = command(Some(&["-q"]), &["sleep", "60"]).spawn().unwrap();
    let program = started(cox.id(), "sleep");
    let ids = BpfIds::held_by(cox.id());
    assert!(ids.has_links() && ids.left().count() == ids.count(), "{ids:?}");
    send(program, Signal::TERM);
    end_of(&mut cox);
    ids.assert_dropped();
}

#[test]
fn ctrl_c_reaches_the_program_once_and_cox_still_reports() {
    if !is_root("ctrl_c_reaches_the_program_once_and_cox_still_reports") {
        return;
    }
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready; while [ $n -lt 1 ]; do sleep 0.01; done
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.01; done; echo got $n; exit 4";
    let mut terminal = Terminal::start(&[COX, "run", "--", "bash", "-c", script]);
    terminal.wait_for("ready");
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), 4);
    terminal.wait_for("got 1\r\n");
    terminal.wait_for("cox: bash -c");
}

#[test]
fn ctrl_c_ends_a_program_that_does_not_care() {
    if !is_root("ctrl_c_ends_a_program_that_does_not_care") {
        return;
    }
    let mut terminal = Terminal::start(&[COX, "run", "--", "sh", "-c", "echo ready; exec sleep 60"]);
    terminal.wait_for("ready");
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), 130);
    terminal.wait_for("cox: sh -c");
}

#[test]
fn ctrl_c_ends_a_watch_and_not_what_is_watched() {
    if !is_root("ctrl_c_ends_a_watch_and_not_what_is_watched") {
        return;
    }
    let mut watched = command(None, &["sleep", "60"]).spawn().unwrap();
    let mut terminal = Terminal::start(&[COX, "run", "--pid", &watched.id().to_string()]);
    // From when it holds SIGINT back, the key means the end of the watch.
    wait_for("the watch begins", || {
        let status = fs::read_to_string(format!("/proc/{}/status", terminal.pid())).ok()?;
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"))?;
        (u64::from_str_radix(blocked, 16).unwrap() & 1 << (libc::SIGINT - 1) != 0).then_some(())
    });
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), 0);
    terminal.wait_for("still running");
    assert!(state(watched.id()).is_some());
    watched.kill().unwrap();
    watched.wait().unwrap();
}

#[test]
fn ctrl_z_stops_both_and_fg_continues_both() {
    if !is_root("ctrl_z_stops_both_and_fg_continues_both") {
        return;
    }
    let folder = open_folder();
    let pids = path(&folder, "pids");
    let json = path(&folder, "cox.json");
    // Without `exec` the shell would be told by its own stop only.
    let program = format!("echo $$ $PPID > {pids}; echo ready; exec sleep 0.3");
    let session = format!(
        "set -m; {COX} run -q --json {json} -- sh -c '{program}'; echo stopped $?
         for p in $(cat {pids}); do grep State /proc/$p/status; done; sleep 0.5; fg > /dev/null; echo done $?"
    );
    let mut terminal = Terminal::start(&["bash", "-c", &session]);
    terminal.wait_for("ready");
    terminal.press(CTRL_Z);
    assert_eq!(terminal.end(), 0);
    terminal.wait_for("stopped 148");
    assert_eq!(terminal.screen().matches("T (stopped)").count(), 2, "{}", terminal.screen());
    terminal.wait_for("done 0");
    let account = Account::read(json);
    let stopped_ns: u64 = account.threads().filter_map(|thread| thread.blocked_by.get("stopped")).sum();
    assert!(stopped_ns > 400_000_000, "{account:?}");
}
