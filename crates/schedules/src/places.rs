//! Where loops are: functions and lines of source code, from the files of the program and its libraries.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use machine::Root;
use symbols::elf::{Image, Lines};

/// The files that have been read.
pub(crate) struct Places<'r> {
    root: &'r Root,
    files: HashMap<Vec<u8>, (Option<Image>, Option<Lines>)>,
}

/// Where a loop is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl<'r> Places<'r> {
    pub(crate) fn new(root: &'r Root) -> Places<'r> {
        Places { root, files: HashMap::new() }
    }

    /// Returns the place of a loop whose call ends at `address`, as the file `path` counts addresses.
    pub(crate) fn of(&mut self, path: &[u8], address: u64) -> Place {
        let root = self.root;
        let (image, lines) = self.files.entry(path.to_vec()).or_insert_with(|| {
            let path = Path::new(OsStr::from_bytes(path));
            let open = || File::open(root.path(path)).ok();
            let image = open().and_then(|file| Image::open(file, path, root).ok());
            (image, open().and_then(|file| Lines::read(&file, path, root)))
        });
        // The address lies behind the call, which may be the end of a line.
        let call = address.saturating_sub(1);
        let function = image.as_ref().and_then(|image| image.function_at(call)?.name);
        let line = lines.as_ref().and_then(|lines| lines.at(call));
        Place {
            function: function.map(|name| own_name(&name).to_owned()),
            line: line.as_ref().map(|line| line.line),
            file: line.map(|line| line.file),
        }
    }
}

/// Returns the name of the function in the source: compilers put a region into a function of its own.
fn own_name(name: &str) -> &str {
    // gcc: work._omp_fn.0; clang: work.omp_outlined, .omp_outlined. or work.omp_outlined_debug__.
    let end = ["._omp_fn.", ".omp_outlined"].iter().filter_map(|mark| name.find(mark)).min();
    end.filter(|end| *end > 0).map_or(name, |end| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_have_the_name_of_their_function() {
        for (name, expected) in [
            ("main._omp_fn.0", "main"),
            ("sph::forces(int) [clone ._omp_fn.3]", "sph::forces(int) [clone "),
            ("work.omp_outlined_debug__", "work"),
            (".omp_outlined.", ".omp_outlined."),
            ("main", "main"),
        ] {
            assert_eq!(own_name(name), expected.trim_end_matches(" [clone "), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_gone_has_no_places() {
        let root = Root::live();
        assert_eq!(Places::new(&root).of(b"/nowhere/at/all", 4096), Place::default());
    }
}
