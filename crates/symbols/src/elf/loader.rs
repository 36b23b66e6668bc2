//! What a program requests from its dynamic loader.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, FileHeader64, ProgramHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use object::{LittleEndian, Object, ObjectSymbol, StringTable};

/// A dynamically linked program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// Path of the program's dynamic loader.
    pub loader: PathBuf,
    /// Libraries that the program itself needs; the dependencies of these libraries are not included.
    pub libraries: Vec<String>,
    /// Names that the program imports from libraries; some may be optional.
    pub imports: Vec<String>,
}

const LE: LittleEndian = LittleEndian;

impl Dynamic {
    /// Reads a 64-bit little-endian program. `None`: the program is statically linked, not of this kind, or cannot be read.
    #[must_use]
    pub fn read(program: &Path) -> Option<Dynamic> {
        let data = &ReadCache::new(File::open(program).ok()?);
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let segments = header.program_headers(LE, data).ok()?;
        let loader = segments.iter().find_map(|segment| segment.interpreter(LE, data).ok().flatten())?;
        let libraries = libraries(segments, data).unwrap_or_default();
        let imports = object::File::parse(data).map(|elf| imports(&elf)).unwrap_or_default();
        Some(Dynamic { loader: OsStr::from_bytes(loader).into(), libraries, imports })
    }
}

fn imports<'d>(elf: &impl Object<'d>) -> Vec<String> {
    let wanted = elf.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    wanted.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).filter(|name| !name.is_empty()).collect()
}

fn libraries<'d>(segments: &[ProgramHeader64<LittleEndian>], data: impl ReadRef<'d>) -> Option<Vec<String>> {
    let entries = segments.iter().find_map(|segment| segment.dynamic(LE, data).ok().flatten())?;
    let value = |tag| Some(entries.iter().find(|entry| entry.tag(LE) == tag)?.val(LE));
    let (address, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let start = segments.iter().find_map(|segment| {
        let inside = address.checked_sub(segment.p_vaddr(LE)).filter(|inside| *inside < segment.p_filesz(LE))?;
        segment.p_offset(LE).checked_add(inside)
    })?;
    let strings = StringTable::new(data, start, start.checked_add(size)?);
    let needed = entries.iter().filter(|entry| entry.tag(LE) == DT_NEEDED);
    let names = needed.filter_map(|entry| strings.get(entry.val32(LE)?).ok());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_name_their_loader_and_other_files_do_not() {
        let own = Dynamic::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.loader.file_name().unwrap().to_str().unwrap().starts_with("ld-"), "{own:?}");
        assert!(own.libraries.iter().any(|name| name.starts_with("libc.so")), "{own:?}");
        assert!(own.imports.iter().any(|name| name == "write"), "{own:?}");
        assert!(!own.imports.iter().any(|name| name == "main"), "its own: {own:?}");
        assert_eq!(Dynamic::read(&own.loader), None, "the loader itself has none");
        assert_eq!(Dynamic::read(Path::new("/etc/passwd")), None);
        assert_eq!(Dynamic::read(Path::new("/no/such/file")), None);
    }
}
