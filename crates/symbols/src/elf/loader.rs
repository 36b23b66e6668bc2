//! Which dynamic loader a program asks for.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

/// The dynamic loader that a 64-bit little-endian program names; `None` when it is static, of another kind, or
/// cannot be read.
#[must_use]
pub fn loader(program: &Path) -> Option<PathBuf> {
    let data = ReadCache::new(File::open(program).ok()?);
    let header = FileHeader64::<LittleEndian>::parse(&data).ok()?;
    let segments = header.program_headers(LittleEndian, &data).ok()?;
    let name = segments.iter().find_map(|segment| segment.interpreter(LittleEndian, &data).ok().flatten())?;
    Some(OsStr::from_bytes(name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_name_their_loader_and_other_files_do_not() {
        let own = std::env::current_exe().unwrap();
        let named = loader(&own).unwrap();
        assert!(named.file_name().unwrap().to_str().unwrap().starts_with("ld-"), "{}", named.display());
        assert_eq!(loader(&named), None, "the loader itself has none");
        assert_eq!(loader(Path::new("/etc/passwd")), None);
        assert_eq!(loader(Path::new("/no/such/file")), None);
    }
}
