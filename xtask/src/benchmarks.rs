//! `cargo xtask benchmarks DIR`: builds the benchmarks that `cox-bench verdicts --programs DIR` runs, from source archives in DIR.
//!
//! The archives are downloaded beforehand, by hand: docs/bench.md names them. `xtask/benchmarks/*.sh` have the compiler's command lines.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A benchmark whose source is an archive.
struct Benchmark {
    /// Beginnings of the archive's name.
    archives: &'static [&'static str],
    /// Shell script that builds it in the unpacked folder.
    script: &'static str,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { archives: &["NPB"], script: include_str!("../benchmarks/npb.sh") },
    Benchmark { archives: &["LULESH", "lulesh"], script: include_str!("../benchmarks/lulesh.sh") },
    Benchmark { archives: &["hpcg", "HPCG"], script: include_str!("../benchmarks/hpcg.sh") },
    Benchmark { archives: &["miniFE", "minife", "MiniFE"], script: include_str!("../benchmarks/minife.sh") },
];

/// Compilers: the name in the file names, and the commands for C and C++.
const COMPILERS: [(&str, &str, &str); 2] = [("gcc", "gcc", "g++"), ("clang", "clang", "clang++")];

/// Suffixes of archives that tar(1) unpacks.
const SUFFIXES: [&str; 5] = [".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar"];

/// Builds each benchmark whose archive is in `folder`, by each compiler, into `folder`. Prints one line for each. Returns whether at least one
/// archive was found and all found ones were built by at least one compiler.
///
/// # Errors
/// When the folder cannot be read or written.
pub fn run(folder: &Path) -> Result<bool> {
    let folder = folder.canonicalize().with_context(|| format!("no folder at {}", folder.display()))?;
    let mut good = true;
    let mut found = 0;
    for benchmark in BENCHMARKS {
        let archives = archives(&folder, benchmark)?;
        if archives.is_empty() {
            println!("benchmarks: no archive {}*.tar.gz in {}", benchmark.archives[0], folder.display());
        }
        for archive in archives {
            found += 1;
            let built: Vec<&str> = COMPILERS
                .iter()
                .filter(|compiler| told(&folder, benchmark, &archive, compiler))
                .map(|(name, ..)| *name)
                .collect();
            good &= !built.is_empty();
        }
    }
    Ok(good && found > 0)
}

fn told(folder: &Path, benchmark: &Benchmark, archive: &Path, compiler: &(&str, &str, &str)) -> bool {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    match build(folder, benchmark, archive, compiler) {
        Ok(()) => {
            println!("benchmarks: {name} built by {}", compiler.0);
            true
        }
        Err(error) => {
            eprintln!("benchmarks: {name} not built by {}: {error:#}", compiler.0);
            false
        }
    }
}

/// Unpacks an archive into a folder of its own, and runs the script there.
fn build(folder: &Path, benchmark: &Benchmark, archive: &Path, (compiler, cc, cxx): &(&str, &str, &str)) -> Result<()> {
    let stem = archive.file_name().and_then(OsStr::to_str).unwrap_or("archive");
    let work = folder.join("build").join(format!("{stem}.{compiler}"));
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    run_tool(Command::new("tar").arg("-xf").arg(archive).args(["--strip-components=1", "-C"]).arg(&work))?;
    let mut script = Command::new("sh");
    script.args(["-eu", "-c", benchmark.script]).current_dir(&work);
    script.env("COMPILER", compiler).env("CC", cc).env("CXX", cxx).env("OUT", folder);
    run_tool(&mut script)
}

fn run_tool(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("cannot start {}", name.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
        bail!("{} ({})", last.trim(), output.status);
    }
    Ok(())
}

fn archives(folder: &Path, benchmark: &Benchmark) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_archive = SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
            path.is_file() && is_archive && benchmark.archives.iter().any(|beginning| name.starts_with(beginning))
        })
        .collect();
    // With several archives of one benchmark, the last one's executables stay: NPB3.4 comes after NPB3.0-omp-C, and replaces only what gcc has built.
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_built_by_each_compiler_in_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("some-1.0");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("source"), "text").unwrap();
        let archive = folder.path().join("some-1.0.tar.gz");
        let status =
            Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder.path()).arg("some-1.0").status();
        assert!(status.unwrap().success());
        let benchmark = |script| Benchmark { archives: &["some"], script };
        let copies = benchmark("cp source \"$OUT/some.$COMPILER\"; test \"$CC\" = \"$COMPILER\"");
        assert_eq!(archives(folder.path(), &copies).unwrap(), std::slice::from_ref(&archive));
        for compiler in &COMPILERS {
            build(folder.path(), &copies, &archive, compiler).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join(format!("some.{}", compiler.0))).unwrap(), "text");
        }
        let fails = benchmark("echo no compiler >&2; exit 4");
        let error = build(folder.path(), &fails, &archive, &COMPILERS[0]).unwrap_err().to_string();
        assert!(error.contains("no compiler") && error.contains('4'), "{error}");
    }

    #[test]
    fn a_folder_without_archives_is_no_success() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!run(folder.path()).unwrap());
        assert!(run(&folder.path().join("none")).is_err());
    }
}
