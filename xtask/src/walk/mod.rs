//! `cargo xtask walk`: README.md's commands in a fresh Debian 12, as a stranger runs them, and what a newcomer tries next.
//!
//! 1. `root.rs` makes the root file system in target/walk.
//! 2. `mounts.sh` mounts what it needs in namespaces of mounts, processes and IPC. The kernel ends all of it when the walk ends, also when
//!    it is killed: setpriv(1) has unshare(1) killed with its parent, and unshare the first process of the namespace with itself.
//! 3. `inside.rs` walks the steps in there and prints the table.
//! 4. The root file system is removed, from outside, where nothing was ever mounted.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

mod inside;
pub mod options;
mod readme;
mod root;
mod steps;
mod table;

use crate::workspace;
use options::Options;
pub(crate) use root::sources;

/// Programs that a walk needs here, with the Debian packages that have them.
const NEEDED: [(&str, &str); 6] = [
    ("debootstrap", "debootstrap"),
    ("git", "git"),
    ("mount", "mount"),
    ("setpriv", "util-linux"),
    ("tar", "tar"),
    ("unshare", "util-linux"),
];

/// Mounts a root file system's other file systems, and runs a command.
const MOUNTS: &str = include_str!("../../walk/mounts.sh");

/// Where things of a walk are.
struct Places {
    /// This repository.
    repository: PathBuf,
    /// The root file system.
    root: PathBuf,
    /// What the next walk can use.
    cache: PathBuf,
    /// What each step printed.
    logs: PathBuf,
    /// The Rust toolchain.
    sysroot: PathBuf,
}

impl Places {
    fn new(folder: &Path) -> Result<Places> {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot start rustc")?;
        let sysroot = String::from_utf8(output.stdout).context("the toolchain's folder")?;
        Ok(Places {
            repository: workspace::root(),
            root: folder.join("root"),
            cache: folder.join("cache"),
            logs: folder.join("logs"),
            sysroot: PathBuf::from(sysroot.trim_end()),
        })
    }

    /// Debian packages that apt has fetched.
    fn archives(&self) -> PathBuf {
        self.cache.join("archives")
    }

    /// What cargo built in this home's clone.
    fn kept(&self, home: &Path) -> PathBuf {
        let name = home.strip_prefix(&self.root).unwrap_or(home).to_string_lossy().replace('/', "-");
        self.cache.join(format!("target-{name}"))
    }

    /// README.md as it is in the clone.
    fn readme(&self) -> PathBuf {
        self.root.join("root").join(steps::CLONE).join("README.md")
    }
}

/// Walks as told, and returns whether every step was good.
///
/// # Errors
/// When nothing could be walked.
pub fn run(options: &Options) -> Result<bool> {
    let default = || workspace::root().join("target/walk");
    let folder = options.root.clone().unwrap_or_else(default);
    let folder = std::path::absolute(&folder).with_context(|| format!("the folder '{}'", folder.display()))?;
    if options.inside {
        return inside::walk(options, &Places::new(&folder)?);
    }
    ensure!(rustix::process::geteuid().is_root(), "only root can make a root file system");
    let missing: Vec<_> =
        NEEDED.iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        bail!("missing here: {}; first: apt-get install {}", missing.join(", "), missing.join(" "));
    }
    options::claim(&folder)?;
    let places = Places::new(&folder)?;
    if options.fresh && places.cache.exists() {
        root::remove(&places)?;
        fs::remove_dir_all(&places.cache).with_context(|| format!("{}", places.cache.display()))?;
    }
    for folder in [&places.cache, &places.logs, &places.archives()] {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    say_what_is_left_out(&places)?;
    if options.again {
        ensure!(places.readme().is_file(), "no walk was kept in '{}'", places.root.display());
    } else {
        root::make(&places, &root::sources(options.mirror.as_deref())?)?;
    }
    let status =
        walking(&places)?.args(env::args_os().skip(2)).arg("--inside").status().context("cannot start unshare")?;
    if options.keep {
        println!("kept: {}", places.root.display());
    } else {
        root::remove(&places)?;
    }
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("the walk ended early: {status}"),
    }
}

/// The walk is one of the last commit; says so if there is more.
fn say_what_is_left_out(places: &Places) -> Result<()> {
    let git = |arguments: &[&str]| Command::new("git").arg("-C").arg(&places.repository).args(arguments).output();
    let commit = git(&["log", "-1", "--format=%h %s"]).context("cannot start git")?;
    println!("walk: {}", String::from_utf8_lossy(&commit.stdout).trim_end());
    if !git(&["status", "--porcelain"])?.stdout.is_empty() {
        println!("walk: changes that are not committed are left out");
    }
    Ok(())
}

/// A command that runs what follows in new namespaces, which end with this process.
fn namespaces() -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--ipc",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command
}

/// A command that mounts everything and starts this program again in there.
fn walking(places: &Places) -> Result<Command> {
    let mut command = namespaces();
    command.args(["sh", "-euc", MOUNTS, "mounts.sh"]).arg(&places.root).arg(&places.sysroot).arg(places.archives());
    command.arg(env::current_exe().context("this program's file")?).arg("walk");
    Ok(command)
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Stdio;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until a condition holds.
    fn wait_for(subject: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(60), "{subject}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn nothing_stays_when_the_walk_is_killed() {
        let test = "nothing_stays_when_the_walk_is_killed";
        if !namespaces().arg("true").status().is_ok_and(|status| status.success()) {
            let line = format!("skipped: {test}: cannot make namespaces\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mark = format!("mark-{}", folder.path().file_name().unwrap().display());
        let script =
            r#"mount -t tmpfs "$1" "$0" && { sleep 90 & } && echo >"$0.ready" && exec sh -c 'sleep 90; :' "$1""#;
        let mut inner = namespaces();
        inner.args(["sh", "-c", script]).arg(folder.path()).arg(&mark);
        // A process that stands for the walk, and is its parent.
        let mut walk = Command::new("sh");
        walk.args(["-c", r#""$@"; :"#, "sh"]).arg(inner.get_program()).args(inner.get_args());
        // What stays must not hold the pipe of the tests.
        let mut walk = walk.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ready = PathBuf::from(format!("{}.ready", folder.path().display()));
        wait_for("the command starts", || ready.exists());
        let is_mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&mark);
        let runs = || {
            let lines = fs::read_dir("/proc").unwrap().flatten();
            let mut lines = lines.map(|process| fs::read(process.path().join("cmdline")).unwrap_or_default());
            lines.any(|line| String::from_utf8_lossy(&line).contains(&mark))
        };
        assert!(runs() && !is_mounted());
        walk.kill().unwrap();
        walk.wait().unwrap();
        wait_for("what it started ends", || !runs());
        assert!(!is_mounted());
        fs::remove_file(ready).unwrap();
    }
}
