//! Makes the root file system of a walk: a fresh Debian 12, the settings of its package clients, and clones of this repository.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::inside::STRANGER;
use super::namespaces::namespaces;
use super::places::Places;
use super::steps::CLONE;

/// Code name of Debian 12.
const SUITE: &str = "bookworm";

/// Debian packages that README.md expects to be installed, in addition to a Rust toolchain. The certificates are here because a system with that
/// toolchain has them.
const PACKAGES: &str = "ca-certificates,git,make";

/// Home folders that get a git clone of this repository, and the owner of each; `None` for root.
const CLONES: [(&str, Option<&str>); 3] = [("root", None), ("home/stranger", Some(STRANGER)), ("root/tests", None)];

/// Folders of target/ that the next walk reuses: the crates that cargo has compiled, and its notes about them. Everything else in target/ must be
/// built in each walk, or a walk would not notice that README.md's commands no longer build it.
const BUILT_ONCE: [&str; 3] = [".fingerprint", "build", "deps"];

/// Returns the package sources for [`SUITE`], as lines of a sources.list file.
///
/// # Errors
/// When apt knows no source for this suite.
pub fn sources(mirror: Option<&str>) -> Result<String> {
    if let Some(mirror) = mirror {
        return Ok(format!("deb {mirror} {SUITE} main\n"));
    }
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"])
        .output()
        .context("cannot start apt-get, which lists Debian's mirrors; name a mirror with --mirror")?;
    let sources = chosen(&String::from_utf8_lossy(&output.stdout));
    ensure!(!sources.is_empty(), "this machine's apt has no sources of Debian {SUITE}; name a mirror with --mirror");
    Ok(sources)
}

/// Selects the lines "MIRROR RELEASE COMPONENT" of the suite, its updates and its security updates.
fn chosen(targets: &str) -> String {
    let mut lines = Vec::new();
    for target in targets.lines() {
        let [mirror, release, "main"] = target.split(' ').collect::<Vec<_>>()[..] else { continue };
        let rest = release.strip_prefix(SUITE);
        if matches!(rest, Some("" | "-updates" | "-security")) {
            lines.push(format!("deb {mirror} {release} main\n"));
        }
    }
    lines.dedup();
    lines.concat()
}

/// Makes a new root file system: unpacks Debian (which debootstrap installs in the first walk only), and adds the unprivileged user's home and the
/// clones.
///
/// # Errors
/// When a command fails.
pub fn make(places: &Places, sources: &str) -> Result<()> {
    remove(places)?;
    let base = base(places, sources)?;
    println!("walk: unpacking Debian {SUITE}");
    fs::create_dir(&places.root).with_context(|| format!("{}", places.root.display()))?;
    run(Command::new("tar").arg("-xf").arg(&base).arg("--xattrs").arg("--numeric-owner").arg("-C").arg(&places.root))?;
    network(&places.root, sources)?;
    run(Command::new("chroot").arg(&places.root).args(["useradd", "--create-home", "--shell", "/bin/bash", STRANGER]))?;
    fs::create_dir_all(places.root.join("opt/rust"))?;
    for (home, owner) in CLONES {
        let home = places.root.join(home);
        fs::create_dir_all(&home)?;
        toolchain(&home, &places.sysroot)?;
        run(Command::new("git")
            .args(["clone", "--quiet", "--no-local"])
            .arg(&places.repository)
            .arg(home.join(CLONE)))?;
        let kept = places.kept(&home);
        if kept.is_dir() {
            fs::rename(&kept, home.join(CLONE).join("target"))?;
        }
        if let Some(owner) = owner {
            let place = Path::new("/home").join(owner);
            run(Command::new("chroot")
                .arg(&places.root)
                .args(["chown", "-R", &format!("{owner}:{owner}")])
                .arg(place))?;
        }
    }
    Ok(())
}

/// Removes the root file system, but keeps what the next walk can reuse.
///
/// # Errors
/// When something is mounted below it, or files cannot be removed.
pub fn remove(places: &Places) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    let below = |line: &str| line.split(' ').nth(4).is_some_and(|point| Path::new(point).starts_with(&places.root));
    if mounts.lines().any(below) {
        bail!("something is mounted below '{}': nothing is removed", places.root.display());
    }
    if !places.root.exists() {
        return Ok(());
    }
    for (home, _) in CLONES {
        let home = places.root.join(home);
        let target = home.join(CLONE).join("target");
        let kept = places.kept(&home);
        if target.is_dir() && !kept.exists() {
            thin_out(&target)?;
            fs::rename(&target, &kept)?;
        }
    }
    fs::remove_dir_all(&places.root).with_context(|| format!("cannot remove '{}'", places.root.display()))
}

/// Removes everything from a target/ folder except the crates that cargo has compiled.
fn thin_out(target: &Path) -> Result<()> {
    for profile in fs::read_dir(target)?.flatten() {
        if !profile.path().join(BUILT_ONCE[0]).is_dir() {
            erase(&profile.path())?;
            continue;
        }
        for entry in fs::read_dir(profile.path())?.flatten() {
            if !BUILT_ONCE.map(OsStr::new).contains(&entry.file_name().as_os_str()) {
                erase(&entry.path())?;
            }
        }
    }
    Ok(())
}

fn erase(path: &Path) -> Result<()> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        .with_context(|| format!("{}", path.display()))
}

/// Returns the archive of a fresh Debian. Makes the archive if it does not exist.
fn base(places: &Places, sources: &str) -> Result<PathBuf> {
    let base = places.cache.join(format!("{SUITE}-{}.tar", PACKAGES.replace(',', "-")));
    if base.is_file() {
        return Ok(base);
    }
    let mirror = sources.split(' ').nth(1).context("no mirror")?;
    println!("walk: installing Debian {SUITE} with debootstrap: {PACKAGES}");
    let folder = places.cache.join("debootstrap");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    // debootstrap mounts /proc and other file systems. In a mount namespace of its own, these mounts disappear together with the namespace.
    let mut debootstrap = namespaces();
    debootstrap.args(["debootstrap", "--variant=minbase", &format!("--include={PACKAGES}"), SUITE]).arg(&folder);
    debootstrap.arg(mirror).stdout(fs::File::create(places.logs.join("debootstrap.log"))?);
    run(&mut debootstrap)?;
    let unfinished = base.with_extension("unfinished");
    run(Command::new("tar")
        .arg("-cf")
        .arg(&unfinished)
        .args(["--xattrs", "--numeric-owner", "-C"])
        .arg(&folder)
        .arg("."))?;
    fs::remove_dir_all(&folder)?;
    fs::rename(&unfinished, &base)?;
    Ok(base)
}

/// Copies this machine's settings that package clients need: mirrors, certificates, name resolution, package indexes.
fn network(root: &Path, sources: &str) -> Result<()> {
    fs::write(root.join("etc/apt/sources.list"), sources)?;
    for file in ["etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt", "etc/pip.conf"] {
        let from = Path::new("/").join(file);
        if from.is_file() {
            fs::copy(&from, root.join(file)).with_context(|| format!("{}", from.display()))?;
        }
    }
    // Copy settings about proxies and validity dates, but not hooks that run after an installation.
    for entry in fs::read_dir("/etc/apt/apt.conf.d").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if text.contains("Acquire::") && !text.contains("Post-Invoke") {
            fs::write(root.join("etc/apt/apt.conf.d").join(entry.file_name()), text)?;
        }
    }
    Ok(())
}

/// Sets up a home's ~/.cargo: links to the toolchain's programs, as rustup makes them, and the crates that this machine has downloaded.
fn toolchain(home: &Path, sysroot: &Path) -> Result<()> {
    let cargo = home.join(".cargo");
    fs::create_dir_all(cargo.join("bin"))?;
    for entry in fs::read_dir(sysroot.join("bin"))?.flatten() {
        let program = cargo.join("bin").join(entry.file_name());
        symlink(Path::new("/opt/rust/bin").join(entry.file_name()), program)?;
    }
    let Some(own) = own_cargo_home() else { return Ok(()) };
    for file in ["config.toml", "config", "registry/cache", "registry/index"] {
        let from = own.join(file);
        if from.exists() {
            let to = cargo.join(file);
            fs::create_dir_all(to.parent().context("a folder")?)?;
            run(Command::new("cp").args(["-rT", "--preserve=timestamps"]).arg(&from).arg(&to))?;
        }
    }
    Ok(())
}

fn own_cargo_home() -> Option<PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

/// Runs a command to its end.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_the_suite_are_taken_and_no_others() {
        let targets = "http://a.example/debian/ bookworm main\nhttp://a.example/debian/ bookworm-updates main
http://a.example/debian/ bookworm-backports main\nhttp://a.example/debian/ bookworm contrib
http://a.example/security/ bookworm-security main\nhttp://b.example/ nodistro main\nhttp://a.example/debian/ trixie main\n";
        let expected = "deb http://a.example/debian/ bookworm main\ndeb http://a.example/debian/ bookworm-updates main
deb http://a.example/security/ bookworm-security main\n";
        assert_eq!(chosen(targets), expected);
        assert_eq!(sources(Some("http://c.example")).unwrap(), "deb http://c.example bookworm main\n");
    }

    #[test]
    fn what_is_kept_of_target_is_what_cargo_built() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["release/deps", "release/.fingerprint", "release/build", "release/examples", "workloads/obj"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join("release/cox"), "").unwrap();
        fs::write(place.path().join("test.log"), "").unwrap();
        thin_out(place.path()).unwrap();
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = entries.collect();
            names.sort();
            names
        };
        assert_eq!(names(place.path()), ["release"]);
        assert_eq!(names(&place.path().join("release")), [".fingerprint", "build", "deps"]);
    }
}
