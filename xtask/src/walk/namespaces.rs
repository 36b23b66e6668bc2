//! Makes namespaces that end with the process that made them.

use std::process::Command;

/// Returns a command that runs another command in new namespaces; the caller appends that command's words. The namespaces end with this process.
pub(super) fn namespaces() -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--ipc",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Stdio;
    use std::thread;
    use std::time::{Duration, Instant};

    use testkit::skip::{Need, skip};

    use super::*;

    /// Waits until a condition holds.
    fn wait_for(subject: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(60), "{subject}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn nothing_stays_when_the_walk_is_killed() {
        let test = "nothing_stays_when_the_walk_is_killed";
        if !namespaces().arg("true").status().is_ok_and(|status| status.success()) {
            return skip(test, Need::Namespaces, "cannot make namespaces");
        }
        let folder = tempfile::tempdir().unwrap();
        let mark = format!("mark-{}", folder.path().file_name().unwrap().display());
        let script =
            r#"mount -t tmpfs "$1" "$0" && { sleep 90 & } && echo >"$0.ready" && exec sh -c 'sleep 90; :' "$1""#;
        let mut inner = namespaces();
        inner.args(["sh", "-c", script]).arg(folder.path()).arg(&mark);
        // A process that stands for the walk, and is its parent.
        let mut walk = Command::new("sh");
        walk.args(["-c", r#""$@"; :"#, "sh"]).arg(inner.get_program()).args(inner.get_args());
        // What stays must not hold the pipe of the tests.
        let mut walk = walk.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ready = PathBuf::from(format!("{}.ready", folder.path().display()));
        wait_for("the command starts", || ready.exists());
        let is_mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&mark);
        let runs = || {
            let lines = fs::read_dir("/proc").unwrap().flatten();
            let mut lines = lines.map(|process| fs::read(process.path().join("cmdline")).unwrap_or_default());
            lines.any(|line| String::from_utf8_lossy(&line).contains(&mark))
        };
        assert!(runs() && !is_mounted());
        walk.kill().unwrap();
        walk.wait().unwrap();
        wait_for("what it started ends", || !runs());
        assert!(!is_mounted());
        fs::remove_file(ready).unwrap();
    }
}
