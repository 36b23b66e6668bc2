//! Pages in memory that nobody in the kernel writes, for processes that notice idle CPUs themselves (`signal::sentinel`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use anyhow::{Context, Result, bail};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use watch::umt::Given;
use wire::umt::{PROCESSES, Said, Seen};

/// Both arrays.
pub struct Memory {
    files: [OwnedFd; 2],
    said: NonNull<Said>,
    seen: NonNull<Seen>,
    given: u32,
}

// SAFETY: mappings of shared memory whose words are atomics.
unsafe impl Send for Memory {}

impl Memory {
    /// Arrays for as many processes as with BPF.
    pub fn new() -> Result<Memory> {
        let (said, said_page) = file(PROCESSES * size_of::<Said>())?;
        let (seen, seen_page) = file(PROCESSES * size_of::<Seen>())?;
        Ok(Memory { files: [said, seen], said: said_page.cast(), seen: seen_page.cast(), given: 0 })
    }

    /// A process asks.
    pub fn give(&mut self) -> Result<Given> {
        if self.given as usize >= PROCESSES {
            bail!("{PROCESSES} processes have asked already");
        }
        self.given += 1;
        Ok(Given { process: self.given - 1, bells: Vec::new() })
    }

    /// Their descriptors.
    pub fn arrays(&self) -> [BorrowedFd<'_>; 2] {
        self.files.each_ref().map(AsFd::as_fd)
    }

    /// Processes that have asked.
    pub fn given(&self) -> u32 {
        self.given
    }

    /// The pages of a process.
    pub fn pages(&self, process: u32) -> Option<(&Said, &Seen)> {
        // SAFETY: within the mappings, which stay, and whose words are atomics.
        (process < self.given)
            .then(|| unsafe { (self.said.add(process as usize).as_ref(), self.seen.add(process as usize).as_ref()) })
    }
}

/// Memory that nobody can make shorter, and where it is mapped here, to be read.
fn file(bytes: usize) -> Result<(OwnedFd, NonNull<u8>)> {
    let file = memfd_create("coxswain-overlap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).context("memory")?;
    ftruncate(&file, bytes as u64).context("memory")?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).context("memory")?;
    // SAFETY: a new mapping, at an address of the kernel's choice, which stays.
    let place = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
    let place = NonNull::new(place.context("mapping memory")?.cast()).context("mapping memory")?;
    Ok((file, place))
}
