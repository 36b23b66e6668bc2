//! The pages of all processes of a session, whoever writes there besides them, and which are whose.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use wire::umt::{PROCESSES, Said, Seen};

/// Both arrays, mapped here for good.
#[derive(Debug)]
pub struct Pages {
    said: NonNull<Said>,
    seen: NonNull<Seen>,
    given: u32,
    /// Pages of a process that is gone, which the next one gets.
    cleared: Option<u32>,
}

// SAFETY: mappings of shared memory whose words are atomics.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps two arrays of [`PROCESSES`] elements each; no process has any yet.
    ///
    /// # Errors
    /// When they cannot be mapped.
    pub fn map(said: BorrowedFd<'_>, seen: BorrowedFd<'_>) -> io::Result<Pages> {
        let said = map(said, PROCESSES * size_of::<Said>())?.cast();
        let seen = map(seen, PROCESSES * size_of::<Seen>())?.cast();
        Ok(Pages { said, seen, given: 0, cleared: None })
    }

    /// Which elements are those of the process that asks next.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.cleared.unwrap_or(self.given)
    }

    /// Whether the next process gets nothing, unless pages are [cleared](Pages::clear) before.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.next() as usize >= PROCESSES
    }

    /// A process gets the [next](Pages::next) ones, if there are any: which they are.
    pub fn give(&mut self) -> Option<u32> {
        let process = (!self.is_full()).then(|| self.next())?;
        if self.cleared.take().is_none() {
            self.given += 1;
        }
        Some(process)
    }

    /// The next process gets the pages of this one, which is gone, with all its threads. To be called when they [are full](Pages::is_full).
    pub fn clear(&mut self, process: u32) {
        if self.is_full() && process < self.given {
            // SAFETY: within the mappings; the process is gone, and BPF writes there only for threads of it.
            unsafe {
                self.said.add(process as usize).write_bytes(0, 1);
                self.seen.add(process as usize).write_bytes(0, 1);
            }
            self.cleared = Some(process);
        }
    }

    /// Elements that processes have or had.
    #[must_use]
    pub fn given(&self) -> u32 {
        self.given
    }

    /// The pages of a process, numbered below [`given`](Pages::given).
    #[must_use]
    pub fn of(&self, process: u32) -> Option<(&Said, &Seen)> {
        // SAFETY: within the mappings, which stay, and whose words are atomics.
        (process < self.given)
            .then(|| unsafe { (self.said.add(process as usize).as_ref(), self.seen.add(process as usize).as_ref()) })
    }
}

fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping, at an address of the kernel's choice, which stays.
    let place =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0) };
    NonNull::new(place?.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
