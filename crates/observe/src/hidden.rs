//! Programs whose threads perf cannot follow.
//!
//! A process may execute a file that its user may not read, or that gives it other rights. The kernel then marks the process as not dumpable, and
//! removes perf's events from it (`begin_new_exec` in fs/exec.c calls `perf_event_exit_task`). /proc still shows how long its threads ran.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Access, access};
use session::launch::file_of;

/// The set-user-id and set-group-id bits, as in stat(2).
const SET_ID: u32 = 0o6000;

/// Returns why perf cannot observe this program once it has been executed; `None` if perf can. Also `None` if there is no such file: starting the
/// program will report that.
#[must_use]
pub fn why_hidden_from_perf(program: &OsStr) -> Option<String> {
    let file = file_of(program)?;
    let found = std::fs::metadata(&file).ok()?;
    let own = rustix::process::geteuid().as_raw();
    let why = if access(&file, Access::READ_OK).is_err() {
        "this user may execute it but not read it"
    } else if found.mode() & SET_ID != 0 && found.uid() != own {
        "it runs with the rights of another user or group (set-user-id)"
    } else {
        return None;
    };
    Some(format!("the kernel does not let perf observe '{}': {why}", file.display()))
}
