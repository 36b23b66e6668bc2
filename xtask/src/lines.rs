//! Finds long source files. A file should have one subject and be small enough to keep in mind.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace;

/// Files with more lines than this are listed.
pub const SMELL: usize = 400;
/// Files with more lines than this fail the check.
pub const FAULT: usize = 800;

/// File name extensions of source files.
const SOURCES: [&str; 6] = ["rs", "c", "h", "sh", "py", "mk"];

/// A source file and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// Path relative to the searched folder.
    pub path: PathBuf,
    /// Number of lines.
    pub lines: usize,
}

/// Returns the source files below `root` with more than `limit` lines, longest first. Build output (`target`) and hidden folders are ignored.
///
/// # Errors
/// When a folder or file cannot be read.
pub fn longer_than(root: &Path, limit: usize) -> Result<Vec<Long>> {
    let mut long = Vec::new();
    for path in workspace::files(root, &is_source)? {
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        if lines > limit {
            long.push(Long { path: path.strip_prefix(root).unwrap_or(&path).to_owned(), lines });
        }
    }
    long.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.path.cmp(&b.path)));
    Ok(long)
}

fn is_source(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| SOURCES.contains(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sources_are_found_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, lines: usize| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x\n".repeat(lines)).unwrap();
        };
        write("a/long.rs", 5);
        write("a/longer.c", 6);
        write("a/short.h", 4);
        write("a/table.txt", 9);
        write("target/made.rs", 9);
        write(".git/kept.rs", 9);
        let found = longer_than(folder.path(), 4).unwrap();
        assert_eq!(
            found,
            [Long { path: PathBuf::from("a/longer.c"), lines: 6 }, Long { path: PathBuf::from("a/long.rs"), lines: 5 }]
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_said() {
        let error = longer_than(Path::new("/no/such/folder"), 1).unwrap_err();
        assert!(format!("{error:#}").contains("/no/such/folder"));
    }
}
