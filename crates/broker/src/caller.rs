//! The caller's identity, and whose threads the caller may observe. The caller cannot influence these data: user and
//! groups are what the kernel reports for this process, which has the ids of the user who started it.

use std::fs;
use std::os::fd::OwnedFd;

use machine::Root;
use machine::process::Task;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Gid;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getegid, geteuid, getgid, getgroups, getuid, pidfd_open};

/// Group whose members may observe every thread. `make install` creates it, without members.
pub const GROUP: &str = "coxswain-all";
/// File with the local groups. A directory service is not queried, because it would load its libraries into a process
/// with capabilities.
const GROUPS: &str = "/etc/group";
const GONE: &str = "there is no such process, or it has just ended";

/// The user who started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Real user id.
    pub uid: u32,
    /// Whether this user may observe every thread.
    pub all: bool,
}

impl Caller {
    /// Determines the caller.
    ///
    /// # Errors
    /// When this program is set-user-id or set-group-id: it could not distinguish its caller's rights from its owner's.
    pub fn of_this_process() -> Result<Caller, String> {
        if getuid() != geteuid() || getgid() != getegid() {
            return Err("cox-observe must not be set-user-id or set-group-id".into());
        }
        let uid = getuid().as_raw();
        let groups = || getgroups().unwrap_or_default().into_iter().chain([getgid()]);
        let group = fs::read_to_string(GROUPS).ok().and_then(|text| group_id(&text, GROUP));
        let all = uid == 0 || group.is_some_and(|group| groups().any(|gid| gid == Gid::from_raw(group)));
        Ok(Caller { uid, all })
    }

    /// Returns the only user whose threads may be observed; `None` if the threads of all users may be observed.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        (!self.all).then_some(self.uid)
    }

    /// Returns whether the threads of a process may be observed. The eBPF programs check the same for each thread, but
    /// they cannot give the reason for a refusal.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn may_observe(&self, pid: u32) -> Result<(), String> {
        if self.all {
            return Ok(());
        }
        let task = Task::process(&Root::live(), pid);
        let status = task.status().map_err(|error| unread(error.is_gone(), &error))?;
        if status.uids != [self.uid; 4] {
            return Err(format!(
                "it belongs to another user; only root and members of the group {GROUP} may observe it by eBPF"
            ));
        }
        // If a process may not be traced, the kernel makes root the owner of the files in its /proc folder, but not of
        // the folder itself.
        let owner = task.owner().map_err(|error| unread(error.is_gone(), &error))?;
        // The file owner is not enough for a set-group-id program, which can make itself traceable again:
        // prctl(PR_SET_DUMPABLE).
        let [gid, egid, sgid, _] = status.gids;
        if owner != self.uid || [egid, sgid] != [gid; 2] {
            return Err(format!(
                "it has more rights than its user, its program file is not readable, or it forbids tracing; only root and members of the group {GROUP} may observe it by eBPF"
            ));
        }
        Ok(())
    }

    /// Opens a pidfd of a process whose threads may be observed. The pidfd is opened before the pid is checked, so that
    /// the check refers to the process of the pidfd.
    ///
    /// # Errors
    /// The reason why the threads may not be observed.
    pub fn hold(&self, pid: u32) -> Result<Pidfd, String> {
        let pidfd = Pidfd::open(pid).map_err(not_opened)?;
        self.may_observe(pid)?;
        pidfd.lives().map(|()| pidfd)
    }
}

/// Returns the message for files of a process that could not be read. `is_gone`: the process no longer exists.
fn unread(is_gone: bool, why: &dyn std::fmt::Display) -> String {
    if is_gone { GONE.to_owned() } else { why.to_string() }
}

/// Returns the message for a process for which no pidfd could be opened.
pub(crate) fn not_opened(error: Errno) -> String {
    unread(error == Errno::SRCH, &format!("pidfd_open: {error}"))
}

/// A process, held by a pidfd so that a later process with the same id is not mistaken for it.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens a pidfd of a process.
    ///
    /// # Errors
    /// `ESRCH` when the process does not exist; other errors when no more descriptors can be opened.
    pub fn open(pid: u32) -> Result<Pidfd, Errno> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty()).map(Pidfd)
    }

    /// Checks that the process has not ended.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn lives(&self) -> Result<(), String> {
        if self.has_ended() { Err(GONE.into()) } else { Ok(()) }
    }

    /// Returns whether all threads of the process have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut wanted = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// Returns the id of a group from the text of a group(5) file. Never returns 0, because that group's members must not
/// become observers.
fn group_id(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split(':').nth(1)?.parse().ok().filter(|gid| *gid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_has_its_number() {
        let text = "root:x:0:\ncoxswain-all-but:x:7:\ncoxswain-all:x:123:ann,bob\ncoxswain-all:x:124:\n";
        assert_eq!(group_id(text, GROUP), Some(123));
        for other in
            ["", "coxswain-all", "coxswain-all:x:", "coxswain-all:x:0:", "coxswain-all:x:-1:", "xcoxswain-all:x:3:"]
        {
            assert_eq!(group_id(other, GROUP), None, "{other}");
        }
    }

    #[test]
    fn other_users_processes_are_refused_by_name() {
        let somebody = Caller { uid: 54321, all: false };
        assert!(somebody.may_observe(std::process::id()).unwrap_err().contains(GROUP));
        assert!(somebody.may_observe(0).unwrap_err().contains("no such process"));
        assert_eq!(Caller { uid: 54321, all: true }.may_observe(std::process::id()), Ok(()));
        let own = Caller { uid: getuid().as_raw(), all: false };
        assert_eq!(own.may_observe(std::process::id()), Ok(()));
    }

    #[test]
    fn a_process_is_held_until_it_has_ended() {
        let own = Caller { uid: getuid().as_raw(), all: false };
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pidfd = own.hold(child.id()).unwrap();
        assert!(!pidfd.has_ended());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(pidfd.has_ended());
        assert!(own.hold(child.id()).unwrap_err().contains("no such process"));
        for nobody in [0, u32::MAX] {
            assert!(Caller { uid: 5, all: true }.hold(nobody).unwrap_err().contains("no such process"));
        }
        assert!(Caller { uid: 54321, all: false }.hold(std::process::id()).unwrap_err().contains(GROUP));
    }
}
