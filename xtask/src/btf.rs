//! Gets the types (BTF) of Debian's kernels: those that are stored for tests, and those of the newest kernel.
//!
//! A kernel image contains the kernel's types in BTF format. apt downloads the kernel packages into target/btf ([`crate::apt`]). A test of `watch`
//! (`bpf/tests.rs`), started from here, uses the types.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::apt::{self, Apt, is_of, run_quietly};
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
    let names = apt.kernels(BUILD)?;
    let mut test = Command::new("cargo");
    test.args(["test", "-q", "--locked", "-p", "watch", "--lib", "every_relocation_resolves_in_each_kernel"]);
    if options.newest {
        let package = names.first().context("apt's package lists contain no kernel")?;
        println!("btf: {package}");
        test.env("COX_BTF", types(&apt, package, &folder.join("newest.btf"))?);
    } else {
        for (version, suite) in STORED {
            let package = names.iter().find(|package| is_of(package, version, BUILD)).with_context(|| {
                format!("no kernel {version} in {suite}; with --mirror, name a snapshot of Debian that has it")
            })?;
            println!("btf: {version}: {package}");
            types(&apt, package, &folder.join(format!("{version}.btf")))?;
        }
        test.env("COX_MAKE_BTF", &folder);
    }
    Ok(test.status().context("cannot start cargo")?.success())
}

/// Downloads a package and writes its kernel's types to the file `to`. Returns `to`.
fn types(apt: &Apt, package: &str, to: &Path) -> Result<PathBuf> {
    let unpacked = apt.unpack(package)?;
    let image = apt::image(&unpacked)?.with_context(|| format!("{package} contains no kernel image"))?;
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
