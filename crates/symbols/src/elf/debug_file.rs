//! Separate debug files: distributions strip programs and put `.symtab` into debug files.
//!
//! The GDB manual says where debug files are stored: "Debugging Information in Separate Files".

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use machine::Root;
use object::Object;
use object::read::ReadRef;

const DEBUG: &str = "/usr/lib/debug";

/// Returns the debug file of `elf`, which is at `path`: by its build id, or else by the name in `.gnu_debuglink`, whose checksum must
/// match.
pub(super) fn find<'data>(elf: &object::File<'data, impl ReadRef<'data>>, path: &Path, root: &Root) -> Option<File> {
    if let Ok(Some(id)) = elf.build_id()
        && let Some(file) = by_build_id(id, root)
    {
        return Some(file);
    }
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let folder = path.parent()?;
    let below_debug = PathBuf::from(DEBUG).join(folder.strip_prefix("/").unwrap_or(folder));
    [folder.join(name), folder.join(".debug").join(name), below_debug.join(name)].into_iter().find_map(|candidate| {
        let mut file = File::open(root.path(&candidate)).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        (crc32fast::hash(&bytes) == checksum).then_some(file)
    })
}

fn by_build_id(id: &[u8], root: &Root) -> Option<File> {
    let (first, rest) = id.split_first()?;
    let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    File::open(root.path(format!("{DEBUG}/.build-id/{first:02x}/{hex}.debug"))).ok()
}
