//! Pages in memory that nobody in the kernel writes, for processes that notice themselves when a CPU is left (`signal::{records, sentinel}`).

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
    /// Pages of a process that is gone, which the next one gets.
    cleared: Option<u32>,
}

// SAFETY: mappings of shared memory whose words are atomics.
unsafe impl Send for Memory {}

impl Memory {
    /// Arrays for as many processes as with BPF.
    pub fn new() -> Result<Memory> {
        let (said, said_page) = file(PROCESSES * size_of::<Said>())?;
        let (seen, seen_page) = file(PROCESSES * size_of::<Seen>())?;
        Ok(Memory { files: [said, seen], said: said_page.cast(), seen: seen_page.cast(), given: 0, cleared: None })
    }

    /// A process asks.
    pub fn give(&mut self) -> Result<Given> {
        if self.is_full() {
            bail!("{PROCESSES} processes have asked already");
        }
        let process = self.cleared.take().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        });
        Ok(Given { process, bells: Vec::new() })
    }

    /// Whether the next process gets nothing, unless pages are [cleared](Memory::clear) before.
    pub fn is_full(&self) -> bool {
        self.cleared.is_none() && self.given as usize >= PROCESSES
    }

    /// The next process gets the pages of this one, which is gone.
    pub fn clear(&mut self, process: u32) {
        if self.is_full() && process < self.given {
            // SAFETY: within the mappings, and nobody else writes there.
            unsafe {
                self.said.add(process as usize).write_bytes(0, 1);
                self.seen.add(process as usize).write_bytes(0, 1);
            }
            self.cleared = Some(process);
        }
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

/// Memory that nobody can make shorter, and where it is mapped here.
fn file(bytes: usize) -> Result<(OwnedFd, NonNull<u8>)> {
    let file = memfd_create("coxswain-overlap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).context("memory")?;
    ftruncate(&file, bytes as u64).context("memory")?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).context("memory")?;
    // SAFETY: a new mapping, at an address of the kernel's choice, which stays.
    let place =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) };
    let place = NonNull::new(place.context("mapping memory")?.cast()).context("mapping memory")?;
    Ok((file, place))
}
