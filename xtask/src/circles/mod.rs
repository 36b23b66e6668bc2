//! Circles between the files of a crate: files that use one another, directly or through others.
//!
//! A file has one subject, and files of a crate build on one another in one direction, as crates do. Two files in a circle
//! are one idea in two places, or share an idea that wants a file of its own.
//!
//! An arrow is a path in the code of one file (`use`, or where it stands) that leads to something which another file
//! declares. Declaring a module is no arrow, and passing on a name (`pub use`) is none: whoever uses it by that name uses
//! the file that declares it. Tests do not count.

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

/// Files that use one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The files, sorted.
    pub files: Vec<PathBuf>,
    /// The lines that make it.
    pub arrows: Vec<Arrow>,
}

/// Circles that are known, below a folder, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The folder, relative to the workspace.
    pub below: &'static str,
    /// Why they are there still.
    pub why: &'static str,
}

/// The circles that are not faults.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        below: "crates/broker/src",
        why: "what all states of a conversation share is beside the choice between them",
    },
    Exception {
        below: "crates/watch/src/stands",
        why: "what both kinds of stands share is beside the choice between them",
    },
];

/// The circles in `crates`, with names of files relative to `base`, and the number of files.
///
/// # Errors
/// When a file of a crate is not there or is not Rust.
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

/// The circles that no exception covers, and the exceptions that cover none.
pub fn faults<'c>(circles: &'c [Circle], exceptions: &'c [Exception]) -> (Vec<&'c Circle>, Vec<&'c Exception>) {
    let covers =
        |exception: &Exception, circle: &Circle| circle.files.iter().all(|file| file.starts_with(exception.below));
    let uncovered = circles.iter().filter(|circle| !exceptions.iter().any(|known| covers(known, circle))).collect();
    let unused = exceptions.iter().filter(|known| !circles.iter().any(|circle| covers(known, circle))).collect();
    (uncovered, unused)
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files use one another", self.files.len())?;
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
