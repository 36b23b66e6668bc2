//! /proc/PID/maps: the memory mappings of a process.

use std::path::PathBuf;

use crate::root::unescape_octal;

/// The kernel's suffix on the path of a file that has been unlinked.
const DELETED: &str = " (deleted)";

/// The memory behind a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// Zero-filled memory without a file.
    Anonymous,
    /// A region the kernel names in brackets, e.g. `[heap]`, `[stack]`, `[vdso]`.
    Special(String),
    /// A file.
    File {
        /// Path in the mount namespace of the process. For a deleted file, the path it had; for
        /// anonymous files the kernel's name, e.g. `/memfd:name`.
        path: PathBuf,
        /// Whether the file has been deleted. If so, the path may lead to nothing or to another file; compare
        /// [`Mapping::device`] and [`Mapping::inode`] before you read symbols from it.
        deleted: bool,
    },
}

/// One memory mapping, as in proc_pid_maps(5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapping {
    /// First address of the mapping.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// Whether the memory may be executed.
    pub executable: bool,
    /// Whether other processes see the writes; if not, the mapping is copy-on-write.
    pub shared: bool,
    /// Offset of `start` in the file, bytes.
    pub offset_bytes: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// Inode number; 0 without a file.
    pub inode: u64,
    /// The memory behind the mapping.
    pub backing: Backing,
}

impl Mapping {
    /// Returns the name of the mapped file; `None` without a file, or if the name is not UTF-8.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        let Backing::File { path, .. } = &self.backing else { return None };
        path.file_name()?.to_str()
    }
}

/// Reads one line; `None` if the line is not a mapping.
pub(super) fn parse_line(line: &str) -> Option<Mapping> {
    // Five fields, then any number of blanks, then the name, which may itself contain blanks.
    let mut rest = line;
    let mut next = || {
        let (field, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind;
        (!field.is_empty()).then_some(field)
    };
    let (start, end) = next()?.split_once('-')?;
    let permissions = next()?.as_bytes();
    let offset = next()?;
    let (major, minor) = next()?.split_once(':')?;
    let inode = next()?.parse().ok()?;
    let name = rest.trim_start_matches(' ');
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let hex_small = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    if permissions.len() != 4 || start > end {
        return None;
    }
    Some(Mapping {
        start,
        end,
        executable: permissions[2] == b'x',
        shared: permissions[3] == b's',
        offset_bytes: hex(offset)?,
        device: (hex_small(major)?, hex_small(minor)?),
        inode,
        backing: backing(name),
    })
}

fn backing(name: &str) -> Backing {
    if name.is_empty() {
        return Backing::Anonymous;
    }
    if name.starts_with('[') {
        return Backing::Special(name.to_owned());
    }
    let (path, deleted) = match name.strip_suffix(DELETED) {
        Some(path) => (path, true),
        None => (name, false),
    };
    Backing::File { path: unescape_octal(path), deleted }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, deleted: bool) -> Backing {
        Backing::File { path: path.into(), deleted }
    }

    #[test]
    fn a_library_mapping() {
        let line = "7f5c8a200000-7f5c8a355000 r-xp 00026000 fe:1a 1049      /usr/lib/libgomp.so.1.0.0";
        let mapping = parse_line(line).expect("well formed");
        assert_eq!((mapping.start, mapping.end), (0x7f5c_8a20_0000, 0x7f5c_8a35_5000));
        assert_eq!((mapping.executable, mapping.shared, mapping.offset_bytes), (true, false, 0x26000));
        assert_eq!((mapping.device, mapping.inode), ((0xfe, 0x1a), 1049));
        assert_eq!(mapping.backing, file("/usr/lib/libgomp.so.1.0.0", false));
    }

    #[test]
    fn names_of_every_kind() {
        let backing =
            |name: &str| parse_line(&format!("1000-2000 rw-s 00000000 00:01 7 {name}")).expect("mapping").backing;
        assert_eq!(backing(""), Backing::Anonymous);
        assert_eq!(backing("     [heap]"), Backing::Special("[heap]".into()));
        assert_eq!(backing("   /a b/c"), file("/a b/c", false));
        assert_eq!(backing("   /a b/c (deleted)"), file("/a b/c", true));
        assert_eq!(backing("   /memfd:x (deleted)"), file("/memfd:x", true));
        assert_eq!(backing("   /line\\012end"), file("/line\nend", false));
        // Without a name the kernel may or may not leave a blank behind the inode.
        let bare = parse_line("1000-2000 rw-p 00000000 00:00 0").expect("mapping");
        assert_eq!(bare.backing, Backing::Anonymous);
    }

    #[test]
    fn lines_that_are_no_mapping() {
        for line in [
            "",
            "1000-2000",
            "1000 rw-p 0 00:00 0",
            "2000-1000 rw-p 0 00:00 0",
            "1000-2000 rw 0 00:00 0",
            "1000-2000 rw-p x 00:00 0",
            "1000-2000 rw-p 0 0000 0",
        ] {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "\\PC{0,80}") {
            let _mapping_or_none = parse_line(&line);
        }
    }
}
