//! Reads from an ELF file only the parts that describe it: headers, symbols, relocations and unwind tables, but neither code nor data.
//!
//! The code and data of a compiler, 30 MB, take 15 ms to read, and its tables 1 ms.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::LittleEndian;
use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_NOBITS, SHT_PROGBITS};
use object::read::elf::{FileHeader, SectionHeader};

use super::large::Large;

type Header = FileHeader64<LittleEndian>;

/// The sections of type SHT_PROGBITS that describe the file.
const DESCRIBING: [&[u8]; 2] = [b".eh_frame", b".gnu_debuglink"];

/// A file with more sections is read whole.
const MAX_SECTIONS: usize = 10_000;

/// Returns the ranges of bytes (offset and length) that describe the file; `None` if it is not a 64-bit little-endian ELF file, is damaged, or has no
/// sections, or too many.
fn describing(large: &Large) -> Option<Vec<(u64, u64)>> {
    let header = Header::parse(large).ok()?;
    let endian = header.endian().ok()?;
    let program_headers = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
    let sections = header.section_headers(endian, large).ok()?;
    if !(1..=MAX_SECTIONS).contains(&sections.len()) {
        return None;
    }
    let names = header.section_strings(endian, large, sections).ok()?;
    let mut ranges = vec![
        (0, size_of::<Header>() as u64),
        (header.e_phoff(endian), program_headers),
        (header.e_shoff(endian), size_of_val(sections) as u64),
    ];
    for section in sections {
        let describes = match section.sh_type(endian) {
            SHT_NOBITS => false,
            SHT_PROGBITS => section.name(endian, names).is_ok_and(|name| DESCRIBING.contains(&name)),
            _ => section.sh_flags(endian).0 & SHF_EXECINSTR.0 == 0,
        };
        if describes {
            ranges.push((section.sh_offset(endian), section.sh_size(endian)));
        }
    }
    Some(ranges)
}

/// Reads the parts of a file of `len` bytes that describe it. All other bytes of the result are zero, and take no memory.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn read(file: &File, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut ranges = describing(&Large::new(file)?).unwrap_or_else(|| vec![(0, len as u64)]);
    ranges.sort_unstable();
    // Sections of a hostile file may overlap: no byte is read twice.
    let mut done = 0;
    for (offset, size) in ranges {
        let within = |at: u64| usize::try_from(at).unwrap_or(len).min(len);
        let (start, end) = (within(offset).max(done), within(offset.saturating_add(size)));
        if start < end {
            file.read_exact_at(&mut bytes[start..end], start as u64)?;
            done = end;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    #[test]
    fn tables_are_those_of_the_file_and_code_is_left_out() {
        let path = std::env::current_exe().unwrap();
        let (file, whole) = (File::open(&path).unwrap(), std::fs::read(&path).unwrap());
        let part = read(&file, whole.len()).unwrap();
        assert_eq!(part.len(), whole.len());
        let (part, whole) = (object::File::parse(&*part).unwrap(), object::File::parse(&*whole).unwrap());
        let symbols = |elf: &object::File<'_>| {
            let named = elf.symbols().chain(elf.dynamic_symbols());
            named.map(|symbol| (symbol.address(), symbol.name_bytes().unwrap().to_vec())).collect::<Vec<_>>()
        };
        assert!(symbols(&whole).len() > 100 && symbols(&part) == symbols(&whole));
        let data = |elf: &object::File<'_>, name| elf.section_by_name(name).unwrap().data().unwrap().to_vec();
        assert_eq!(data(&part, ".eh_frame"), data(&whole, ".eh_frame"));
        assert_eq!(part.build_id().unwrap(), whole.build_id().unwrap());
        for name in [".text", ".rodata"] {
            assert!(data(&part, name).iter().all(|byte| *byte == 0), "{name}");
            assert!(data(&whole, name).iter().any(|byte| *byte != 0), "{name}");
        }
    }

    /// Each of the file's sections, as its headers say, covers the whole file and more.
    #[test]
    fn overlapping_sections_are_read_once() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let header = Header::parse(&*whole).unwrap();
        let endian = header.endian().unwrap();
        let (at, count) = (header.e_shoff(endian) as usize, usize::from(header.e_shnum(endian)));
        let names = usize::from(header.e_shstrndx(endian).0);
        let mut hostile = whole.clone();
        for section in (1..count).filter(|&section| section != names) {
            let entry = at + section * 64;
            hostile[entry + 4..entry + 8].copy_from_slice(&object::elf::SHT_NOTE.0.to_le_bytes());
            hostile[entry + 8..entry + 16].fill(0);
            hostile[entry + 24..entry + 32].fill(0);
            hostile[entry + 32..entry + 40].fill(0xff);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &hostile).unwrap();
        let ranges = describing(&Large::new(file.as_file()).unwrap()).unwrap();
        assert!(ranges.iter().filter(|(_, size)| *size == u64::MAX).count() > 10, "{ranges:?}");
        assert!(read(file.as_file(), hostile.len()).unwrap() == hostile);
    }

    #[test]
    fn other_files_are_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF\x02\x01\x01 too short"] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(read(file.as_file(), text.len()).unwrap(), text);
        }
    }
}
