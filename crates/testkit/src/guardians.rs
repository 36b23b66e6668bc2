//! The guardians of cox's sessions: the processes that restore everything if cox is killed.

use std::fs;

use rustix::process::Pid;

/// Words of a guardian's command line.
const GUARD: &[u8] = b"\0changes\0guard\0";

/// Returns all guardians of this machine.
///
/// # Panics
/// When there is no /proc.
#[must_use]
pub fn all() -> Vec<Pid> {
    found(|_| true)
}

/// Returns the guardians that this cox has started, while it lives.
///
/// # Panics
/// When there is no /proc.
#[must_use]
pub fn of(cox: u32) -> Vec<Pid> {
    let line = format!("PPid:\t{cox}");
    found(|status| status.lines().any(|one| one == line))
}

/// Returns the guardians whose file `status` (proc(5)) satisfies a condition.
fn found(is_wanted: impl Fn(&str) -> bool) -> Vec<Pid> {
    let guardian = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let is_it = words.windows(GUARD.len()).any(|part| part == GUARD) && is_wanted(&status);
        is_it.then(|| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).flatten()
    };
    let processes = fs::read_dir("/proc").expect("/proc is mounted");
    processes.flatten().filter_map(guardian).collect()
}
