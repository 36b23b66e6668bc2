//! `cox changes` on journals as a dead session leaves them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use changes::format::{Change, FORMAT, Header};
use changes::journal::Journal;
use changes::{Claim, JournalFolder, Knob, KnobIo, LiveKnobIo, Value};
use machine::Root;
use tempfile::TempDir;

const COX: &str = env!("CARGO_BIN_EXE_cox");

/// A sleeping process whose affinity somebody has changed and journaled.
struct Left {
    sleeper: Child,
    runtime: TempDir,
    knob_io: LiveKnobIo,
    change: Change,
    journal: PathBuf,
}

impl Drop for Left {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

impl Left {
    /// `pid`: of the session that is said to have done it.
    fn by(pid: u32) -> Left {
        let sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let knob_io = LiveKnobIo::new(Root::live());
        let knob = Knob::Affinity(knob_io.thread(sleeper.id()).unwrap());
        let original = knob_io.read(&knob).unwrap();
        let Value::Cpus(cpus) = &original else { panic!("{original}") };
        let change = Change {
            engine: "pack".into(),
            knob: knob.clone(),
            claim: Claim::Within(cpus.iter().take(1).collect()),
            original,
        };
        let runtime = TempDir::new().unwrap();
        let folder = runtime.path().join("coxswain");
        let journal = JournalFolder::at(&folder).journal(pid);
        let left = Left { sleeper, runtime, knob_io, change, journal };
        fs::create_dir(folder).unwrap();
        let header = Header {
            format: FORMAT,
            boot_id: left.knob_io.boot_id().unwrap(),
            pid,
            start_ns: left.knob_io.started_ns(pid).unwrap_or(1),
            command: "cox pack ./app".into(),
        };
        let mut journal = Journal::create(left.journal.clone(), &header).unwrap();
        journal.announce(std::slice::from_ref(&left.change)).unwrap();
        left.knob_io.write(&knob, &left.change.claim.first().unwrap()).unwrap();
        left
    }

    fn folder(&self) -> std::path::PathBuf {
        self.runtime.path().join("coxswain")
    }

    fn now(&self) -> Value {
        self.knob_io.read(&self.change.knob).unwrap()
    }

    fn cox(&self, verb: &str) -> Output {
        Command::new(COX).args(["changes", verb]).env("COX_CHANGES", self.folder()).output().unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn nothing_is_changed() {
    let runtime = TempDir::new().unwrap();
    for verb in ["status", "undo"] {
        let output =
            Command::new(COX).args(["changes", verb]).env("COX_CHANGES", runtime.path().join("none")).output().unwrap();
        assert_eq!((text(&output).as_str(), output.status.code()), ("Nothing is changed.\n", Some(0)));
    }
}

#[test]
fn what_a_dead_session_left_is_listed_and_put_back() {
    let left = Left::by(u32::MAX);
    let status = left.cox("status");
    for part in ["affinity of thread", "it was CPUs", "pack of process 4294967295 (cox pack ./app)", "cox changes undo"]
    {
        assert!(text(&status).contains(part), "{}", text(&status));
    }
    assert_eq!((status.status.code(), left.now()), (Some(1), left.change.claim.first().unwrap()));
    let undo = left.cox("undo");
    assert!(text(&undo).contains("1 put back"), "{}", text(&undo));
    assert_eq!((undo.status.code(), left.now()), (Some(0), left.change.original.clone()));
    assert_eq!(left.cox("status").status.code(), Some(0));
}

#[test]
fn a_living_session_keeps_what_it_has() {
    let left = Left::by(std::process::id());
    assert_eq!(left.cox("status").status.code(), Some(0));
    let undo = left.cox("undo");
    assert!(text(&undo).contains("still runs"), "{}", text(&undo));
    assert_eq!((undo.status.code(), left.now()), (Some(0), left.change.claim.first().unwrap()));
    left.knob_io.write(&left.change.knob, &left.change.original).unwrap();
}

/// A file that is no journal keeps nothing from coming back; it is named, and is there afterwards.
#[test]
fn what_cox_has_not_made_is_named_and_left_alone() {
    let left = Left::by(u32::MAX);
    for name in ["7.journal", "thesis.tex"] {
        fs::write(left.folder().join(name), "nonsense\n").unwrap();
    }
    let output = left.cox("undo");
    assert_eq!((output.status.code(), left.now()), (Some(1), left.change.original.clone()), "{}", text(&output));
    for part in ["1 put back", "7.journal was not made by cox", "thesis.tex was not made by cox"] {
        assert!(text(&output).contains(part), "{}", text(&output));
    }
    // With nothing of cox's beside them, and without a lock, the folder is somebody's.
    fs::remove_file(left.folder().join("lock")).unwrap();
    for command in [&["changes", "undo"][..], &["changes", "status"], &["pack", "-q", "--cpus", "0", "--", "true"]] {
        let output = Command::new(COX).args(command).env("COX_CHANGES", left.folder()).output().unwrap();
        let text = text(&output);
        assert!(output.status.code() == Some(125) && text.contains("7.journal"), "{command:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let mut names: Vec<_> = fs::read_dir(left.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["7.journal", "thesis.tex"]);
}

#[test]
fn a_damaged_journal_is_undone_as_far_as_it_can_be_read() {
    let left = Left::by(u32::MAX);
    let mut text_of = fs::read(&left.journal).unwrap();
    let at = text_of.len() - text_of.split_inclusive(|byte| *byte == b'\n').next_back().unwrap().len();
    text_of.splice(at..at, *b"\0\xff{\"change\":\n");
    fs::write(&left.journal, text_of).unwrap();
    let output = left.cox("undo");
    assert_eq!((output.status.code(), left.now()), (Some(1), left.change.original.clone()), "{}", text(&output));
    assert!(text(&output).contains("line 3 cannot be read") && text(&output).contains(".damaged"), "{}", text(&output));
    let again = left.cox("undo");
    assert!(again.status.code() == Some(1) && text(&again).contains(".damaged"), "{}", text(&again));
    fs::remove_file(left.journal.with_extension("damaged")).unwrap();
    assert_eq!((left.cox("undo").status.code(), left.cox("status").status.code()), (Some(0), Some(0)));
}

/// FIFOs, links and a file that never ends keep nobody waiting.
#[test]
fn nothing_in_the_folder_keeps_anybody_waiting() {
    let left = Left::by(u32::MAX);
    let at = |name: &str| left.folder().join(name);
    assert!(Command::new("mkfifo").args([at("5.journal"), at("rights")]).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", at("6-00000000000000ab.journal")).unwrap();
    fs::File::create(at("8-00000000000000ab.journal")).unwrap().set_len(1 << 40).unwrap();
    for verb in ["status", "undo"] {
        let output = Command::new("timeout")
            .args(["--foreground", "60", COX, "changes", verb])
            .env("COX_CHANGES", left.folder())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{verb}: {}", text(&output));
        for name in ["5.journal", "rights", "6-0", "8-0"] {
            assert!(text(&output).contains(name), "{name}: {}", text(&output));
        }
    }
    assert_eq!(left.now(), left.change.original);
}

#[test]
fn who_has_the_lock_is_named_after_a_second() {
    let left = Left::by(u32::MAX);
    let lock = JournalFolder::at(left.folder()).lock().unwrap();
    let mut command = Command::new(COX);
    command.args(["changes", "undo"]).env("COX_CHANGES", left.folder()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let mut line = String::new();
    let read = BufReader::new(waiting.stderr.take().unwrap()).read_line(&mut line);
    drop(lock);
    let code = waiting.wait().unwrap().code();
    read.unwrap();
    assert!(line.contains(&format!("waiting for PID {} (", std::process::id())), "{line}");
    assert_eq!((code, left.now()), (Some(0), left.change.original.clone()));
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let left = Left::by(u32::MAX);
    fs::set_permissions(left.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = left.cox("undo");
    assert!(output.status.code() == Some(125) && text(&output).contains("only this user"), "{}", text(&output));
    assert_eq!(left.now(), left.change.claim.first().unwrap());
    fs::set_permissions(left.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(left.cox("undo").status.code(), Some(0));
}

#[test]
fn a_guardian_puts_back_when_its_lifeline_is_cut() {
    let left = Left::by(u32::MAX);
    let journal = left.journal.clone();
    let mut guardian = guardian(&journal);
    let mut ready = [0];
    std::io::Read::read_exact(guardian.stdout.as_mut().unwrap(), &mut ready).unwrap();
    assert_eq!(left.now(), left.change.claim.first().unwrap());
    drop(guardian.stdin.take());
    assert!(guardian.wait().unwrap().success());
    assert_eq!((left.now(), journal.exists()), (left.change.original.clone(), false));
}

fn guardian(journal: &Path) -> Child {
    let mut command = Command::new(COX);
    command.args(["changes", "guard"]).arg(journal).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}
