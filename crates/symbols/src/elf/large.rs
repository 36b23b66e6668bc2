//! Reads from a large file only the parts that are asked for, and refuses parts that are too long.

use std::fs::File;
use std::ops::Range;

use object::read::{ReadCache, ReadRef};

/// Longest part that is read. A sparse file costs nothing on the disk, but a section in its hole takes memory when it is read. A symbol table of this
/// length has 22 million symbols.
const MAX_PART: u64 = 512 << 20;

/// A large file.
#[derive(Clone, Copy)]
pub(super) struct Large<'data>(&'data ReadCache<File>);

/// Returns the cache that [`Large`] reads through.
pub(super) fn cache(file: &File) -> std::io::Result<ReadCache<File>> {
    Ok(ReadCache::new(file.try_clone()?))
}

impl<'data> Large<'data> {
    /// Reads through `cache`.
    pub fn of(cache: &'data ReadCache<File>) -> Large<'data> {
        Large(cache)
    }
}

impl<'data> ReadRef<'data> for Large<'data> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        if size > MAX_PART { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_not_read_into_memory() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * MAX_PART).unwrap();
        let cache = cache(&file).unwrap();
        let large = Large::of(&cache);
        assert_eq!(large.read_bytes_at(MAX_PART, MAX_PART + 1), Err(()));
        assert_eq!(large.read_bytes_at(MAX_PART, 3), Ok(&[0, 0, 0][..]));
    }
}
