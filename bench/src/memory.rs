//! How much memory of its own a program has at most.

use std::fs;
use std::io;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

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
        most = most.max(anonymous(child.id()).unwrap_or(0));
        thread::sleep(LOOK);
    }
}

/// None: it has gone.
fn anonymous(pid: u32) -> Option<u64> {
    anonymous_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn anonymous_in(status: &str) -> Option<u64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_are_not_counted() {
        let status = "VmRSS:\t     900 kB\nRssAnon:\t       4 kB\nRssFile:\t     896 kB\n";
        assert_eq!(anonymous_in(status), Some(4096));
        assert_eq!(anonymous_in("State:\tZ (zombie)\n"), None);
    }

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
