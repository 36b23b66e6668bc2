//! Makes the guest's file system: busybox, cox and its libraries, test programs, and what all of them are linked to. It is an initramfs, an archive that
//! the kernel unpacks into memory, so the guest needs no disk and no drivers.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apt::run_quietly;

/// What is tested, below the folder of programs.
pub const PROGRAMS: [&str; 5] = ["cox", "cox-observe", "cox-ulp-host", "libcox_preload.so", "quiet-check"];
/// What the jobs in kernel/vm/init run, below target/workloads.
pub const WORKLOADS: [&str; 5] = ["barriers", "blocked", "hog", "mandelbrot", "yields"];
/// Statically linked busybox (package busybox-static).
pub const BUSYBOX: &str = "/bin/busybox";
/// The first process of the guest.
const INIT: &str = include_str!("../../../kernel/vm/init");

/// Makes the archive in the folder `work`. Returns its path.
///
/// # Errors
/// When a program is missing, or a tool fails.
pub fn make(work: &Path, programs: &Path, workloads: &Path) -> Result<PathBuf> {
    let root = work.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
    }
    for folder in ["bin", "cox", "dev", "proc", "run", "sys", "tmp", "work"] {
        fs::create_dir_all(root.join(folder)).with_context(|| root.display().to_string())?;
    }
    fs::copy(BUSYBOX, root.join("bin/busybox")).with_context(|| format!("copying {BUSYBOX}"))?;
    fs::write(root.join("init"), INIT)?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
    let mut libraries = BTreeSet::new();
    for (folder, names, to) in [(programs, &PROGRAMS[..], "cox"), (workloads, &WORKLOADS[..], "work")] {
        for name in names {
            let from = place(folder, name);
            libraries.extend(libraries_of(&from)?);
            // Without their line tables, debug builds have a tenth of their size.
            run_quietly(Command::new("strip").args(["-g", "-o"]).arg(root.join(to).join(name)).arg(&from))?;
        }
    }
    for library in &libraries {
        let to = root.join(library.strip_prefix("/").unwrap_or(library));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(library, &to).with_context(|| format!("copying {}", library.display()))?;
    }
    let archive = work.join("initramfs");
    let pack = "set -o pipefail; find . | cpio --quiet -o -H newc -R 0:0 | gzip -1 >../initramfs";
    run_quietly(Command::new("bash").args(["-c", pack]).current_dir(&root))?;
    fs::remove_dir_all(&root)?;
    Ok(archive)
}

/// Returns the path of a program. Cargo leaves libraries that only a test build needs in `deps`.
fn place(folder: &Path, name: &str) -> PathBuf {
    let deps = folder.join("deps").join(name);
    let place = folder.join(name);
    if !place.exists() && deps.exists() { deps } else { place }
}

/// Returns the shared libraries of a program, including the dynamic linker.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    ensure!(program.is_file(), "'{}' is missing; make vm builds it", program.display());
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("'{}'", program.display()))
}

/// Parses what ldd(1) prints: `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the dynamic linker.
fn parse(text: &str) -> Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in text.lines() {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
        ensure!(!path.starts_with("not found"), "a library is missing: {}", line.trim());
        if path.starts_with('/') {
            libraries.extend(path.split(" (").next().map(PathBuf::from));
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_found() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse(text).unwrap(), expected);
        assert!(parse("\tstatically linked\n").unwrap().is_empty());
        let error = parse("\tlibx.so.1 => not found\n").unwrap_err().to_string();
        assert!(error.contains("libx.so.1"), "{error}");
    }

    #[test]
    fn every_workload_of_the_jobs_is_packed() {
        let jobs = INIT.lines().filter(|line| line.starts_with("job "));
        for job in jobs.filter_map(|job| job.split_once(" -- ")) {
            let program = job.1.split(' ').next().unwrap();
            assert!(WORKLOADS.contains(&program), "{program}");
        }
    }
}
