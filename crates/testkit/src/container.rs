//! Runs tests again inside a container: the same test program with the same assertions, but all process IDs differ from those outside.

use std::env;
use std::process::Command;

use crate::skip::{Need, hand_on, has};

/// Does what a container engine does with regard to IDs: a PID namespace and a mount namespace with their own /proc.
pub const CONTAINER: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Runs `tests` of this test program in a container, and the first of them also in a nested container.
pub fn again_in_containers(test: &str, tests: &[&str]) {
    if !can_have_containers(test) {
        return;
    }
    for (depth, tests) in [(1, tests), (2, &tests[..1])] {
        let words = [CONTAINER.repeat(depth), vec!["timeout", "--kill-after", "10", "600"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(env::current_exe().unwrap());
        // One test after the other, because none of them expects other tests at the same time.
        command.args(["--exact", "--test-threads", "1"]).args(tests);
        let output = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        hand_on(&stderr, " (in a container)");
        assert!(output.status.success(), "{depth} deep: {command:?}\n{stdout}\n{stderr}");
        let passed = format!("{} passed; 0 failed", tests.len());
        assert!(stdout.contains(&passed), "{depth} deep, not all of {tests:?} ran:\n{stdout}\n{stderr}");
    }
}

/// Returns whether this process may create namespaces. If not, skips `test`.
pub fn can_have_containers(test: &str) -> bool {
    let mut command = Command::new(CONTAINER[0]);
    let made = command.args(&CONTAINER[1..]).arg("true").output().is_ok_and(|output| output.status.success());
    has(made, test, Need::Namespaces, "cannot make namespaces of processes (unshare)")
}
