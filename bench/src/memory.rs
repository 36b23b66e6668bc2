//! How much memory of its own a program has at most.

use std::io;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use machine::Root;
use machine::process::Task;

/// How often to look. The kernel keeps no maximum of it.
const LOOK: Duration = Duration::from_micros(200);

/// Runs `command` and says how it ended, and the most anonymous memory (`RssAnon`, in bytes) that it was seen with: what is not of a file.
///
/// # Errors
/// When it cannot be started.
pub fn most_anonymous(command: &mut Command) -> io::Result<(ExitStatus, u64)> {
    let mut child = command.spawn()?;
    let mut most = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, most));
        }
        // Nothing is had of one that has gone.
        let status = Task::process(&Root::live(), child.id()).status();
        most = most.max(status.map_or(0, |status| status.anonymous_bytes));
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_takes_is_seen() {
        let shell = |text: &str| {
            let (status, most) = most_anonymous(Command::new("sh").args(["-c", text])).unwrap();
            assert!(status.success());
            most >> 20
        };
        // 16 MB of letters in a variable, and none.
        assert!((15..120).contains(&shell("x=$(head -c 16777216 /dev/zero | tr '\\0' x); sleep 0.1")));
        assert!(shell("sleep 0.1") < 8);
    }
}
