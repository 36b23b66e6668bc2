//! Chooses the folder of a user's journals, which no other user can take over.
//!
//! The first of these folders that is usable:
//!
//! 1. the folder that COX_CHANGES names;
//! 2. for root: `/run/coxswain`, if `/run` belongs to root. For root of a user namespace (a rootless container) the
//!    machine's `/run` belongs to another user, so one of the next folders is used;
//! 3. `coxswain` in `$XDG_RUNTIME_DIR`, or else in `/run/user/UID`, if only this user has access (mode 0700);
//! 4. `coxswain/BOOT-NAMESPACE` in `$XDG_STATE_HOME`, or else in `~/.local/state`, if no other user may write there.
//!    Machines and containers may share a home, so journals of different boots and PID namespaces are kept apart;
//! 5. `/tmp/coxswain-UID`. If another user has taken that name: `/tmp/coxswain-UID.XXXXXXXX`, with a random number.
//!    Later sessions find it because it belongs to this user.
//!
//! A session of the same user with other environment variables may have chosen another folder. So a search for
//! leftover journals looks into all of them ([`all`]).

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use machine::Root;
use rustix::process::geteuid;

use crate::files::Name;

const NAME: &str = "coxswain";

/// The user, environment variables and folders that determine the folder for journals.
struct Environment {
    uid: u32,
    changes: Option<PathBuf>,
    root: PathBuf,
    runtime: Option<PathBuf>,
    run_user: PathBuf,
    state: Option<PathBuf>,
    /// An id of boot and PID namespace; `None` if /proc does not show them.
    machine: Option<String>,
    tmp: PathBuf,
}

/// Returns the folder for new journals.
pub(crate) fn of_user() -> PathBuf {
    Environment::now().choose()
}

/// Returns all folders where journals of this user may be; the one for new journals comes first. Creates none.
pub(crate) fn all() -> Vec<PathBuf> {
    Environment::now().all()
}

impl Environment {
    fn now() -> Environment {
        let uid = geteuid().as_raw();
        let named = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |variable| named(variable).filter(|path| path.is_absolute());
        let boot = Root::live().read_text("/proc/sys/kernel/random/boot_id");
        let namespace = fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino());
        Environment {
            uid,
            changes: named("COX_CHANGES"),
            root: PathBuf::from("/run").join(NAME),
            runtime: absolute("XDG_RUNTIME_DIR"),
            run_user: PathBuf::from(format!("/run/user/{uid}")),
            state: absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state"))),
            machine: boot.ok().zip(namespace.ok()).map(|(boot, namespace)| format!("{boot}-{namespace}")),
            tmp: PathBuf::from("/tmp"),
        }
    }

    /// Returns the folder that COX_CHANGES names, or, for root (but not for root of a user namespace), the folder in
    /// /run; otherwise `None`. The folder need not exist.
    fn fixed(&self) -> Option<PathBuf> {
        let is_machines_root = || self.uid == 0 && self.root.parent().is_some_and(|run| self.is_own(run, 0o022));
        self.changes.clone().or_else(|| is_machines_root().then(|| self.root.clone()))
    }

    /// Returns cox's folder in each runtime directory that only this user can access.
    fn runtimes(&self) -> impl Iterator<Item = PathBuf> {
        let folders = self.runtime.iter().chain([&self.run_user]);
        folders.filter(|folder| self.is_own(folder, 0o077)).map(|folder| folder.join(NAME))
    }

    fn in_state(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join(NAME).join(self.machine.as_ref()?))
    }

    fn choose(&self) -> PathBuf {
        if let Some(folder) = self.fixed().or_else(|| self.runtimes().next()) {
            return folder;
        }
        if let (Some(state), Some(folder)) = (&self.state, self.in_state()) {
            let parent = state.join(NAME);
            // If the folder cannot be created, the following check fails.
            let _ = DirBuilder::new().mode(0o700).recursive(true).create(&parent);
            if self.is_own(state, 0o022) && self.is_own(&parent, 0o022) {
                return folder;
            }
        }
        self.in_tmp()
    }

    fn all(&self) -> Vec<PathBuf> {
        if let Some(folder) = self.fixed() {
            return vec![folder];
        }
        let mut all: Vec<PathBuf> = self.runtimes().chain(self.in_state()).chain(self.own_in_tmp()).collect();
        all.retain(|folder| self.is_own(folder, 0o022));
        all.dedup();
        all
    }

    fn plain_in_tmp(&self) -> PathBuf {
        self.tmp.join(format!("{NAME}-{}", self.uid))
    }

    /// Returns this user's folders in /tmp, in an order that is the same for all sessions: first the one whose name has
    /// no random number.
    fn own_in_tmp(&self) -> Vec<PathBuf> {
        let plain = self.plain_in_tmp();
        let random = format!("{NAME}-{}.", self.uid);
        let is_random = |path: &PathBuf| {
            let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix(&random));
            number.is_some_and(|number| number.len() == 8 && number.bytes().all(|digit| digit.is_ascii_hexdigit()))
        };
        let mut found: Vec<PathBuf> =
            fs::read_dir(&self.tmp).into_iter().flatten().flatten().map(|file| file.path()).collect();
        found.retain(|path| (*path == plain || is_random(path)) && self.is_own(path, 0o077));
        found.sort();
        found
    }

    fn in_tmp(&self) -> PathBuf {
        let plain = self.plain_in_tmp();
        if let Some(own) = self.own_in_tmp().into_iter().next() {
            return own;
        }
        if !matches!(make(&plain), Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            return plain;
        }
        let number = Name::new(0).id.unwrap_or_default() >> 32;
        let mine = self.tmp.join(format!("{NAME}-{}.{number:08x}", self.uid));
        if make(&mine).is_err() {
            return mine;
        }
        // Another session of this user may have created a folder at the same time.
        match self.own_in_tmp().into_iter().next() {
            Some(first) if first != mine => {
                // `remove_dir` fails, and keeps the folder, if the folder is not empty.
                let _ = fs::remove_dir(&mine);
                first
            }
            _ => mine,
        }
    }

    /// Returns whether `folder` is a folder of this user, not a link, and grants other users none of the permission
    /// bits `rights`.
    fn is_own(&self, folder: &Path, rights: u32) -> bool {
        let found = fs::symlink_metadata(folder);
        found.is_ok_and(|found| found.is_dir() && found.uid() == self.uid && found.mode() & rights == 0)
    }
}

/// Creates a folder that only this user has access to.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use tempfile::TempDir;

    use super::*;

    /// A user of this machine with a home, a runtime folder and a /tmp.
    fn user(at: &TempDir) -> Environment {
        let folder = |name: &str| {
            let folder = at.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            folder
        };
        // Not root, who has a place that is fixed.
        let uid = 54_321;
        let own = |folder: PathBuf| {
            chown(&folder, Some(uid), None).unwrap();
            folder
        };
        Environment {
            uid,
            changes: None,
            root: folder("run").join("coxswain"),
            runtime: Some(own(folder("runtime"))),
            run_user: own(folder("run-user")),
            state: Some(own(folder("state"))),
            machine: Some("boot-1".into()),
            tmp: folder("tmp"),
        }
    }

    #[test]
    fn each_place_is_taken_only_when_it_is_the_users_own() {
        if !testkit::skip::is_root("each_place_is_taken_only_when_it_is_the_users_own") {
            return;
        }
        let at = TempDir::new().unwrap();
        let mut user = user(&at);
        let path = |name: &str| at.path().join(name);
        assert_eq!(user.choose(), path("runtime/coxswain"));
        // Others may look into it, or it is another's, or a link.
        fs::set_permissions(path("runtime"), fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(user.choose(), path("run-user/coxswain"));
        chown(path("run-user"), Some(1), None).unwrap();
        fs::create_dir(path("state/coxswain")).unwrap();
        chown(path("state/coxswain"), Some(user.uid), None).unwrap();
        assert_eq!(user.choose(), path("state/coxswain/boot-1"));
        user.machine = Some("boot-2".into());
        assert_eq!(user.choose(), path("state/coxswain/boot-2"));
        fs::remove_dir(path("state/coxswain")).unwrap();
        symlink(path("tmp"), path("state/coxswain")).unwrap();
        assert_eq!(user.choose(), path("tmp/coxswain-54321"));
        user.changes = Some(path("own"));
        assert_eq!((user.choose(), user.all()), (path("own"), vec![path("own")]));
        let root = Environment { uid: 0, changes: None, ..user };
        assert_eq!(root.choose(), path("run/coxswain"));
        // Whatever is there: what another has put there is refused when it is used.
        symlink(path("tmp"), path("run/coxswain")).unwrap();
        assert_eq!((root.choose(), root.all()), (path("run/coxswain"), vec![path("run/coxswain")]));
    }

    #[test]
    fn root_of_a_user_namespace_does_not_take_the_machines_place() {
        if !testkit::skip::is_root("root_of_a_user_namespace_does_not_take_the_machines_place") {
            return;
        }
        let at = TempDir::new().unwrap();
        let path = |name: &str| at.path().join(name);
        let user = user(&at);
        // Whom no id in the namespace stands for.
        chown(path("run"), Some(65_534), None).unwrap();
        chown(path("runtime"), Some(0), None).unwrap();
        let root = Environment { uid: 0, ..user };
        assert_eq!(root.choose(), path("runtime/coxswain"));
        let without = Environment { runtime: None, state: None, root: path("none/coxswain"), ..root };
        assert_eq!(without.choose(), path("tmp/coxswain-0"));
    }

    #[test]
    fn a_name_that_somebody_else_has_taken_is_passed_over_and_the_other_found_again() {
        if !testkit::skip::is_root("a_name_that_somebody_else_has_taken_is_passed_over_and_the_other_found_again") {
            return;
        }
        let at = TempDir::new().unwrap();
        let own = geteuid().as_raw();
        let user = Environment { uid: own, runtime: None, run_user: "/none".into(), state: None, ..user(&at) };
        let plain = user.plain_in_tmp();
        for taken in 0..3 {
            match taken {
                0 => {
                    make(&plain).unwrap();
                    chown(&plain, Some(own + 1), None).unwrap();
                }
                1 => symlink("/etc", &plain).unwrap(),
                _ => fs::write(&plain, "a file").unwrap(),
            }
            let first = user.in_tmp();
            assert!(first != plain && user.is_own(&first, 0o077), "{first:?}");
            assert_eq!((user.in_tmp(), user.own_in_tmp()), (first.clone(), vec![first.clone()]));
            // Another's with such a name is none of ours.
            let other = user.tmp.join(format!("coxswain-{own}.00000000"));
            make(&other).unwrap();
            chown(&other, Some(own + 1), None).unwrap();
            assert_eq!(user.in_tmp(), first);
            fs::remove_dir(&other).unwrap();
            fs::remove_dir(&first).unwrap();
            if taken == 0 { fs::remove_dir(&plain) } else { fs::remove_file(&plain) }.unwrap();
        }
        assert_eq!((user.in_tmp(), user.own_in_tmp()), (plain.clone(), vec![plain]));
    }
}
