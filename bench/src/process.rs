//! Running a command and learning what it and its descendants cost.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use serde::{Deserialize, Serialize};

/// What a run took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// From before the fork until the process was reaped.
    pub wall_ns: u64,
    /// User and system time of the process and of all descendants that were waited for. Time that
    /// the hypervisor took away is not in it.
    pub cpu_ns: u64,
}

/// Start `command`, wait for it, and say how it ended and what it cost.
///
/// # Errors
/// When it cannot be started.
pub fn run(command: &mut Command) -> io::Result<(ExitStatus, Cost)> {
    let begin_ns = arch::monotonic_ns();
    let child = command.spawn()?;
    let (status, cpu_ns) = reap(child)?;
    Ok((status, Cost { wall_ns: arch::monotonic_ns() - begin_ns, cpu_ns }))
}

fn reap(child: Child) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the right types. The child has not been
        // waited for, since `child` is owned here and only dropped afterwards.
        let reaped = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
        if reaped >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok((ExitStatus::from_raw(status), ns(usage.ru_utime) + ns(usage.ru_stime)))
}

/// "exit code 3" or "killed by signal 9".
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_count_as_cpu_time_and_sleep_does_not() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (status, spun) = run(Command::new("sh").args(["-c", &format!("sh -c '{busy}'; exit 3")])).unwrap();
        assert_eq!(ending(status), "exit code 3");
        let (status, slept) = run(Command::new("sleep").arg("0.2")).unwrap();
        assert!(status.success());
        assert!(slept.wall_ns >= 200_000_000 && slept.cpu_ns < slept.wall_ns / 2, "{slept:?}");
        assert!(spun.cpu_ns > slept.cpu_ns && spun.cpu_ns <= spun.wall_ns, "{spun:?} {slept:?}");
    }

    #[test]
    fn signals_are_named() {
        let (status, _) = run(Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        assert_eq!(ending(status), "killed by signal 9");
        assert!(run(&mut Command::new("/nonexistent/program")).is_err());
    }
}
