//! The kernels of the matrix: Debian's, pinned by package, or images that the command line names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::apt::{self, Apt, is_of, numbers_of};

/// A kernel that the matrix boots.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// Its version: two numbers.
    pub version: &'static str,
    /// Debian suite that has it.
    pub suite: &'static str,
    /// Its package, without the build at the end.
    pub package: &'static str,
}

/// The pinned kernels. To take newer ones, change the packages; `make vm` says when a mirror has one no longer.
pub const PINNED: [Pinned; 5] = [
    Pinned { version: "5.10", suite: "bullseye", package: "linux-image-5.10.0-32" },
    Pinned { version: "6.1", suite: "bookworm", package: "linux-image-6.1.0-50" },
    // Not the one of bookworm-backports, 6.12.95: QEMU 7.2 crashes most of its boots within seconds, and none of this one's.
    Pinned { version: "6.12", suite: "trixie", package: "linux-image-6.12.117+deb13" },
    Pinned { version: "6.18", suite: "trixie-backports", package: "linux-image-6.18.15+deb13" },
    Pinned { version: "7.3", suite: "trixie-backports", package: "linux-binary-7.3.4+deb13" },
];

/// Debian's smallest build for x86-64. It has all that the guest needs, so the guest loads no modules.
pub const CLOUD: &str = "-cloud-amd64";
/// Debian's usual build.
const USUAL: &str = "-amd64";
/// Suites that may have newer kernels than the pinned ones.
const NEWEST: [&str; 3] = ["trixie-backports", "sid", "experimental"];
/// `--all` takes the newest kernel of each series that is newer than this one.
const SERIES_AFTER: [u32; 2] = [6, 18];

/// A kernel image on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, such as `6.1.0-50-cloud-amd64`.
    pub release: String,
    /// Path of the image.
    pub image: PathBuf,
}

impl Kernel {
    /// Returns the kernel in an image that was named on the command line.
    ///
    /// # Errors
    /// When the file cannot be read, or is no kernel image for x86.
    pub fn at(image: &Path) -> Result<Kernel> {
        let bytes = fs::read(image).with_context(|| format!("the kernel image '{}'", image.display()))?;
        let release = release(&bytes).with_context(|| format!("'{}' is no kernel image for x86", image.display()))?;
        Ok(Kernel { release, image: std::path::absolute(image)? })
    }

    /// Returns whether the kernel can remove the tick of CPUs. Debian's kernels can since 6.1.
    #[must_use]
    pub fn can_stop_ticks(&self) -> bool {
        numbers_of(&self.release) >= vec![6, 1]
    }
}

/// Returns the release in the header of a kernel image (Documentation/arch/x86/boot.rst: `kernel_version`).
fn release(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = usize::from(u16::from_le_bytes(image.get(0x20e..0x210)?.try_into().ok()?)) + 0x200;
    let text = image.get(at..)?.split(|byte| *byte == 0 || *byte == b' ').next()?;
    let text = std::str::from_utf8(text).ok().filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(text.to_owned())
}

/// The kernels in a folder, and how to add more.
#[derive(Debug)]
pub struct Store<'a> {
    /// The folder, which has a subfolder for the images.
    pub folder: &'a Path,
    /// Debian's mirror, if not this machine's.
    pub mirror: Option<&'a str>,
    /// Whether kernels may be downloaded.
    pub download: bool,
}

impl Store<'_> {
    fn place(&self, package: &str) -> PathBuf {
        self.folder.join("kernels").join(package)
    }

    /// Returns the image of an unpacked package, if it is there.
    #[must_use]
    pub fn stored(&self, package: &str) -> Option<Kernel> {
        Kernel::at(&self.place(package)).ok()
    }

    fn download(&self, apt: &Apt, package: &str) -> Result<Kernel> {
        if let Some(kernel) = self.stored(package) {
            return Ok(kernel);
        }
        println!("vm: downloading {package}");
        let unpacked = apt.unpack(package)?;
        let image = apt::image(&unpacked)?.with_context(|| format!("{package} contains no kernel image"))?;
        let place = self.place(package);
        fs::create_dir_all(self.folder.join("kernels"))?;
        // Renamed when it is complete, so that an interrupted copy is not taken for a kernel.
        let partial = place.with_extension("partial");
        fs::copy(&image, &partial)?;
        fs::rename(&partial, &place)?;
        fs::remove_dir_all(&unpacked)?;
        Kernel::at(&place)
    }

    /// Returns a pinned kernel, which is downloaded if it is not there. If Debian has it no longer: the newest of its version.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn pinned(&self, pinned: &Pinned) -> Result<Kernel> {
        let package = format!("{}{CLOUD}", pinned.package);
        if let Some(kernel) = self.stored(&package) {
            return Ok(kernel);
        }
        ensure!(self.download, "no {package} in '{}'; first: make vm-kernel", self.folder.display());
        let apt = Apt::new(&self.folder.join("apt"), self.mirror, &[pinned.suite])?;
        let names = apt.kernels(CLOUD)?;
        let chosen = choose(&names, &package, pinned.version)
            .with_context(|| format!("{} has no kernel {}", pinned.suite, pinned.version))?;
        if chosen != package {
            println!("vm: {} no longer has {package}; {chosen} instead", pinned.suite);
        }
        self.download(&apt, chosen)
    }

    /// Returns the kernels that `--all` adds to the pinned ones: the newest of Debian, the newest of each series since the newest long-term kernel, and
    /// Debian's usual build of each.
    ///
    /// # Errors
    /// When they cannot be downloaded.
    pub fn more(&self) -> Result<Vec<Kernel>> {
        let mut suites: Vec<&str> = PINNED.iter().map(|pinned| pinned.suite).collect();
        suites.extend(NEWEST);
        suites.sort_unstable();
        suites.dedup();
        let apt = Apt::new(&self.folder.join("apt"), self.mirror, &suites)?;
        let mut wanted = Vec::new();
        for build in [CLOUD, USUAL] {
            let names = apt.kernels(build)?;
            let pinned = PINNED.iter().map(|pinned| (format!("{}{build}", pinned.package), pinned.version));
            wanted.extend(pinned.filter_map(|(package, version)| choose(&names, &package, version).map(str::to_owned)));
            wanted.extend(newest_of_series(&names, build));
        }
        wanted.sort();
        wanted.dedup();
        wanted.iter().map(|package| self.download(&apt, package)).collect()
    }
}

/// Chooses a package: the pinned one, or the newest of its version. `names`: newest first.
fn choose<'a>(names: &'a [String], package: &str, version: &str) -> Option<&'a str> {
    let build = if package.ends_with(CLOUD) { CLOUD } else { USUAL };
    let newest = || names.iter().find(|name| is_of(name, version, build));
    names.iter().find(|name| *name == package).or_else(newest).map(String::as_str)
}

/// Returns the newest package of each series after [`SERIES_AFTER`]. `names`: newest first.
fn newest_of_series(names: &[String], build: &str) -> Vec<String> {
    let mut series = Vec::new();
    let mut newest = Vec::new();
    for name in names {
        let Some([a, b, ..]) =
            apt::numbers(name, build).as_deref().and_then(|numbers| numbers.first_chunk::<2>().copied())
        else {
            continue;
        };
        if [a, b] > SERIES_AFTER && !series.contains(&[a, b]) {
            series.push([a, b]);
            newest.push(name.clone());
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| format!("linux-{name}")).collect()
    }

    #[test]
    fn a_pinned_kernel_that_is_gone_is_replaced_by_the_newest_of_its_version() {
        let names =
            names(&["image-6.12.95+deb12-cloud-amd64", "image-6.1.0-52-cloud-amd64", "image-6.1.0-50-cloud-amd64"]);
        let chosen = |package| choose(&names, package, "6.1");
        assert_eq!(chosen("linux-image-6.1.0-50-cloud-amd64"), Some("linux-image-6.1.0-50-cloud-amd64"));
        assert_eq!(chosen("linux-image-6.1.0-47-cloud-amd64"), Some("linux-image-6.1.0-52-cloud-amd64"));
        assert_eq!(choose(&names, "linux-image-5.10.0-32-cloud-amd64", "5.10"), None);
    }

    #[test]
    fn the_newest_of_each_series_is_taken() {
        let names = names(&[
            "binary-7.3.4+deb13-amd64",
            "image-7.3.4+deb13-amd64",
            "binary-7.0.13+deb13-amd64",
            "binary-7.0.4+deb13-amd64",
            "image-6.18.15+deb13-amd64",
        ]);
        let expected = ["linux-binary-7.3.4+deb13-amd64", "linux-binary-7.0.13+deb13-amd64"];
        assert_eq!(newest_of_series(&names, "-amd64"), expected);
    }

    #[test]
    fn an_image_knows_its_release() {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&[0, 1]);
        image[0x300..0x318].copy_from_slice(b"6.1.0-50-cloud-amd64 (d)");
        assert_eq!(release(&image).as_deref(), Some("6.1.0-50-cloud-amd64"));
        for cut in [0, 0x204, 0x20f, 0x2ff] {
            assert_eq!(release(&image[..cut]), None, "{cut} bytes");
        }
        image[0x202] = b'x';
        assert_eq!(release(&image), None);
    }

    #[test]
    fn ticks_are_stopped_from_6_1_on() {
        let can = |release: &str| Kernel { release: release.to_owned(), image: PathBuf::new() }.can_stop_ticks();
        assert!(!can("5.10.0-32-cloud-amd64") && can("6.1.0-50-cloud-amd64") && can("7.3.4"));
    }
}
