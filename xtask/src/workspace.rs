//! Describes the workspace: its folder, and its crates as reported by `cargo metadata`.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::arrows::Crate;

/// Returns the folder of the workspace's Cargo.toml.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Returns the crates of the workspace and their dependencies.
///
/// # Errors
/// When cargo cannot be run or rejects the workspace.
pub fn crates() -> Result<Vec<Crate>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(&cargo)
        // --no-deps resolves no dependencies, so it works offline.
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .with_context(|| format!("running {}", cargo.display()))?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    parse(&output.stdout)
}

/// Returns the files below `folder` for which `wanted` returns true, sorted. Build output (`target`) and hidden folders are ignored.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
            let path = entry.path();
            let kind = entry.file_type().with_context(|| format!("reading {}", path.display()))?;
            if kind.is_dir() && !is_left_out(&path) {
                folders.push(path);
            } else if kind.is_file() && wanted(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn is_left_out(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "target" || name.as_encoded_bytes().starts_with(b"."))
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Folder of the dependency; present only for crates of this workspace.
    path: Option<String>,
    /// `dev`, `build`, or `None` for a normal dependency.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

fn parse(json: &[u8]) -> Result<Vec<Crate>> {
    let metadata: Metadata = serde_json::from_slice(json).context("cannot parse the output of cargo metadata")?;
    metadata.packages.into_iter().map(as_crate).collect()
}

fn as_crate(package: Package) -> Result<Crate> {
    let of_kind = |kind: &str| package.targets.iter().find(|target| target.kind.iter().any(|k| k == kind));
    let forbids_unsafe = match of_kind("lib").or_else(|| of_kind("bin")) {
        Some(target) => forbids_unsafe(
            &fs::read_to_string(&target.src_path).with_context(|| format!("reading {}", target.src_path.display()))?,
        ),
        None => false,
    };
    let is_product = |kind: &String| matches!(kind.as_str(), "bin" | "cdylib" | "lib" | "rlib");
    let roots = package.targets.iter().filter(|target| target.kind.iter().any(is_product));
    let roots = roots.map(|target| target.src_path.clone()).collect();
    let (for_tests, ships): (Vec<Dependency>, Vec<Dependency>) = package
        .dependencies
        .into_iter()
        .filter(|dependency| dependency.path.is_some())
        .partition(|dependency| dependency.kind.as_deref() == Some("dev"));
    Ok(Crate { name: package.name, uses: names(ships), uses_for_tests: names(for_tests), forbids_unsafe, roots })
}

/// Returns the names sorted and without duplicates: a crate can be a dependency of a program and also of its build script.
fn names(dependencies: Vec<Dependency>) -> Vec<String> {
    let distinct: BTreeSet<String> = dependencies.into_iter().map(|dependency| dependency.name).collect();
    distinct.into_iter().collect()
}

fn forbids_unsafe(source: &str) -> bool {
    source.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_without_a_path_are_not_ours_and_those_of_tests_are_apart() {
        let json = br#"{ "packages": [{ "name": "a", "targets": [
            { "kind": ["rlib", "cdylib"], "src_path": "/none/lib.rs" },
            { "kind": ["test"], "src_path": "/none/test.rs" } ], "dependencies": [
            { "name": "serde", "path": null },
            { "name": "wire", "path": "/w/wire", "kind": null },
            { "name": "wire", "path": "/w/wire", "kind": "build" },
            { "name": "wire", "path": "/w/wire", "kind": "dev" },
            { "name": "testkit", "path": "/w/testkit", "kind": "dev" } ] }] }"#;
        let wanted = Crate {
            name: "a".to_owned(),
            uses: vec!["wire".to_owned()],
            uses_for_tests: vec!["testkit".to_owned(), "wire".to_owned()],
            forbids_unsafe: false,
            roots: vec![PathBuf::from("/none/lib.rs")],
        };
        assert_eq!(parse(json).unwrap(), [wanted]);
    }

    #[test]
    fn only_the_attribute_itself_forbids() {
        assert!(forbids_unsafe("//! Text.\n#![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe("// #![forbid(unsafe_code)]\n"));
    }

    #[test]
    fn answers_that_are_not_metadata_are_refused() {
        assert!(parse(b"{}").is_err());
    }
}
