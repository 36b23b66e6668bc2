//! Gets the types (BTF) of Debian's kernels: those that are stored for tests, and those of the newest kernel.
//!
//! A kernel image contains the kernel's types in BTF format. apt downloads the kernel packages into target/btf and uses package lists of its own, so
//! nothing changes on this machine. A test of `watch` (`bpf/tests.rs`), started from here, uses the types.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use crate::walk::sources;
use crate::workspace;

/// Resolves every CO-RE relocation of the BPF programs against types of Debian's kernels, without loading the programs.
///
/// Downloads kernels with apt and extracts the types from their images; does not change the packages of this machine. Exit code: 0 all relocations
/// resolve, 1 some do not, 2 the types could not be obtained.
#[derive(Debug, Parser)]
#[command(name = "xtask btf", bin_name = "cargo xtask btf")]
pub struct Options {
    /// Check against the newest kernel in Debian; without this option, make the stored types (crates/watch/tests/btf) again
    #[arg(long)]
    pub newest: bool,
    /// Debian's mirror, or a snapshot of Debian if no suite has the kernel any longer; default: the mirror that this machine's apt uses
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
}

/// Kernel versions whose BTF types are stored for tests, and the Debian suite that has or had each of them. `STORED` in crates/watch/src/bpf/tests.rs
/// lists the same versions.
const STORED: [(&str, &str); 4] =
    [("6.1", "bookworm"), ("6.12", "bookworm-backports"), ("6.18", "trixie-backports"), ("7.3", "trixie-backports")];
/// Debian suites that may contain the newest kernel.
const NEWEST: [&str; 3] = ["trixie-backports", "sid", "experimental"];
/// Debian's keys. If this file is missing, apt needs the keys from elsewhere.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Suffix of Debian's smallest kernel build for x86-64; the types that the BPF programs read are the same as in the other builds.
const BUILD: &str = "-cloud-amd64";

/// Checks against the newest kernel, or makes the stored types again, as the options say. Returns whether all relocations resolve.
///
/// # Errors
/// When the types cannot be obtained.
pub fn run(options: &Options) -> Result<bool> {
    let folder = workspace::root().join("target/btf");
    let suites: Vec<&str> =
        if options.newest { NEWEST.to_vec() } else { STORED.iter().map(|(_, suite)| *suite).collect() };
    let apt = Apt::new(&folder, options.mirror.as_deref(), &suites)?;
    let names = apt.packages()?;
    let mut test = Command::new("cargo");
    test.args(["test", "-q", "--locked", "-p", "watch", "--lib", "every_relocation_resolves_in_each_kernel"]);
    if options.newest {
        let package = names.first().context("apt's package lists contain no kernel")?;
        println!("btf: {package}");
        test.env("COX_BTF", apt.types(package, &folder.join("newest.btf"))?);
    } else {
        for (version, suite) in STORED {
            let package = names.iter().find(|package| is_of(package, version)).with_context(|| {
                format!("no kernel {version} in {suite}; with --mirror, name a snapshot of Debian that has it")
            })?;
            println!("btf: {version}: {package}");
            apt.types(package, &folder.join(format!("{version}.btf")))?;
        }
        test.env("COX_MAKE_BTF", &folder);
    }
    Ok(test.status().context("cannot start cargo")?.success())
}

/// apt with package lists in a separate folder.
struct Apt {
    folder: PathBuf,
    config: PathBuf,
}

impl Apt {
    fn new(folder: &Path, mirror: Option<&str>, suites: &[&str]) -> Result<Apt> {
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
                 Acquire::Languages \"none\";\nAcquire::Check-Valid-Until \"false\";\nAPT::Sandbox::User \"\";\n"
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

    /// Returns the kernel packages, newest first.
    fn packages(&self) -> Result<Vec<String>> {
        let output =
            self.command("apt-cache").args(["pkgnames", "linux-"]).output().context("cannot start apt-cache")?;
        let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        names.retain(|name| numbers(name).is_some());
        // For newer kernels the image is in linux-binary-*, and linux-image-* only depends on it.
        names.sort_by_key(|name| (numbers(name), name.starts_with("linux-binary-")));
        names.reverse();
        Ok(names)
    }

    /// Downloads a package and writes its kernel's types to the file `to`. Returns `to`.
    fn types(&self, package: &str, to: &Path) -> Result<PathBuf> {
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
        let image = image(&unpacked)?.with_context(|| format!("{package} contains no kernel image"))?;
        let (payload, elf) = (unpacked.join("payload"), unpacked.join("vmlinux"));
        let bytes = fs::read(&image)?;
        let (packed, program) = payload_of(&bytes).context("unknown compression of the kernel image")?;
        fs::write(&payload, packed)?;
        let output = fs::File::create(&elf)?;
        let status = Command::new(program).arg("-dc").arg(&payload).stdout(output).status();
        ensure!(
            status.with_context(|| format!("cannot start {program}"))?.success(),
            "{program} cannot decompress the kernel"
        );
        let section = format!(".BTF={}", to.display());
        run_quietly(Command::new("objcopy").args(["--dump-section", &section]).arg(&elf).arg("/dev/null"))?;
        fs::remove_dir_all(&unpacked)?;
        Ok(to.to_owned())
    }
}

fn run_quietly(command: &mut Command) -> Result<()> {
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
fn image(folder: &Path) -> Result<Option<PathBuf>> {
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

/// Returns the numbers in the name of a kernel package, or `None` if it is another package.
fn numbers(package: &str) -> Option<Vec<u32>> {
    let release = package.strip_prefix("linux-image-").or_else(|| package.strip_prefix("linux-binary-"))?;
    let version = release.strip_suffix(BUILD).filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect())
}

/// Returns whether a package contains a kernel of a version such as `6.1`.
fn is_of(package: &str, version: &str) -> bool {
    let wanted = version.split('.').filter_map(|number| number.parse().ok()).collect::<Vec<u32>>();
    numbers(package).is_some_and(|numbers| numbers.starts_with(&wanted))
}

/// Returns the compressed kernel in an image, and the program that decompresses it (Documentation/arch/x86/boot.rst).
fn payload_of(image: &[u8]) -> Option<(&[u8], &'static str)> {
    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    let sectors = match image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let begin = ((sectors + 1) * 512).checked_add(word(0x248)?)?;
    // The last four bytes are the decompressed length.
    let (packed, _) = image.get(begin..begin.checked_add(word(0x24c)?)?)?.split_last_chunk::<4>()?;
    let known: [(&[u8], &str); 4] = [
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
        (&[0x1f, 0x8b], "gzip"),
    ];
    known.iter().find(|(magic, _)| packed.starts_with(magic)).map(|(_, program)| (packed, *program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_by_their_names_and_the_newest_is_first() {
        for other in [
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-50-cloud-amd64-dbg",
            "linux-image-6.1.0-50-rt-amd64",
            "linux-binary-unsigned-7.3.4+deb13-cloud-amd64",
            "linux-headers-6.1.0-50-cloud-amd64",
        ] {
            assert_eq!(numbers(other), None, "{other}");
        }
        let release = |name: &str| numbers(name).unwrap();
        assert!(release("linux-image-6.12.95+deb12-cloud-amd64") > release("linux-image-6.1.0-50-cloud-amd64"));
        assert!(release("linux-binary-7.3.4+deb13-cloud-amd64") > release("linux-image-7.3-cloud-amd64"));
        assert!(is_of("linux-image-6.1.0-50-cloud-amd64", "6.1"));
        assert!(!is_of("linux-image-6.12.95+deb12-cloud-amd64", "6.1"));
    }

    #[test]
    fn a_packed_kernel_is_found_in_its_image() {
        let mut image = vec![0; 0x400];
        image[0x1f1] = 1;
        image[0x248..0x250].copy_from_slice(&[16, 0, 0, 0, 12, 0, 0, 0]);
        image.extend([0; 16]);
        image.extend(*b"\x28\xb5\x2f\xfdpack\0\0\0\0");
        assert_eq!(payload_of(&image), Some((&b"\x28\xb5\x2f\xfdpack"[..], "zstd")));
        for cut in [0, 0x200, 0x249, image.len() - 1] {
            assert_eq!(payload_of(&image[..cut]), None, "{cut} bytes");
        }
    }
}
