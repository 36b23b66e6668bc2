//! Memory (pages) that cox shares with processes which notice their blocked threads themselves, without eBPF (`umt_client::{records, sentinel}`). The
//! kernel writes nothing to these pages.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use watch::umt::Given;
use wire::umt::{KernelPage, ProgramPage};

/// Creates the memory that a process shares with cox: its program page and its kernel page. `process` is the number of the process in the session.
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
