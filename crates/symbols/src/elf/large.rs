//! Reads from a large file only the parts that are asked for, and no more than a limit in all.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

use object::read::{ReadCache, ReadRef};

/// Maximum number of bytes that are read from one file in total. A sparse file takes no space on the disk, but its sections take memory when they are
/// read, and a file can have thousands of section headers.
const MAX_BYTES: u64 = 1 << 30;

/// A large file. Reads fail once [`MAX_BYTES`] have been read.
pub(super) struct Large {
    cache: ReadCache<File>,
    left: Cell<u64>,
}

impl Large {
    /// Makes a reader, with a descriptor of its own, for the open file.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn new(file: &File) -> std::io::Result<Large> {
        Ok(Large { cache: ReadCache::new(file.try_clone()?), left: Cell::new(MAX_BYTES) })
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'data> ReadRef<'data> for &'data Large {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        let bytes = self.cache.read_bytes_at_until(range, delimiter)?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_not_read_into_memory_without_limit() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * MAX_BYTES).unwrap();
        let large = &Large::new(&file).unwrap();
        assert_eq!(large.read_bytes_at(MAX_BYTES, MAX_BYTES + 1), Err(()));
        assert_eq!(large.read_bytes_at(MAX_BYTES, 3), Ok(&[0, 0, 0][..]));
        assert_eq!(large.read_bytes_at(0, MAX_BYTES - 2), Err(()), "the limit is for all reads together");
    }
}
