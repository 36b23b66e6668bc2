//! The lock of the owner's folder (see [`crate::journals`]).

use std::fs::File;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::Error;
use crate::files::{self, LOCK};
use crate::waiting;

/// The lock. While it is held, no other process of this user changes or undoes anything.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock of a folder, which must exist.
    pub(crate) fn take(folder: &Path) -> Result<Lock, Error> {
        let path = folder.join(LOCK);
        files::open_empty(&path, OFlags::WRONLY | OFlags::CREATE)
            .and_then(|file| {
                waiting::lock(&file, &path)?;
                Ok(Lock { _file: file })
            })
            .map_err(|source| Error::Journal { path, source })
    }
}
