//! Finds dependency cycles between the files of a crate: files that use each other, directly or through others.
//!
//! A file has one subject, and the files of a crate should depend on each other in one direction only, as crates do. Two files in a cycle either
//! split one subject, or share something that should be in a file of its own.
//!
//! An arrow is a path in the code of one file (in `use` or elsewhere) that leads to an item which another file declares. Declaring a module is not an
//! arrow. A re-export (`pub use`) is not an arrow either: code that uses the re-exported name depends on the file that declares the item. Tests are
//! ignored.

mod components;
mod modules;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::arrows::Crate;
use crate::circles::modules::Module;
use crate::circles::resolve::Arrow;

/// A dependency cycle between files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Files of the cycle, sorted.
    pub files: Vec<PathBuf>,
    /// The lines by which these files use each other, and which thereby form the cycle.
    pub arrows: Vec<Arrow>,
}

/// A folder in which dependency cycles are permitted, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Path of the folder, relative to the workspace.
    pub below: &'static str,
    /// Reason why the cycles are permitted.
    pub why: &'static str,
}

/// The permitted dependency cycles.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        below: "crates/broker/src",
        why: "the parent module calls the code of each connection state, and that code uses items of the parent",
    },
    Exception {
        below: "crates/watch/src/snapshots",
        why: "the parent module calls the code of each kind of thread snapshot, and that code uses items of the parent",
    },
];

/// Returns the dependency cycles in `crates`, with file names relative to `base`, and the number of files.
///
/// # Errors
/// When a file of a crate cannot be read or is not valid Rust.
pub fn of_workspace(crates: &[Crate], base: &Path) -> Result<(Vec<Circle>, usize)> {
    let mut circles = Vec::new();
    let mut files = BTreeSet::new();
    for root in crates.iter().flat_map(|built| &built.roots) {
        let modules = modules::of(root)?;
        circles.extend(among(&modules, base));
        files.extend(modules.into_iter().map(|module| module.file));
    }
    Ok((circles, files.len()))
}

fn among(modules: &[Module], base: &Path) -> Vec<Circle> {
    let relative = |path: &Path| path.strip_prefix(base).unwrap_or(path).to_owned();
    let arrows: Vec<Arrow> = resolve::arrows(modules)
        .into_iter()
        .map(|arrow| Arrow { from: relative(&arrow.from), to: relative(&arrow.to), ..arrow })
        .collect();
    let mut edges: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for arrow in &arrows {
        edges.entry(&arrow.from).or_default().push(&arrow.to);
    }
    let circle = |files: Vec<&Path>| {
        let within = |arrow: &&Arrow| files.contains(&arrow.from.as_path()) && files.contains(&arrow.to.as_path());
        let arrows = arrows.iter().filter(within).cloned().collect();
        Circle { files: files.into_iter().map(Path::to_owned).collect(), arrows }
    };
    components::of(&edges).into_iter().map(circle).collect()
}

/// Returns the cycles that no exception covers, and the exceptions that cover no cycle.
pub fn faults<'c>(circles: &'c [Circle], exceptions: &'c [Exception]) -> (Vec<&'c Circle>, Vec<&'c Exception>) {
    let covers =
        |exception: &Exception, circle: &Circle| circle.files.iter().all(|file| file.starts_with(exception.below));
    let uncovered = circles.iter().filter(|circle| !exceptions.iter().any(|known| covers(known, circle))).collect();
    let unused = exceptions.iter().filter(|known| !circles.iter().any(|circle| covers(known, circle))).collect();
    (uncovered, unused)
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dependency cycle of {} files", self.files.len())?;
        let pairs: BTreeSet<(&PathBuf, &PathBuf)> = self.arrows.iter().map(|arrow| (&arrow.from, &arrow.to)).collect();
        for (from, to) in pairs {
            write!(f, "\n  {} uses {}", from.display(), to.display())?;
            for arrow in self.arrows.iter().filter(|arrow| (&arrow.from, &arrow.to) == (from, to)) {
                write!(f, "\n    {}:{}: {}", from.display(), arrow.line, arrow.path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
