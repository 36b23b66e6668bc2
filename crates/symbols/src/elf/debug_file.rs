//! Separate debug files: distributions strip programs and put `.symtab` into debug files.
//!
//! The GDB manual says where debug files are stored: "Debugging Information in Separate Files".

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use machine::Root;
use object::Object;
use object::read::ReadRef;

use crate::modules::open_regular;

/// Length of the largest debug file that is looked up by its name. The checksum requires reading all of it, and the program chooses the file.
const MAX_LINKED: u64 = 2 << 30;

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
    // The link must be a file name. A path could lead to a file in /proc that is endless, or that blocks the reader until data arrives.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    [folder.join(name), folder.join(".debug").join(name), below_debug.join(name)].into_iter().find_map(|candidate| {
        let file = open_regular(&root.path(&candidate))?;
        (checksum_of(&file)? == checksum).then_some(file)
    })
}

/// Returns the checksum of a file, which is read in pieces. Returns `None` if the file is too large, cannot be read, or has length 0, like files that
/// the kernel generates.
fn checksum_of(file: &File) -> Option<u32> {
    let len = file.metadata().ok()?.len();
    if !(1..=MAX_LINKED).contains(&len) {
        return None;
    }
    // If the file grows meanwhile, the added bytes are not read.
    let mut file = file.take(len);
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(hasher.finalize()),
            len => hasher.update(&piece[..len]),
        }
    }
}

fn by_build_id(id: &[u8], root: &Root) -> Option<File> {
    let (first, rest) = id.split_first()?;
    let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    open_regular(&root.path(format!("{DEBUG}/.build-id/{first:02x}/{hex}.debug")))
}
