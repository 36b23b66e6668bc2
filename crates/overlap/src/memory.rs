//! Pages for processes that notice their blocked threads themselves, so that the kernel side writes nothing to the pages
//! (`umt_client::{records, sentinel}`).

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use watch::umt::Given;
use wire::umt::{KernelPage, ProgramPage};

/// Makes the pages of the process with this number.
pub fn give(process: u32) -> Result<Given> {
    Ok(Given {
        process,
        program_page: file(size_of::<ProgramPage>())?,
        kernel_page: file(size_of::<KernelPage>())?,
        bells: Vec::new(),
    })
}

/// Makes memory of a fixed size, which no process can shrink.
fn file(bytes: usize) -> Result<OwnedFd> {
    let file = memfd_create("coxswain-overlap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .context("creating the memory that a process shares with cox")?;
    ftruncate(&file, bytes as u64).context("creating the memory that a process shares with cox")?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .context("creating the memory that a process shares with cox")?;
    Ok(file)
}
