//! Waits for a lock. If that takes long, tells the user which process holds the lock.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use machine::Root;
use machine::process::Task;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// After this time the user is told what cox waits for.
const PATIENCE: Duration = Duration::from_secs(1);

static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that tells the user about a wait for a lock, once per process. Without this function the user is
/// not told.
pub fn tell_by(say: fn(&str)) {
    // A second call would set the same function.
    let _ = SAY.set(say);
}

/// Locks a file that was opened at `path`.
///
/// # Errors
/// The kernel's error; also EINTR, so that a signal can end the wait.
pub(crate) fn lock(file: &File, path: &Path) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {}
        done => return Ok(done?),
    }
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        let tell = move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
                && let Some(say) = SAY.get()
            {
                say(&waiting_for(file, path));
            }
        };
        // If no thread can be started, the wait is silent.
        let _ = thread::Builder::new().spawn_scoped(scope, tell);
        let locked = flock(file, FlockOperation::LockExclusive);
        drop(done);
        Ok(locked?)
    })
}

fn waiting_for(file: &File, path: &Path) -> String {
    let root = Root::live();
    let holder = file.metadata().ok().and_then(|file| {
        let locks = root.read_text("/proc/locks").ok()?;
        holder(&locks, file.ino())
    });
    match holder {
        Some(pid) => {
            let command = Task::process(&root, pid).cmdline().unwrap_or_default();
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            format!("waiting for PID {pid} ({}), which has locked {}", words.join(" "), path.display())
        }
        None => format!("waiting for another process, which has locked {}", path.display()),
    }
}

/// Returns the process that has locked the file with this inode by flock(2). Lines of /proc/locks look like
/// `N: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END`. Processes that wait have an arrow before FLOCK. The
/// device is not compared, because on some file systems it differs from that of stat(2).
fn holder(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, pid, place, ..] = &words[..] else { return None };
        let is_it = place.rsplit(':').next()?.parse() == Ok(inode);
        pid.parse().ok().filter(|_| is_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:1a:98 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 13 00:1a:99 0 EOF\n4: FLOCK  ADVISORY  WRITE 14 00:1a:99 0 EOF\n";
        assert_eq!((holder(locks, 99), holder(locks, 98), holder(locks, 9)), (Some(14), Some(12), None));
    }
}
