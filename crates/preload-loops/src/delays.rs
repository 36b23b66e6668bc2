//! How long the kernel has let the calling thread wait for a CPU since its birth: the second number of /proc/thread-self/schedstat. Read with a system
//! call, so only if cox asks for it.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable by which cox asks for it.
pub const VARIABLE: &CStr = c"COX_LOOPS_DELAYS";

static WANTED: AtomicBool = AtomicBool::new(false);

/// Notes that cox asks for it. Called before the program runs.
pub fn at_load() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Returns whether cox asks for it.
#[inline]
pub fn are_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Lowest number for the descriptor: programs may rely on small ones.
const KEPT_FROM: c_int = 900;

/// The calling thread's file.
struct File {
    descriptor: Cell<c_int>,
    /// The thread's waiting time at its last reading, nanoseconds.
    last_ns: Cell<u64>,
}

impl Drop for File {
    fn drop(&mut self) {
        if self.descriptor.get() >= 0 {
            // SAFETY: the descriptor is this object's own.
            unsafe { libc::close(self.descriptor.get()) };
        }
    }
}

const NOT_OPEN: c_int = -2;

thread_local! {
    static FILE: File = const { File { descriptor: Cell::new(NOT_OPEN), last_ns: Cell::new(0) } };
}

/// Called in a forked child: the parent's descriptor tells of the parent's thread.
pub fn forked() {
    let _ = FILE.try_with(|file| {
        if file.descriptor.get() >= 0 {
            // SAFETY: the child's copy of the descriptor belongs to this thread.
            unsafe { libc::close(file.descriptor.get()) };
        }
        file.descriptor.set(NOT_OPEN);
        file.last_ns.set(0);
    });
}

/// Returns how long the thread has waited since its last reading, nanoseconds; `None` if that is unknown.
pub fn since_last() -> Option<u64> {
    FILE.try_with(|file| {
        if file.descriptor.get() == NOT_OPEN {
            file.descriptor.set(open());
        }
        let now_ns = read(file.descriptor.get())?;
        Some(now_ns.saturating_sub(file.last_ns.replace(now_ns)))
    })
    .ok()?
}

/// Opens the file; returns -1 if that fails.
#[cold]
fn open() -> c_int {
    // SAFETY: the path is a C string; the descriptors are this function's own.
    unsafe {
        let low = libc::open(c"/proc/thread-self/schedstat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if low < 0 {
            return -1;
        }
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, KEPT_FROM);
        if high < 0 {
            return low;
        }
        libc::close(low);
        high
    }
}

fn read(descriptor: c_int) -> Option<u64> {
    let mut text = [0u8; 64];
    // SAFETY: reads at most as many bytes as there are; an invalid descriptor is an error.
    let length = unsafe { libc::pread(descriptor, text.as_mut_ptr().cast(), text.len(), 0) };
    number(text.get(..usize::try_from(length).ok()?)?)
}

/// Returns the second number of a line.
fn number(line: &[u8]) -> Option<u64> {
    let word = line.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(word).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_waiting_time() {
        assert_eq!(number(b"123 4567 8\n"), Some(4567));
        assert_eq!(number(b""), None);
        assert_eq!(number(b"1 x 2\n"), None);
    }

    #[test]
    fn a_thread_reads_its_own_time() {
        std::thread::spawn(|| {
            since_last().expect("schedstat is there");
            assert!(since_last().expect("the file is still open") < 60_000_000_000);
        })
        .join()
        .unwrap();
    }
}
