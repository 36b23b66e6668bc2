//! The backends without privilege, and where perf is forbidden.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use watch::WatchError;
use watch::perf::PerfObserver;

use crate::session::{WORKLOAD, observe, workload};

const SYSCTL: &str = "/proc/sys/kernel/perf_event_paranoid";
const NOBODY: u32 = 65534;

/// kernel.perf_event_paranoid at another level, until dropped. One at a time.
struct Paranoid {
    before: String,
    _alone: MutexGuard<'static, ()>,
}

impl Paranoid {
    fn set(level: &str) -> Paranoid {
        static ONE: Mutex<()> = Mutex::new(());
        // A test that failed has put the level back all the same.
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = fs::read_to_string(SYSCTL).expect("perf is built in");
        fs::write(SYSCTL, level).expect("root may");
        Paranoid { before, _alone: alone }
    }
}

impl Drop for Paranoid {
    fn drop(&mut self) {
        fs::write(SYSCTL, &self.before).expect("root may");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// This test program, copied with its workload to where anybody may run it, as user `nobody`.
fn as_nobody(folder: &Path) -> Command {
    let copy = |from: &Path, name: &str| {
        let to = folder.join(name);
        // Not by ourselves: a child that another test forks meanwhile would hold the program open for
        // writing, and the kernel does not execute it then.
        assert!(Command::new("cp").arg(from).arg(&to).status().expect("cp is installed").success());
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("own file");
        to
    };
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("own folder");
    let tests = copy(&std::env::current_exe().expect("known"), "tests");
    let mut command = Command::new(tests);
    command.env(WORKLOAD, copy(&workload(), "workload")).current_dir("/").uid(NOBODY).gid(NOBODY);
    command
}

fn must_pass(command: &mut Command) {
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("running 0 tests"), "{text}");
}

/// Every other test again, as a user without any privilege, where paranoid is what mainline has.
#[test]
fn everything_works_without_privilege() {
    if !is_root() {
        return; // then it did just now
    }
    let _level = Paranoid::set("2");
    let folder = tempfile::tempdir().expect("folder");
    must_pass(as_nobody(folder.path()).args([
        "--test-threads",
        "1",
        "--skip",
        "without_privilege",
        "--skip",
        "paranoid",
    ]));
}

/// Level 3 and its filter: Debian and Ubuntu kernels refuse there by a patch of their own, mainline
/// does not. A seccomp filter makes any kernel answer like theirs.
#[test]
fn where_paranoid_is_3_perf_is_refused_with_a_way_out() {
    if !is_root() {
        return;
    }
    let _level = Paranoid::set("3");
    let folder = tempfile::tempdir().expect("folder");
    let mut command = as_nobody(folder.path());
    // SAFETY: between fork and exec only two system calls are made, with memory that lives on.
    unsafe { command.pre_exec(forbid_perf) };
    must_pass(command.args(["--ignored", "--exact", "rights::refused_perf_at_paranoid_3"]));
}

#[test]
#[ignore = "needs perf_event_paranoid 3 and a filter: started by another test"]
fn refused_perf_at_paranoid_3() {
    match PerfObserver::new(true, true) {
        Err(error @ WatchError::Unavailable { .. }) => {
            let text = error.to_string();
            for part in ["cannot open perf events", "kernel.perf_event_paranoid is 3", "--backend proc"] {
                assert!(text.contains(part), "{text}");
            }
        }
        other => panic!("{other:?}"),
    }
    let run = observe(crate::proc, true, &["generations", "1"]);
    crate::check(&run);
    assert_eq!(run.facts.len(), 2);
}

/// From here on, perf_event_open fails with EACCES.
fn forbid_perf() -> std::io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = [
        // The number of the system call is the first word of struct seccomp_data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jt: 0,
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_perf_event_open as u32)
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EACCES as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and the filter it points to live through both calls, which copy them.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
