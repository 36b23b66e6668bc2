//! Gets Debian's kernel packages without installing them.
//!
//! apt downloads packages into a folder below target and uses package lists of its own, so nothing changes on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::walk::sources;

/// Debian's keys. If this file is missing, apt needs the keys from elsewhere.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt with package lists in a separate folder.
#[derive(Debug)]
pub struct Apt {
    folder: PathBuf,
    config: PathBuf,
}

impl Apt {
    /// Reads the package lists of Debian suites. `mirror` replaces the mirror that this machine's apt uses.
    ///
    /// # Errors
    /// When there is no apt, no mirror or no network.
    pub fn new(folder: &Path, mirror: Option<&str>, suites: &[&str]) -> Result<Apt> {
        let sources = sources(mirror)?;
        let mirror = sources.split(' ').nth(1).context("no mirror")?;
        fs::create_dir_all(folder.join("lists/partial"))?;
        fs::create_dir_all(folder.join("cache/archives/partial"))?;
        let trusted = if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        let mut lines: Vec<String> =
            suites.iter().map(|suite| format!("deb {trusted}{mirror} {suite} main\n")).collect();
        lines.dedup();
        fs::write(folder.join("sources.list"), lines.concat())?;
        let config = folder.join("apt.conf");
        let place = folder.display();
        // The package lists in a snapshot of Debian have expired, so apt must not check their validity dates.
        fs::write(
            &config,
            format!(
                "Dir::State::lists \"{place}/lists\";\nDir::Cache \"{place}/cache\";\nDir::Etc::sourcelist \"{place}/sources.list\";\n\
                 Dir::Etc::sourceparts \"/dev/null\";\nAPT::Architectures {{ \"amd64\"; }};\n\
                 Acquire::Languages \"none\";\nAcquire::Check-Valid-Until \"false\";\nAPT::Sandbox::User \"\";\n\
                 APT::Update::Error-Mode \"any\";\n"
            ),
        )?;
        let apt = Apt { folder: folder.to_owned(), config };
        run_quietly(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).arg("-q").current_dir(&self.folder);
        command
    }

    /// Returns the packages with a kernel of a build such as `-cloud-amd64`, newest first.
    ///
    /// # Errors
    /// When apt-cache cannot be started.
    pub fn kernels(&self, build: &str) -> Result<Vec<String>> {
        let output =
            self.command("apt-cache").args(["pkgnames", "linux-"]).output().context("cannot start apt-cache")?;
        let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        names.retain(|name| numbers(name, build).is_some());
        // For newer kernels the image is in linux-binary-*, and linux-image-* only depends on it.
        names.sort_by_key(|name| (numbers(name, build), name.starts_with("linux-binary-")));
        names.reverse();
        Ok(names)
    }

    /// Downloads a package and unpacks it. Returns the folder, which the next call empties.
    ///
    /// # Errors
    /// When the package cannot be downloaded or unpacked.
    pub fn unpack(&self, package: &str) -> Result<PathBuf> {
        let unpacked = self.folder.join("unpacked");
        if unpacked.exists() {
            fs::remove_dir_all(&unpacked)?;
        }
        fs::create_dir(&unpacked)?;
        run_quietly(self.command("apt-get").args(["download", package]))?;
        let begin = format!("{package}_");
        let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
        let file = files(&self.folder)?.into_iter().find(is_it).context("apt-get downloaded no package")?;
        run_quietly(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&unpacked))?;
        fs::remove_file(&file)?;
        Ok(unpacked)
    }
}

/// Runs a command without showing its output.
///
/// # Errors
/// When it cannot be started, or fails: with what it wrote to stderr.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    entries.collect()
}

/// Finds the kernel image below a folder.
///
/// # Errors
/// When a folder cannot be read.
pub fn image(folder: &Path) -> Result<Option<PathBuf>> {
    for path in files(folder)? {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            if let Some(found) = image(&path)? {
                return Ok(Some(found));
            }
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the numbers in the name of a package with a kernel of this build, or `None` if it is another package.
#[must_use]
pub fn numbers(package: &str, build: &str) -> Option<Vec<u32>> {
    let release = package.strip_prefix("linux-image-").or_else(|| package.strip_prefix("linux-binary-"))?;
    let version = release.strip_suffix(build).filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))?;
    // Builds of which this build's name is the end: -rt-amd64 for -amd64.
    if version.contains("-cloud") || version.contains("-rt") {
        return None;
    }
    Some(numbers_of(version))
}

/// Returns the numbers in a version such as `6.12.95+deb12`.
#[must_use]
pub fn numbers_of(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// Returns whether a package contains a kernel of a version such as `6.1`.
#[must_use]
pub fn is_of(package: &str, version: &str, build: &str) -> bool {
    numbers(package, build).is_some_and(|numbers| numbers.starts_with(&numbers_of(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOUD: &str = "-cloud-amd64";

    #[test]
    fn kernels_are_told_by_their_names_and_the_newest_is_first() {
        for other in [
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-50-cloud-amd64-dbg",
            "linux-image-6.1.0-50-rt-amd64",
            "linux-binary-unsigned-7.3.4+deb13-cloud-amd64",
            "linux-headers-6.1.0-50-cloud-amd64",
        ] {
            assert_eq!(numbers(other, CLOUD), None, "{other}");
        }
        let release = |name: &str| numbers(name, CLOUD).unwrap();
        assert!(release("linux-image-6.12.95+deb12-cloud-amd64") > release("linux-image-6.1.0-50-cloud-amd64"));
        assert!(release("linux-binary-7.3.4+deb13-cloud-amd64") > release("linux-image-7.3-cloud-amd64"));
        assert!(is_of("linux-image-6.1.0-50-cloud-amd64", "6.1", CLOUD));
        assert!(!is_of("linux-image-6.12.95+deb12-cloud-amd64", "6.1", CLOUD));
    }

    #[test]
    fn builds_are_not_confused() {
        assert_eq!(numbers("linux-image-6.1.0-50-amd64", "-amd64"), Some(vec![6, 1, 0, 50]));
        for other in ["linux-image-6.1.0-50-cloud-amd64", "linux-image-6.1.0-50-rt-amd64"] {
            assert_eq!(numbers(other, "-amd64"), None, "{other}");
        }
    }
}
