//! What an executable file wants to be mapped: its segments, its entry point, its dynamic linker.

use std::ffi::{CString, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadRef};

/// Length of a page, bytes.
pub const PAGE: u64 = 4096;

/// Maximum length of the name of the dynamic linker, bytes, as in the kernel (PATH_MAX).
const LONGEST_PATH: u64 = 4096;

/// A segment that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address relative to the program's base.
    pub at: u64,
    /// Length in memory, bytes; what the file does not fill is zero.
    pub memory_bytes: u64,
    /// Position in the file, bytes.
    pub offset: u64,
    /// Length in the file, bytes.
    pub file_bytes: u64,
    /// Whether the program may read it.
    pub readable: bool,
    /// Whether the program may write to it.
    pub writable: bool,
    /// Whether the program may execute it.
    pub executable: bool,
}

impl Segment {
    /// Returns the pages that the segment touches, relative to the base.
    #[must_use]
    pub fn pages(&self) -> Range<u64> {
        down(self.at)..up(self.at + self.memory_bytes)
    }
}

/// What an executable file wants to be mapped. Addresses are relative to the base at which it is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The segments, by ascending address.
    pub segments: Vec<Segment>,
    /// The pages between the beginning of the first segment and the end of the last one.
    pub pages: Range<u64>,
    /// Alignment that the segments want for the base, bytes: a power of two, at least a page.
    pub align: u64,
    /// Entry point.
    pub entry: u64,
    /// Address of the program headers in memory.
    pub headers_at: u64,
    /// Number of program headers.
    pub headers: u16,
    /// The dynamic linker; `None` for a static program.
    pub interpreter: Option<CString>,
    /// Whether the program wants to execute code on its stack.
    pub executable_stack: bool,
    /// Whether its libraries are looked for relative to its own folder (`$ORIGIN` in DT_RPATH or DT_RUNPATH).
    pub uses_origin: bool,
}

/// Why a file cannot be a ULP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Another format.
    #[error("no ELF program for this processor")]
    Foreign,
    /// A program that is linked to fixed addresses.
    #[error(
        "linked to fixed addresses (no PIE), which only one program in an address space can have: link it with -pie"
    )]
    Fixed,
    /// A damaged file.
    #[error("damaged: {0}")]
    Damaged(&'static str),
}

impl Layout {
    /// Reads an executable file.
    ///
    /// # Errors
    /// The reason why it cannot be a ULP.
    pub fn of<'d, R: ReadRef<'d>>(file: R) -> Result<Layout, Unfit> {
        if FileKind::parse(file) != Ok(FileKind::Elf64) {
            return Err(Unfit::Foreign);
        }
        let header = FileHeader64::<Endianness>::parse(file).map_err(|_| Unfit::Damaged("the header"))?;
        let endian = header.endian().map_err(|_| Unfit::Foreign)?;
        if header.e_machine(endian).0 != arch::ELF_MACHINE || endian != Endianness::Little {
            return Err(Unfit::Foreign);
        }
        match header.e_type(endian) {
            elf::ET_DYN => {}
            elf::ET_EXEC => return Err(Unfit::Fixed),
            _ => return Err(Unfit::Foreign),
        }
        let all = header.program_headers(endian, file).map_err(|_| Unfit::Damaged("the program headers"))?;
        let of_type = |kind| all.iter().filter(move |one| one.p_type(endian) == kind);
        let segments: Vec<Segment> = of_type(elf::PT_LOAD).map(|one| segment(one, endian)).collect();
        let bytes = file.len().map_err(|()| Unfit::Damaged("its length"))?;
        let pages = checked(&segments, bytes)?;
        let table = header.e_phoff(endian);
        // The table is in the file, and some segment maps that part of the file. Its address is not always the first one's plus the position.
        let holds = |one: &&Segment| one.offset <= table && table < one.offset + one.file_bytes;
        let headers_at = segments.iter().find(holds).map(|one| one.at + (table - one.offset));
        let interpreter = of_type(elf::PT_INTERP).next().map(|one| interpreter(one, endian, file)).transpose()?;
        let align = of_type(elf::PT_LOAD).map(|one| one.p_align(endian)).filter(|align| align.is_power_of_two()).max();
        Ok(Layout {
            pages,
            align: align.unwrap_or(PAGE).max(PAGE),
            entry: header.e_entry(endian),
            headers_at: headers_at.ok_or(Unfit::Damaged("no segment contains the program headers"))?,
            headers: all.len() as u16,
            interpreter,
            executable_stack: of_type(elf::PT_GNU_STACK).any(|one| one.p_flags(endian).contains(elf::PF_X)),
            uses_origin: of_type(elf::PT_DYNAMIC).any(|one| uses_origin(one, endian, file, &segments)),
            segments,
        })
    }
}

/// Returns whether a search path in the dynamic section contains `$ORIGIN`. A section that cannot be read has none: the dynamic linker will say more.
fn uses_origin<'d, R: ReadRef<'d>>(
    section: &ProgramHeader64<Endianness>,
    endian: Endianness,
    file: R,
    segments: &[Segment],
) -> bool {
    let Ok(Some(entries)) = section.dynamic(endian, file) else { return false };
    let values = |tag| entries.iter().filter(move |one| one.d_tag(endian) == tag).map(|one| one.d_val(endian));
    let Some(strings) = values(elf::DT_STRTAB).next() else { return false };
    let contains = |offset: u64| {
        let at = strings.checked_add(offset)?;
        let holds = |one: &&Segment| one.at <= at && at - one.at < one.file_bytes;
        let segment = segments.iter().find(holds)?;
        let begin = segment.offset + (at - segment.at);
        let text = file.read_bytes_at_until(begin..segment.offset + segment.file_bytes, 0).ok()?;
        Some([&b"$ORIGIN"[..], b"${ORIGIN}"].iter().any(|word| text.windows(word.len()).any(|part| part == *word)))
    };
    values(elf::DT_RPATH).chain(values(elf::DT_RUNPATH)).any(|offset| contains(offset).unwrap_or(false))
}

fn segment(header: &ProgramHeader64<Endianness>, endian: Endianness) -> Segment {
    let flags = header.p_flags(endian);
    Segment {
        at: header.p_vaddr(endian),
        memory_bytes: header.p_memsz(endian),
        offset: header.p_offset(endian),
        file_bytes: header.p_filesz(endian),
        readable: flags.contains(elf::PF_R),
        writable: flags.contains(elf::PF_W),
        executable: flags.contains(elf::PF_X),
    }
}

/// Checks that segments can be mapped one after the other. Returns the pages from the first to the last.
fn checked(segments: &[Segment], file_bytes: u64) -> Result<Range<u64>, Unfit> {
    let damaged = |what| Err(Unfit::Damaged(what));
    let mut end = 0;
    for one in segments {
        let fits = |at: u64, bytes: u64, most: u64| at.checked_add(bytes).is_some_and(|end| end <= most);
        if one.file_bytes > one.memory_bytes || one.at % PAGE != one.offset % PAGE {
            return damaged("a segment that does not fit its part of the file");
        }
        // Half of the address space belongs to the kernel.
        if !fits(one.at, one.memory_bytes, 1 << 46) || !fits(one.offset, one.file_bytes, file_bytes) {
            return damaged("a segment outside of the file or the address space");
        }
        if one.at < end {
            return damaged("segments that overlap");
        }
        end = one.at + one.memory_bytes;
    }
    match (segments.first(), segments.last()) {
        (Some(first), Some(last)) => Ok(first.pages().start..last.pages().end),
        _ => damaged("nothing to be mapped"),
    }
}

fn interpreter<'d, R: ReadRef<'d>>(
    header: &ProgramHeader64<Endianness>,
    endian: Endianness,
    file: R,
) -> Result<CString, Unfit> {
    let damaged = || Unfit::Damaged("the name of the dynamic linker");
    if header.p_filesz(endian) > LONGEST_PATH {
        return Err(damaged());
    }
    let bytes = header.data(endian, file).map_err(|()| damaged())?;
    let name = OsStr::from_bytes(bytes.strip_suffix(&[0]).ok_or_else(damaged)?);
    CString::new(name.as_bytes()).map_err(|_| damaged())
}

/// Rounds down to a page.
pub(crate) fn down(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Rounds up to a page.
pub(crate) fn up(address: u64) -> u64 {
    down(address + (PAGE - 1))
}

#[cfg(test)]
mod tests;
