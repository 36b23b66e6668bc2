//! Tests once more, inside a container: the same program with the same assertions, where all ids are others.

use std::env;
use std::process::Command;

use crate::skip::{Need, hand_on, has};

/// What a container's engine does, as far as ids go: namespaces of processes and of mounts, with a /proc of their own.
pub const CONTAINER: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Runs `tests` of this test program in a container, and the first of them in a container in a container too.
pub fn again_in_containers(test: &str, tests: &[&str]) {
    if !can_have_containers(test) {
        return;
    }
    for (depth, tests) in [(1, tests), (2, &tests[..1])] {
        let words = [CONTAINER.repeat(depth), vec!["timeout", "--kill-after", "10", "600"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(env::current_exe().unwrap());
        // One after another: none of them expects another beside it.
        command.args(["--exact", "--test-threads", "1"]).args(tests);
        let output = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        hand_on(&stderr, " (in a container)");
        assert!(output.status.success(), "{depth} deep: {command:?}\n{stdout}\n{stderr}");
        let passed = format!("{} passed; 0 failed", tests.len());
        assert!(stdout.contains(&passed), "{depth} deep, not all of {tests:?} ran:\n{stdout}\n{stderr}");
    }
}

/// Whether this process may make namespaces; if not, says that `test` is skipped.
pub fn can_have_containers(test: &str) -> bool {
    let mut command = Command::new(CONTAINER[0]);
    let made = command.args(&CONTAINER[1..]).arg("true").output().is_ok_and(|output| output.status.success());
    has(made, test, Need::Namespaces, "cannot make namespaces of processes (unshare)")
}
