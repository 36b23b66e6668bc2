//! Pages in memory that nobody in the kernel writes, for processes that notice themselves when a CPU is left (`signal::{records, sentinel}`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use watch::umt::{Given, Pages};
use wire::umt::{PROCESSES, Said, Seen};

/// Both arrays.
pub struct Memory {
    files: [OwnedFd; 2],
    /// Of all processes.
    pub pages: Pages,
}

impl Memory {
    /// Arrays for as many processes as with BPF.
    pub fn new() -> Result<Memory> {
        let files = [file(PROCESSES * size_of::<Said>())?, file(PROCESSES * size_of::<Seen>())?];
        let pages = Pages::map(files[0].as_fd(), files[1].as_fd()).context("mapping memory")?;
        Ok(Memory { files, pages })
    }

    /// A process asks.
    pub fn give(&mut self) -> Result<Given> {
        let process = self.pages.give().with_context(|| format!("{PROCESSES} processes have asked already"))?;
        Ok(Given { process, bells: Vec::new() })
    }

    /// Their descriptors.
    pub fn arrays(&self) -> [BorrowedFd<'_>; 2] {
        self.files.each_ref().map(AsFd::as_fd)
    }
}

/// Memory that nobody can make shorter.
fn file(bytes: usize) -> Result<OwnedFd> {
    let file = memfd_create("coxswain-overlap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).context("memory")?;
    ftruncate(&file, bytes as u64).context("memory")?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).context("memory")?;
    Ok(file)
}
