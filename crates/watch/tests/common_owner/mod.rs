//! Processes of an ordinary user, for tests that root runs.

// Each test binary compiles this module for itself and uses a part of it.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user that nobody has.
pub const USER: u32 = 12345;

/// Whether this test can run; says so if not.
pub fn may(test: &str) -> bool {
    testkit::skip::is_root(test)
}

/// A process that is killed whatever happens.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `script` in a shell of the user's that waits for a line first.
pub fn gated(script: &str) -> Running {
    let (id, script) = (USER.to_string(), format!("read go; {script}"));
    let words = ["--reuid", &id, "--regid", &id, "--clear-groups", "--", "sh", "-c", &script];
    let mut command = Command::new("setpriv");
    let mut child = command.args(words).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let shell = format!("/proc/{}/comm", child.id());
    while fs::read_to_string(&shell).unwrap() != "sh\n" {
        assert!(child.try_wait().unwrap().is_none(), "setpriv has failed");
        std::thread::sleep(Duration::from_millis(1));
    }
    Running(child)
}

/// Waits until a process has called unshare(2), and gives its namespace this user and the user 54321, which setuid(2) can then choose. Returns whether it
/// could: not every machine lets users make user namespaces.
pub fn give_another_user(child: &mut Running, pause: Duration) -> bool {
    // Its user namespace is another one when it has called unshare.
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
    let (pid, deadline) = (child.0.id().to_string(), Instant::now() + Duration::from_secs(20));
    while namespace(&pid) == namespace("self") {
        if child.0.try_wait().unwrap().is_some() || Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(pause);
    fs::write(format!("/proc/{pid}/uid_map"), format!("0 {USER} 1\n1 54321 1\n")).unwrap();
    true
}
