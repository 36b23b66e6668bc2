//! The two pages of one process, as cox reads them.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{MapFlags, ProtFlags};
use wire::umt::{KernelPage, ProgramPage};

use crate::mapping::Mapping;

/// Both pages of a process, mapped read-only. The process can write anything to its program page at any time.
#[derive(Debug)]
pub struct Pages {
    program_page: Mapping,
    kernel_page: Mapping,
}

impl Pages {
    /// Maps the two pages of these descriptors.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map(program_page: BorrowedFd<'_>, kernel_page: BorrowedFd<'_>) -> io::Result<Pages> {
        let map = |fd, bytes| Mapping::new(fd, bytes, ProtFlags::READ, MapFlags::SHARED);
        Ok(Pages {
            program_page: map(program_page, size_of::<ProgramPage>())?,
            kernel_page: map(kernel_page, size_of::<KernelPage>())?,
        })
    }

    /// Returns the program page, which the process writes.
    #[must_use]
    pub fn program_page(&self) -> &ProgramPage {
        // SAFETY: the page is mapped until this value is dropped; every word is an atomic, for which all bit patterns
        // are valid.
        unsafe { &*self.program_page.at(0) }
    }

    /// Returns the kernel page.
    #[must_use]
    pub fn kernel_page(&self) -> &KernelPage {
        // SAFETY: the page is mapped until this value is dropped; every word that is read is an atomic. The padding is
        // never read.
        unsafe { &*self.kernel_page.at(0) }
    }
}
