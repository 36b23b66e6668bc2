//! The command line of `cargo xtask walk`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

/// Follows README.md as a new user would, in a fresh Debian 12.
///
/// Makes a root file system with debootstrap, runs README.md's commands in it and then what a newcomer tries next, and prints a table of all steps.
/// Needs root. Everything runs in separate mount, PID and IPC namespaces, so nothing stays mounted or running, however the walk ends. The walk uses
/// the last commit of this work tree. Exit code: 0 all steps succeeded, 1 a step failed, 2 no step could be run.
#[derive(Debug, Parser)]
#[command(name = "xtask walk", bin_name = "cargo xtask walk")]
pub struct Options {
    /// Folder for the root file system, the logs, and files that the next walk can reuse; default: target/walk
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Only these parts, and those that they build on; default: all
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    pub only: Vec<Part>,
    /// Only steps whose names contain one of these words; README.md's steps always run
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub steps: Vec<String>,
    /// In part test: run `make test` with these arguments for `cargo nextest run` instead of --workspace
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub tests: Option<String>,
    /// Keep the root file system
    #[arg(long)]
    pub keep: bool,
    /// Use the root file system that an earlier walk left with --keep; it already contains what README.md installs
    #[arg(long)]
    pub again: bool,
    /// Reuse nothing from earlier walks
    #[arg(long, conflicts_with = "again")]
    pub fresh: bool,
    /// Debian's mirror; default: the mirror that this machine's apt uses
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// Run the steps in a prepared root file system; the walk itself starts this in the new namespaces
    #[arg(long, hide = true)]
    pub inside: bool,
}

/// A part of the walk. All parts share one root file system, and run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Part {
    /// README.md's commands as root, then a tour of cox
    Root,
    /// A user without sudo, who builds cox and uses what root has installed
    User,
    /// A container without privileges
    Container,
    /// Run `nohup make test` in a git clone called coxswain, on a system with both Open MPI and MPICH
    Test,
}

impl Part {
    /// Returns the name in options, logs and the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Root => "root",
            Part::User => "user",
            Part::Container => "container",
            Part::Test => "test",
        }
    }

    /// Returns the part whose installation this part uses.
    fn builds_on(self) -> Option<Part> {
        match self {
            Part::User | Part::Container => Some(Part::Root),
            Part::Root | Part::Test => None,
        }
    }
}

impl Options {
    /// Returns the parts to run, in their order, including those that others build on.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let wanted = if self.only.is_empty() { Part::value_variants() } else { &self.only };
        let mut parts: Vec<Part> = wanted.iter().flat_map(|part| [Some(*part), part.builds_on()]).flatten().collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Returns whether a step that is not in README.md is run. If a part was added only because another part builds on it, only its steps from
    /// README.md are run.
    #[must_use]
    pub fn takes(&self, part: Part, step: &str) -> bool {
        let named = self.only.is_empty() || self.only.contains(&part);
        named && (self.steps.is_empty() || self.steps.iter().any(|word| step.contains(word.as_str())))
    }
}

/// Name of the file that marks a folder in which a walk may remove files.
const MARK: &str = ".walk";

/// Claims a folder for a walk: creates it, or reuses one that an earlier walk has marked.
///
/// # Errors
/// When it contains files that no walk has made, because a walk removes its root file system and its cache.
pub fn claim(folder: &Path) -> Result<()> {
    let mark = folder.join(MARK);
    if mark.is_file() {
        return Ok(());
    }
    fs::create_dir_all(folder).with_context(|| format!("the folder '{}'", folder.display()))?;
    if fs::read_dir(folder).with_context(|| format!("the folder '{}'", folder.display()))?.next().is_some() {
        bail!("'{}' contains files that no walk has made; name another folder with --root", folder.display());
    }
    fs::write(&mark, "cargo xtask walk may remove what is in here\n").with_context(|| format!("'{}'", mark.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(words: &[&str]) -> Vec<Part> {
        Options::parse_from([&["walk"], words].concat()).parts()
    }

    #[test]
    fn parts_come_in_their_order_with_what_they_build_on() {
        assert_eq!(parts(&[]), [Part::Root, Part::User, Part::Container, Part::Test]);
        assert_eq!(parts(&["--only", "container"]), [Part::Root, Part::Container]);
        assert_eq!(parts(&["--only", "test,user"]), [Part::Root, Part::User, Part::Test]);
        assert_eq!(parts(&["--only", "test"]), [Part::Test]);
        assert!(Options::try_parse_from(["walk", "--only", "nowhere"]).is_err());
    }

    #[test]
    fn what_others_build_on_is_not_walked_in_full() {
        let options = Options::parse_from(["walk", "--only", "user", "--steps", "pipe"]);
        assert!(options.takes(Part::User, "a closed pipe") && !options.takes(Part::User, "make build"));
        assert!(!options.takes(Part::Root, "a closed pipe"));
    }

    #[test]
    fn only_an_empty_folder_or_one_of_a_walk_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let (new, foreign) = (place.path().join("new"), place.path().join("foreign"));
        claim(&new).unwrap();
        fs::write(new.join("more"), "").unwrap();
        claim(&new).unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("thesis.tex"), "").unwrap();
        let refused = claim(&foreign).unwrap_err().to_string();
        assert!(refused.contains("no walk has made"), "{refused}");
        assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    }
}
