//! The line of source code at an address, from the debugging information of a file (DWARF) or of its separate debug file.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use machine::Root;
use object::{Object, ObjectSection};

use object::read::ReadRef;

use super::debug_file;
use super::large::Large;

/// The lines of a file.
pub struct Lines(Context<EndianArcSlice<RunTimeEndian>>);

/// A line of source code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Path of the source file, as the compiler was given it.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
}

impl Lines {
    /// Reads the debugging information of `file`, which a process had mapped from `path`; `None` if neither it nor its debug file has any.
    #[must_use]
    pub fn read(file: &File, path: &Path, root: &Root) -> Option<Lines> {
        let large = Large::new(file).ok()?;
        let elf = object::File::parse(&large).ok()?;
        if elf.section_by_name(".debug_line").is_some() {
            return of(&elf);
        }
        let large = Large::new(&debug_file::find(&elf, path, root)?).ok()?;
        of(&object::File::parse(&large).ok()?)
    }

    /// Returns the line of the instruction at an address, as the file counts addresses.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<Line> {
        let location = self.0.find_location(address).ok()??;
        Some(Line { file: location.file?.to_owned(), line: location.line.filter(|line| *line > 0)? })
    }
}

fn of<'d>(elf: &object::File<'d, impl ReadRef<'d>>) -> Option<Lines> {
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: SectionId| -> Result<_, gimli::Error> {
        let section = elf.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok(EndianArcSlice::new(Arc::from(section.unwrap_or_default().as_ref()), endian))
    };
    Context::from_dwarf(Dwarf::load(load).ok()?).ok().map(Lines)
}
