//! `cargo xtask walk`: runs README.md's commands in a fresh Debian 12, as a new user would, and then what a newcomer tries next.
//!
//! 1. `root.rs` makes the root file system in target/walk.
//! 2. `mounts.sh` mounts the file systems that the steps need, in new mount, PID and IPC namespaces. The kernel removes them when the walk ends, even
//!    if the walk is killed. For this, setpriv(1) makes the kernel kill unshare(1) when its parent ends. unshare(1) makes the kernel kill the first
//!    process of the PID namespace when unshare(1) itself ends.
//! 3. `inside.rs` runs the steps in these namespaces and prints the table.
//! 4. The root file system is removed from outside of the namespaces, where nothing is mounted below it.

use std::env;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

mod inside;
mod namespaces;
pub mod options;
mod places;
mod readme;
mod root;
mod steps;
mod table;

use crate::workspace;
use namespaces::namespaces;
use options::Options;
use places::Places;
pub(crate) use root::sources;

/// Programs that `cargo xtask walk` needs on this machine, and the Debian packages that contain them.
const NEEDED: [(&str, &str); 6] = [
    ("debootstrap", "debootstrap"),
    ("git", "git"),
    ("mount", "mount"),
    ("setpriv", "util-linux"),
    ("tar", "tar"),
    ("unshare", "util-linux"),
];

/// Shell script that mounts the file systems that the steps need below the new root file system, and then runs a command.
const MOUNTS: &str = include_str!("../../walk/mounts.sh");

/// Runs the walk. Returns whether every step succeeded.
///
/// # Errors
/// When no step could be run.
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
        bail!("not installed: {}; first run: apt-get install {}", missing.join(", "), missing.join(" "));
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
        ensure!(
            places.readme().is_file(),
            "no earlier walk with --keep has left a root file system in '{}'",
            places.root.display()
        );
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

/// Prints the commit that the walk tests, and a notice if there are uncommitted changes.
fn say_what_is_left_out(places: &Places) -> Result<()> {
    let git = |arguments: &[&str]| Command::new("git").arg("-C").arg(&places.repository).args(arguments).output();
    let commit = git(&["log", "-1", "--format=%h %s"]).context("cannot start git")?;
    println!("walk: {}", String::from_utf8_lossy(&commit.stdout).trim_end());
    if !git(&["status", "--porcelain"])?.stdout.is_empty() {
        println!("walk: uncommitted changes are not tested");
    }
    Ok(())
}

/// Returns the command that mounts the file systems and starts this program again in the namespaces.
fn walking(places: &Places) -> Result<Command> {
    let mut command = namespaces();
    command.args(["sh", "-euc", MOUNTS, "mounts.sh"]).arg(&places.root).arg(&places.sysroot).arg(places.archives());
    command.arg(env::current_exe().context("cannot find the path of xtask")?).arg("walk");
    Ok(command)
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
