//! `cox changes`, on journals as a dead session leaves them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use changes::journal::{Change, FORMAT, Header, Journal};
use changes::{Claim, Hands, Knob, LiveHands, Value};
use machine::Root;
use tempfile::TempDir;

const COX: &str = env!("CARGO_BIN_EXE_cox");

/// A sleeping process whose affinity somebody has changed and journaled.
struct Left {
    sleeper: Child,
    runtime: TempDir,
    hands: LiveHands,
    change: Change,
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
        let hands = LiveHands::new(Root::live());
        let knob = Knob::Affinity(hands.thread(sleeper.id()).unwrap());
        let original = hands.read(&knob).unwrap();
        let Value::Cpus(cpus) = &original else { panic!("{original}") };
        let change = Change {
            engine: "pack".into(),
            knob: knob.clone(),
            claim: Claim::Within(cpus.iter().take(1).collect()),
            original,
        };
        let runtime = TempDir::new().unwrap();
        let left = Left { sleeper, runtime, hands, change };
        fs::create_dir(left.folder()).unwrap();
        let header = Header {
            format: FORMAT,
            boot_id: left.hands.boot_id().unwrap(),
            pid,
            start_ns: left.hands.started_ns(pid).unwrap_or(1),
            command: "cox pack ./app".into(),
        };
        let mut journal = Journal::create(left.folder().join(format!("{pid}.journal")), &header).unwrap();
        journal.announce(&left.change).unwrap();
        left.hands.write(&knob, &left.change.claim.first()).unwrap();
        left
    }

    fn folder(&self) -> std::path::PathBuf {
        self.runtime.path().join("coxswain")
    }

    fn now(&self) -> Value {
        self.hands.read(&self.change.knob).unwrap()
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
    assert_eq!((status.status.code(), left.now()), (Some(1), left.change.claim.first()));
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
    assert_eq!((undo.status.code(), left.now()), (Some(0), left.change.claim.first()));
    left.hands.write(&left.change.knob, &left.change.original).unwrap();
}

#[test]
fn a_journal_that_cannot_be_read_is_one_clear_line() {
    let left = Left::by(u32::MAX);
    let path = left.folder().join("7.journal");
    fs::write(&path, "nonsense\n").unwrap();
    let output = left.cox("undo");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output).contains("7.journal") && text(&output).lines().count() == 1, "{}", text(&output));
    fs::remove_file(&path).unwrap();
    assert_eq!(left.cox("undo").status.code(), Some(0));
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let left = Left::by(u32::MAX);
    fs::set_permissions(left.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = left.cox("undo");
    assert!(output.status.code() == Some(125) && text(&output).contains("only this user"), "{}", text(&output));
    assert_eq!(left.now(), left.change.claim.first());
    fs::set_permissions(left.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(left.cox("undo").status.code(), Some(0));
}

#[test]
fn a_guardian_puts_back_when_its_lifeline_is_cut() {
    let left = Left::by(u32::MAX);
    let journal = left.folder().join("4294967295.journal");
    let mut guardian = guardian(&journal);
    let mut ready = [0];
    std::io::Read::read_exact(guardian.stdout.as_mut().unwrap(), &mut ready).unwrap();
    assert_eq!(left.now(), left.change.claim.first());
    drop(guardian.stdin.take());
    assert!(guardian.wait().unwrap().success());
    assert_eq!((left.now(), journal.exists()), (left.change.original.clone(), false));
}

fn guardian(journal: &Path) -> Child {
    let mut command = Command::new(COX);
    command.args(["changes", "guard"]).arg(journal).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}
