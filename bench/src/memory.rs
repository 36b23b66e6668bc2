//! Measures a program's peak anonymous memory.

use std::io;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use machine::Root;

/// Polling interval. Polling is necessary because the kernel keeps no high-water mark of anonymous memory.
const LOOK: Duration = Duration::from_micros(200);

/// Runs `command`. Returns its exit status and the largest `RssAnon` seen (resident anonymous memory), in bytes.
///
/// # Errors
/// When the command cannot be started.
pub fn most_anonymous(command: &mut Command) -> io::Result<(ExitStatus, u64)> {
    let mut child = command.spawn()?;
    let mut most = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, most));
        }
        // If the process has just ended, its status cannot be read, and its memory counts as 0 bytes.
        let status = Root::live().read_text(format!("/proc/{}/status", child.id())).unwrap_or_default();
        most = most.max(anonymous_bytes(&status).unwrap_or(0));
        thread::sleep(LOOK);
    }
}

/// Returns the size in bytes from the line `RssAnon:      4 kB` of /proc/PID/status.
fn anonymous_bytes(status: &str) -> Option<u64> {
    let size = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?.strip_suffix("kB")?;
    Some(size.trim().parse::<u64>().ok()? << 10)
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
