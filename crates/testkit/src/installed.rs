//! An installation as `make install` makes it, with an ordinary user: `cox` has no capabilities, `cox-observe` has them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

use crate::built::{COX, COX_OBSERVE, without_make};
use crate::skip::{Need, is_root, skip};
pub use crate::user::as_user;

/// An ID that no user and no group has.
pub const USER: u32 = 12345;

/// A temporary installation, including a folder for the user.
pub struct Installed {
    folder: TempDir,
}

impl Installed {
    /// Copies the programs that were built. If that is not possible here, skips `test` and returns `None`.
    pub fn new(test: &str) -> Option<Installed> {
        let refuse = |why: &str| {
            skip(test, Need::Capabilities, why);
            None
        };
        if !is_root(test) {
            return None;
        }
        if Command::new("setcap").arg("-h").output().is_err() {
            return refuse("needs setcap (libcap2-bin)");
        }
        // File capabilities need a file system without nosuid.
        let counts = |place: &&str| statvfs(*place).is_ok_and(|stat| !stat.f_flag.contains(StatVfsMountFlags::NOSUID));
        let Some(place) = ["/var/tmp", "/tmp"].into_iter().find(counts) else {
            return refuse("/var/tmp and /tmp are mounted nosuid");
        };
        let folder = TempDir::new_in(place).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let installed = Installed { folder };
        for (from, to) in [(COX, "bin/cox"), (COX_OBSERVE, "libexec/coxswain/cox-observe")] {
            installed.give(Path::new(from), to);
        }
        fs::create_dir(installed.own()).unwrap();
        chown(installed.own(), Some(USER), Some(USER)).unwrap();
        let given = Command::new("setcap").arg("cap_bpf,cap_perfmon+ep").arg(installed.helper()).output().unwrap();
        if !given.status.success() {
            return refuse(&format!("setcap: {}", String::from_utf8_lossy(&given.stderr).trim()));
        }
        Some(installed)
    }

    /// Copies a program into the installation, executable for all users. Returns the copy's path.
    pub fn give(&self, from: &Path, to: &str) -> String {
        let place = self.path(to);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        // Copy in another process: if this process had the file open for writing, a child forked meanwhile by another test's thread would inherit the
        // descriptor, and the file could not be executed (ETXTBSY).
        let copied = Command::new("cp").arg("--").arg(from).arg(&place).status().unwrap();
        assert!(copied.success(), "{}", from.display());
        fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        place.into_os_string().into_string().unwrap()
    }

    /// Returns the path of a file in the installation.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the user's folder.
    pub fn own(&self) -> PathBuf {
        self.path("own")
    }

    /// Returns the path of cox, which has no capabilities.
    pub fn cox(&self) -> String {
        self.path("bin/cox").into_os_string().into_string().unwrap()
    }

    /// Returns the path of cox-observe, which has capabilities.
    pub fn helper(&self) -> PathBuf {
        self.path("libexec/coxswain/cox-observe")
    }

    /// Returns a command that the user runs in the user's folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(as_user(USER)).args(words).current_dir(self.own()).stdin(Stdio::null());
        without_make(&mut command);
        command
    }

    /// Reads a file in the user's folder.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.own().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
